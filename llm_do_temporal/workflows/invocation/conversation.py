"""The conversation of an invocation, sent as it grows: each request carries the messages since the one before it.

The workflow side of `activities.models.conversations`, which puts the whole conversation together again. The agent
keeps all its messages; only the content of a request is cut. A replay comes to the same: requests are numbered, and
messages that were sent are recognised by their identity as Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_core import to_json

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.message_history import instructions_in, instructions_of, lean, mark_of, reference
from llm_do_temporal.messages.conversation import ConversationPart
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import Attachment, Form, accepted_files, attachment_forms
from llm_do_temporal.policy.models import Accepts, label, models_of
from llm_do_temporal.redaction.hidden_characters import made_visible

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


_NOTHING_SAID = "Begin."
"""Providers refuse an empty message; a worker may be started with no prompt at all."""


def first_message(invocation: InvokeWorkerInput) -> str | list[UserContent]:
    """Return the first user message of an invocation. Raises AttachmentRefusal for a file that a model cannot get."""
    aliases, model = invocation.settings.models.aliases, invocation.model
    forms = attachment_forms(
        invocation.attachments,
        invocation.worker.attachments_as or invocation.settings.attachments_as,
        frozenset[Accepts].intersection(*(accepted_files(aliases, name) for name in models_of(model))),
        model=label(aliases, model),
    )
    return opening(invocation.prompt, invocation.input, invocation.attachments, forms)


def opening(
    prompt: str, given: Any, attachments: Sequence[Attachment], forms: Sequence[Form]
) -> str | list[UserContent]:
    """Return the first user message: prompt, input, and a reference to each attachment.

    The activity of the model turn replaces the references by the files in their `forms`.
    """
    texts = [prompt] if prompt.strip() else []
    if given is not None:
        texts.append(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2))
    text = "\n\n".join(texts) or _NOTHING_SAID
    if not attachments:
        return text
    content: list[UserContent] = [text]
    for attachment, form in zip(attachments, forms, strict=True):
        # A name with a line end would add lines of its own to the prompt.
        shown = attachment.model_copy(update={"path": made_visible(attachment.path, keep="")})
        content.append(f"Attached file: {shown.path} ({attachment.media_type}, {attachment.bytes} bytes)")
        content.append(reference(shown, form))
    return content
