"""Sends a conversation as it grows: each request carries what is new since the one before it.

The workflow side of `activities.models.conversations`, which puts the whole conversation together again. The agent
keeps all its messages; only what a request carries is cut. Nothing here asks how often it is replayed: requests are
numbered, and what was sent is recognised by the identity of its messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage
from pydantic_core import to_json
from temporalio import workflow

from llm_do_temporal.errors import BudgetExceeded
from llm_do_temporal.message_history import instructions_in, instructions_of, lean, mark_of
from llm_do_temporal.messages.conversation import CONVERSATION_SETTING, ConversationPart
from llm_do_temporal.messages.sizes import MAX_VALUE_BYTES
from llm_do_temporal.workflows.invocation.model_fallback import running_chain

TURNS_A_RUN = 100
"""Turns after which a workflow is continued as new. The agent looks through all its messages several times a turn, and
a replay goes through all turns: what 100 turns take is little, for both."""
_CONTINUES_EARLY = "continue-early"
"""Runs that started before this was done replay without it."""


def earlier_messages() -> ModelRequest:
    """What stands in an agent's messages for all that was said before its workflow was continued as new."""
    return ModelRequest(parts=[UserPromptPart("(what was said before)")])


class Conversation:
    """What of one invocation's conversation was sent, in this run of its workflow."""

    def __init__(self, base: tuple[str, ...], max_tokens: int | None) -> None:
        self.base = base
        self._max_tokens = max_tokens
        self.number = 0
        """Requests so far."""
        self._sent: list[ModelMessage] = []
        self._parameters: ModelRequestParameters | None = None
        self._instructions: str | None = None
        self._carried: tuple[list[ModelMessage], ModelRequestParameters, ConversationPart] | None = None
        """The last request, for another model that is asked the same."""

    def unsent(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """The messages since the last request."""
        return messages[len(self._sent) :] if self._sent else messages[1 if self.base else 0 :]

    def next_part(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters, *, again: bool = False
    ) -> tuple[list[ModelMessage], ModelRequestParameters, ConversationPart]:
        """The messages and the parameters the next request carries, and what they are part of.

        `again`: the last request failed and another model is asked the same.
        """
        if not again or self._carried is None:
            self._carried = self._new_part(messages, parameters)
        return self._carried

    def _new_part(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[list[ModelMessage], ModelRequestParameters, ConversationPart]:
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
            return fresh, ModelRequestParameters() if same else parameters, part
        part = ConversationPart(number=self.number, base=self.base, max_tokens=self._max_tokens)
        if self._instructions == instructions_in(parameters):
            messages = [lean(message) for message in messages]
        return messages, parameters, part


class HasConversation(Protocol):
    """A workflow that runs the agent, and that can be continued as new between two turns."""

    conversation: Conversation

    async def go_on_as_new(self, messages: Sequence[ModelMessage], usage: RunUsage) -> None:
        """Continue the workflow as new; returns where it cannot be done yet."""
        ...


def _running() -> HasConversation:
    return cast("HasConversation", workflow.instance())


async def go_on_as_new(context: RunContext[Any]) -> None:
    """Continue the running workflow as new, where that can be done yet."""
    await _running().go_on_as_new(context.messages, context.usage)


class IncrementalHistory(AbstractCapability[Any]):
    """Cuts from each request what an earlier one of the running workflow carried."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Begins a new run of the workflow long before the server would suggest it."""
        if _running().conversation.number >= TURNS_A_RUN and workflow.patched(_CONTINUES_EARLY):
            await go_on_as_new(ctx)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """See AbstractCapability. Raises BudgetExceeded where what is new is more than one request can carry."""
        if not workflow.in_workflow():
            return request_context
        conversation, models = _running().conversation, running_chain()
        messages, parameters, part = conversation.next_part(
            list(request_context.messages), request_context.model_request_parameters, again=models.handovers > 0
        )
        part = part.model_copy(update={"tries": models.tries, "live": models.live})
        check_size(messages, parameters)
        if part.answer is not None:
            said = ModelMessagesTypeAdapter.dump_python(messages[1:], mode="json")
            part = part.model_copy(update={"messages": said})
            messages = list[ModelMessage]([ModelRequest(parts=[])])
        settings = {
            **(request_context.model_settings or {}),
            CONVERSATION_SETTING: part.model_dump(exclude_defaults=True),
        }
        request_context.messages = messages
        request_context.model_request_parameters = parameters
        request_context.model_settings = cast("ModelSettings", settings)
        return request_context


def _continues(known: list[ModelMessage], messages: list[ModelMessage]) -> bool:
    """Whether the messages are those already sent, then an answer, then more.

    What is new must begin with an answer: two requests side by side would be sent as one.
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
