"""Conversations on the wire: each request carries what is new, and which request it continues.

Requests are numbered from 1 within one run of a workflow. What an invocation said before it was continued as new
is kept in blobs, its base.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from llm_do_temporal.messages.base import Json, Message, is_empty, is_none
from llm_do_temporal.messages.budget import Saved, Spending, Usage
from llm_do_temporal.messages.definitions import DelegateTool, ExternalToolListing
from llm_do_temporal.messages.layers import LayerState

CONVERSATION_SETTING = "llm_do_conversation"
"""The key of a request's model settings that holds its ConversationPart; taken out before anything is sent."""


ANSWER_MARK = "llm_do_answer"
"""The key of an answer's metadata that holds its mark: no two answers within one run of a workflow share one."""
OTHER_MODEL = "other_model"
"""The key of a failed turn's details that holds an OtherModel; without it no other model would answer either."""
TURN_KEYS = "llm_do_keys"
"""The key of an answer's metadata that holds its TurnKeys."""
NOT_GIVEN = "llm_do_not_given"
"""The key of an answer's metadata that holds lines about files which its model did not get as they are."""
REUSED = "llm_do_reused"
"""The key of an answer's metadata that holds the Reused of a turn that no model was asked for."""
FIRST_TRIES = 2
"""Attempts at a model, at first, before another one is asked: one mishap changes nothing."""


class OtherModel(StrEnum):
    """Whether another model may answer a turn that failed."""

    MEANWHILE = "meanwhile"
    """Fallback until the failed model can be asked again."""
    INSTEAD = "instead"
    """Fallback for good: the failed model would fail again."""


class ConversationPart(Message):
    """Part of a conversation that a request carries. A request without one carries the whole conversation."""

    number: int
    after: int | None = None
    """The request whose conversation, with this request's messages behind it, is the whole one; and whose tools and
    instructions it has. None: the messages are all there is since the base."""
    answer: str | None = None
    """The mark of the answer to that request, which the history has as the result of its turn; `messages` are what
    comes after it. None: the answer is among the request's own messages."""
    messages: Any = None
    """A list of Pydantic AI messages, as JSON, for which the first of the request's own messages only stands: in its
    own ones Pydantic AI drops results without their calls. None where there is no `answer`."""
    retooled: bool = False
    """Whether the request has tools of its own, because the worker has got more of them since."""
    base: tuple[str, ...] = ()
    """Blobs with the earlier messages, oldest first. The first message of the request only stands for them."""
    max_tokens: int | None = None
    """Largest conversation that the model is told, about, in tokens; None for all of it."""
    tries: int | None = None
    """Attempts that are enough, because another model can be asked; None: as many as it takes."""
    live: bool = True
    """Whether the answer may be watched while it is written."""
    batched: bool = False
    """Whether the request goes through its provider's batch API, where it waits for up to a day and costs less."""
    parts: dict[str, Json] = Field(default_factory=dict)
    """Values by which extensions know the turn before a model is asked, by the names of these."""


class Reused(Message):
    """Origin of a turn that was not asked of a model: in the metadata of its answer."""

    run: str
    path: str
    turn: int
    saved: Saved = Saved()
    """Usage of the turn in the other run."""

    @property
    def place(self) -> str:
        """Run, path and turn in words, like `decks-1 main turn 3`."""
        return f"{self.run} {self.path} turn {self.turn}"


class TurnKeys(Message):
    """Content keys of a turn; see `policy.identity`."""

    turn: str
    """Key of the turn: of all that the answer depends on."""


class KeepConversationInput(Message):
    """Input of `keep_conversation`: the conversation of the calling workflow goes to the blob store."""

    number: int
    """The last request that was sent."""
    base: tuple[str, ...] = ()
    messages: Any
    """Messages since that request: a list of Pydantic AI messages, as JSON."""


class KeptConversation(Message):
    """Result of `keep_conversation`."""

    base: tuple[str, ...]


class ContinuedInvocation(Message):
    """State of an invocation that its workflow takes along when it is continued as new."""

    base: tuple[str, ...]
    usage: dict[str, Any]
    """Pydantic AI's RunUsage so far."""
    asked: int = 0
    """Questions that were asked."""
    tool_calls: int = 0
    saved: Saved | None = Field(default=None, exclude_if=is_none)
    """Turns of its own that it reused; None: none. They count among the requests of `usage`."""
    below: Usage = Usage()
    """The part of `usage` that those it called have spent."""
    created: tuple[DelegateTool, ...] = ()
    """Workers that this invocation made."""
    delegations: dict[str, int] = Field(default_factory=dict)
    """Number of calls of each worker, by its name."""
    occurrences: dict[str, int] = Field(default_factory=dict)
    """Number of calls of a Python tool with the same arguments, by digest of the call."""
    spending: Spending = Spending()
    external: ExternalToolListing | None = None
    """The tools of toolsets from elsewhere, as they were when the invocation began."""
    layer: LayerState | None = Field(default=None, exclude_if=is_none)
    """Layer that it works on; None: it works on the workshop's files."""
    parts: dict[str, Json] = Field(default_factory=dict, exclude_if=is_empty)
    """States of the parts that extensions have in it, by the names of these."""


class LiveText(Message):
    """Unfinished answer of a model, or why there is none yet; in the details of a heartbeat and in no history."""

    text: str
    """The end of all its parts: thinking, text, calls of tools as `name` and their arguments."""
    chars: int
    """Length of the whole answer so far, in characters."""
    attempt: int = 1
    """Number of the attempt that writes it. The server keeps the text of an attempt until the next attempt has some."""
    part: Literal["text", "thinking", "tool-call", "waits"] = "text"
    """Kind of the part that is being written; `waits` where nothing is, and the text says what the turn waits for."""
    said: int = 0
    """Number of characters of all its texts so far, without thinking and calls."""
    part_chars: int = 0
    """Number of characters at the end of `text` that are of the part being written, as the model wrote them; 0 where
    a key was taken out."""
    asked_at: AwareDatetime | None = None
    """Time at which the turn was scheduled, by which it is known; None outside of a workflow."""


class BatchedTurn(Message):
    """Turn that goes through its provider's batch API, in the details of a heartbeat and in no history.

    The next attempt at the turn goes on from there, in whichever process.
    """

    custom_id: str
    """Id of the request within its batch, which no other request ever has; empty: nothing was sent."""
    group: str = ""
    """Endpoint, credential (a digest) and model that requests of one batch share, as the provider's library has it."""
    sent_at: datetime | None = None
    """Time at which the request was handed over to be sent; None: nothing was sent."""
    batch: dict[str, Any] | None = None
    """The provider's batch; None where the request may have been sent, and nobody heard what became of it."""
    alone: bool = False
    """Whether the request goes into a batch of its own, because one that it shared was refused."""
    failed: int = 0
    """Number of times that the request came back without an answer."""
