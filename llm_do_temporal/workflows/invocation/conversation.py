"""The conversation of an invocation, sent as it grows: each request carries the messages since the one before it.

The workflow side of `activities.models.conversations`, which puts the whole conversation together again. The agent
keeps all its messages; only the content of a request is cut. A replay comes to the same: requests are numbered, and
messages that were sent are recognised by their identity as Python objects.
"""

from __future__ import annotations

from typing import NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import to_json

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.message_history import instructions_in, instructions_of, lean, mark_of
from llm_do_temporal.messages.conversation import ConversationPart
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES

TURNS_A_RUN = 100
"""Turns after which a workflow is continued as new. The agent looks through all its messages several times a turn, and
a replay goes through all turns: 100 turns take little time for both."""


def earlier_messages() -> ModelRequest:
    """Return the message that stands for all messages from before the workflow was continued as new."""
    return ModelRequest(parts=[UserPromptPart("(what was said before)")])


class NextRequest(NamedTuple):
    """The next request of a conversation, cut to what no earlier one carried."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    part: ConversationPart
    """The place of these messages in the whole conversation."""


class Conversation:
    """The part of an invocation's conversation that was sent in this run of its workflow.

    `base` names the conversation of earlier runs in the blob store; empty: this is the first run.
    """

    def __init__(self, base: tuple[str, ...], max_tokens: int | None) -> None:
        self.base = base
        self._max_tokens = max_tokens
        self.number = 0
        """Number of requests so far."""
        self._sent: list[ModelMessage] = []
        self._parameters: ModelRequestParameters | None = None
        self._instructions: str | None = None
        self._carried: NextRequest | None = None
        """Last request, for another model that gets the same."""

    @property
    def fills_run(self) -> bool:
        """Whether this run of the workflow has had TURNS_A_RUN turns."""
        return self.number >= TURNS_A_RUN

    def unsent(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Return the messages since the last request."""
        return messages[len(self._sent) :] if self._sent else messages[1 if self.base else 0 :]

    def next_part(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters, *, again: bool = False
    ) -> NextRequest:
        """Return the next request of the conversation with these messages; it must be sent.

        `again`: the last request failed, and another model gets the same.
        """
        if not again or self._carried is None:
            self._carried = self._new_part(messages, parameters)
        return self._carried

    def _new_part(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> NextRequest:
        self.number += 1
        known, self._sent = self._sent, list(messages)
        known_parameters, self._parameters = self._parameters, parameters
        known_instructions, self._instructions = self._instructions, instructions_of(messages)
        if self._instructions == known_instructions and _continues(known, messages):
            fresh = [lean(message) for message in messages[len(known) :]]
            mark = mark_of(messages[len(known)]) if fresh[1:] else None
            same = parameters == known_parameters
            part = ConversationPart(
                number=self.number,
                after=self.number - 1,
                answer=mark,
                retooled=not same,
                max_tokens=self._max_tokens,
            )
            return NextRequest(fresh, ModelRequestParameters() if same else parameters, part)
        part = ConversationPart(number=self.number, base=self.base, max_tokens=self._max_tokens)
        if self._instructions == instructions_in(parameters):
            messages = [lean(message) for message in messages]
        return NextRequest(messages, parameters, part)


def _continues(known: list[ModelMessage], messages: list[ModelMessage]) -> bool:
    """Whether the messages are those already sent, then an answer, then more.

    The new messages must begin with an answer: two requests side by side would be sent as one.
    """
    if not known or len(messages) <= len(known) or not isinstance(messages[len(known)], ModelResponse):
        return False
    return all(old is new for old, new in zip(known, messages, strict=False))


def check_size(messages: list[ModelMessage], parameters: ModelRequestParameters | None = None) -> None:
    """Raise BudgetExceeded for messages that are too much for one value: they would be sent again for ever."""
    size = len(ModelMessagesTypeAdapter.dump_json(messages)) + len(to_json(parameters))
    if size > MAX_VALUE_BYTES:
        raise BudgetExceeded(
            f"what is new in the conversation has {size} bytes; at most {MAX_VALUE_BYTES} can be sent at once",
            next_step="Read files in smaller parts, or delegate parts of the work to other workers.",
        )
