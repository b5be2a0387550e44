"""Serves model turns: sends requests, with the files that the history only refers to.

Owns the wrapper around the model that sends. It puts the bytes of attachments, or their text, back where the
conversation carries only their digests, so that no history ever holds them, and lets the model prepare what it gets.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opentelemetry import trace
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.activities.models.answers import (
    call_ids,
    refuse_written_calls,
    storable,
    with_known_end,
    with_plain_calls,
    with_result,
    with_thoughts,
    with_whole_characters,
    without_half_call,
)
from llm_do_temporal.activities.models.attachments import has_blobs, resolve_blobs
from llm_do_temporal.activities.models.batches import BatchedTurns, BatchTimes, told_before
from llm_do_temporal.activities.models.builder import KeylessModel, shown_name
from llm_do_temporal.activities.models.conversations import Conversations, WholeRequest, keyed
from llm_do_temporal.activities.models.failures import (
    final_when_too_large,
    key_failure,
    model_failure,
    quoted,
    unusable_when_unread,
)
from llm_do_temporal.activities.models.requests import prepared, with_asked, with_own_keys
from llm_do_temporal.activities.models.streams import Asked, ask, has_end
from llm_do_temporal.activities.models.usage import counted, priced
from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.errors import LlmDoError, ModelFailed, ModelRefusal
from llm_do_temporal.extension import IN_SERVICE, needs
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import (
    CONVERSATION_SETTING,
    NOT_GIVEN,
    BatchedTurn,
    ConversationPart,
    OtherModel,
)
from llm_do_temporal.pdf.reader import in_thread
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.telemetry.contents import model_attributes
from llm_do_temporal.telemetry.spans import tell

MALFORMED_ANSWER = "MalformedAnswer"
_MALFORMED_ANSWER_ATTEMPTS = 3
"""A model that answers garbage is asked again twice; a fourth identical question seldom helps."""
_MOST_COUNTED_TURNS = 1_000
_MOST_TOLD, _MOST_TOLD_CHARACTERS = 20, 400
"""Most files that an answer tells of because its model did not get them as they are, and the length of such a line."""
_SERVER_IS_BUSY = {
    RPCStatusCode.ABORTED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
}
"""Answers of a Temporal server that cannot give a history just now."""

_log = logging.getLogger(__name__)


KnownTurn = Callable[[Any, str], Awaitable[ModelResponse | None]]
"""Returns the answer of a turn, from what the part of the capability told of it and its content key; None: the model is
asked."""


class UnusableAnswers:
    """Counts of answers that could not be used, by turn. Attempts that brought no answer do not count.

    What another process counted is not known here: a turn that moves to it is asked a few times more.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str | None, ...], int] = OrderedDict()

    def add(self, turn: activity.Info) -> int:
        """Count one more of the turn, and return how many there are."""
        key = (turn.workflow_id, turn.workflow_run_id, turn.activity_id)
        count = self._counts[key] = self._counts.pop(key, 0) + 1
        if len(self._counts) > _MOST_COUNTED_TURNS:
            self._counts.popitem(last=False)
        return count


class TurnStore:
    """Stores that model turns use: the conversations at hand, blobs, what capabilities know, and turns in batches."""

    def __init__(
        self,
        blobs: BlobStore | None = None,
        known: Mapping[str, KnownTurn] | None = None,
        times: BatchTimes | None = None,
        workshop: Path | None = None,
    ) -> None:
        """Without blobs no turn has attachments or a base. `known` are the look-ups of capabilities, by their names.

        `times` are those of turns that go through batch APIs; None for the usual ones. Without the folder of a workshop
        there are no models of its own.
        """
        self.workshop = workshop
        self.blobs = blobs
        self.known = known or {}
        self.conversations = Conversations(blobs)
        self.batches = BatchedTurns(times)
        self.unusable = UnusableAnswers()


class ResolveAttachments(AbstractCapability[Any]):
    """Wraps the model that sends, so that references to attachments become bytes there and only there."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store

    def get_wrapper_model(self, model: Model) -> Model | None:
        """The wrapped model; in workflow code too, where it changes nothing because nothing is sent."""
        return TurnModel(model, self._store)


class TurnModel(WrapperModel):
    """Resolves blob references, logs each turn, and sorts failures into those worth another attempt and others."""

    def __init__(self, wrapped: Model, store: TurnStore | None = None) -> None:
        """`store`: None where turns carry all that they need."""
        super().__init__(wrapped)
        self._store = store or TurnStore()

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send one turn."""
        part = _part(model_settings)
        # A script answers at once and costs nothing.
        batched = part is not None and part.batched and self.wrapped.provider is not None
        turn = told_before() if batched else None
        key = ""
        said = messages
        told: list[str] = []

        async def assemble() -> WholeRequest:
            nonlocal key, said
            # A turn depends on its model by the name that people see, and by the provider's.
            name = f"{shown_name(self.wrapped)} {self.wrapped.model_id}"
            parts = (messages, model_settings, model_request_parameters)
            whole, key = await self._store.conversations.keyed(*parts, name)
            said = whole[0]
            return whole

        async def build() -> Asked:
            return await self._ready(*await assemble(), told)

        def finish(answer: ModelResponse, asked: Asked, *, batched: bool = True) -> ModelResponse:
            with unusable_when_unread(self.wrapped):
                return self._stored(_told(answer, told), asked, said, key=key, batched=batched)

        async with _one_turn(self.wrapped, part, turn, self._store.unusable):
            if turn is not None and turn.custom_id:
                # It was looked up before it was sent.
                return await self._store.batches.answer(self.wrapped, turn, build, finish)
            whole = await assemble()
            known = None if part is None else await self._known(part, key)
            if known is not None:
                return self._store.conversations.mark(keyed(known, key), whole[0])
            if turn is not None:
                ready = partial(self._ready, *whole, told)
                return await self._store.batches.answer(self.wrapped, turn, ready, finish)
            asked = await self._ready(*whole, told)
            live = part is None or part.live
            with unusable_when_unread(self.wrapped):
                return finish(await ask(self.wrapped, *asked, live=live), asked, batched=False)

    def _stored(
        self, answer: ModelResponse, asked: Asked, said: list[ModelMessage], *, key: str, batched: bool = False
    ) -> ModelResponse:
        """Return the answer as the history gets it: plain, counted, priced, marked, with the turn's content key.

        `said` is the conversation as it is kept.
        """
        sent, _, parameters = asked
        if self.wrapped.provider is not None and not answer.parts and not has_end(answer):
            raise UnexpectedModelBehavior("the answer is empty, and does not say why it ended")
        answer, estimated = counted(with_known_end(with_whole_characters(answer)), sent, parameters)
        answer = with_result(without_half_call(with_thoughts(answer, self.wrapped)), parameters)
        if self.wrapped.provider is not None:
            refuse_written_calls(answer, parameters)
        answer = with_own_keys(with_plain_calls(answer, parameters, call_ids(said)), parameters)
        whole = {tool.name for tool in parameters.output_tools}
        stored = priced(storable(answer, whole=whole), self.wrapped, batched=batched)
        stored = with_asked(stored, self.wrapped)
        if estimated:
            stored = replace(stored, usage=replace(stored.usage, unmeasured_requests=1))
            tokens = f"{stored.usage.input_tokens} in and {stored.usage.output_tokens} out are estimated"
            _log.warning("%s reported no usable count of tokens: %s", shown_name(self.wrapped), tokens)
        return self._store.conversations.mark(keyed(stored, key) if key else stored, sent)

    async def _ready(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        told: list[str],
    ) -> Asked:
        """Return a whole request as the model gets it: with its files, and in words that its provider knows.

        `told` gets a line about each file that the model does not get as it is.
        """
        name, has = shown_name(self.wrapped), self.wrapped.profile.get("supported_native_tools", frozenset())
        for tool in parameters.native_tools:
            if not isinstance(tool, tuple(has)):
                listed = ", ".join(sorted(kind.kind for kind in has)) or "none"
                raise ModelRefusal(
                    f"model '{name}' has no server-side tool '{tool.kind}'; it has: {listed}",
                    next_step="Choose another model, or take the tool out of `server_side_tools`.",
                )
            unknown = self.wrapped.unsupported_native_tool_settings(tool)
            if unknown:
                raise ModelRefusal(
                    f"model '{name}' cannot limit its tool '{tool.kind}' by {', '.join(sorted(unknown))}",
                    next_step="Take the option out of `server_side_tools`, or choose another model.",
                )
        # Files first: their content is looked at like anything else that somebody else has written. They are read in a
        # thread: that takes seconds, and heartbeats go on.
        if has_blobs(messages):
            messages = await in_thread(resolve_blobs, messages, self._store.blobs, self.wrapped, told)
        messages, parameters = prepared(self.wrapped, messages, settings, parameters)
        # The provider's own client must not retry: retrying is Temporal's job, where it is seen and survives.
        return messages, {**(settings or {}), "max_retries": 0}, parameters

    async def _known(self, part: ConversationPart, key: str) -> ModelResponse | None:
        """Return the answer that a capability knows of the turn with this key; None: the model is asked.

        Raises ExtensionNeeded.
        """
        for name, told in part.parts.items():
            known = self._store.known.get(name)
            if known is None:
                needs(name, "this turn", where=IN_SERVICE)
                continue
            answer = await known(told, key)
            if answer is not None:
                return answer
        return None


def _told(answer: ModelResponse, told: list[str]) -> ModelResponse:
    """Return the answer with the lines about files that its model did not get as they are."""
    lines = [line[:_MOST_TOLD_CHARACTERS] for line in dict.fromkeys(told)][:_MOST_TOLD]
    return replace(answer, metadata={**(answer.metadata or {}), NOT_GIVEN: lines}) if lines else answer


def _part(settings: ModelSettings | None) -> ConversationPart | None:
    """Return the part of the conversation that the request is; None for one that carries its whole conversation."""
    part = (settings or {}).get(CONVERSATION_SETTING)
    return None if part is None else ConversationPart.model_validate(part)


@asynccontextmanager
async def _one_turn(
    asked: Model, part: ConversationPart | None, batched: BatchedTurn | None, counts: UnusableAnswers
) -> AsyncGenerator[None]:
    info, model = activity.info(), shown_name(asked)
    # Most attempts of a turn that waits for a batch ask the model nothing.
    attempt = info.attempt if batched is None else batched.failed + 1
    tell(trace.get_current_span(), model_attributes(asked.model_id))
    tries = None if part is None else part.tries
    since = info.scheduled_time if batched is None else None
    turn = f"{info.workflow_id} turn={info.activity_id} attempt={info.attempt} model={model}"
    _log.info("model turn asked: %s", turn)
    try:
        if isinstance(asked, KeylessModel):
            raise key_failure(model, asked.variable, attempt=attempt, tries=tries)
        with final_when_too_large(model):
            yield
    except ModelAPIError as error:
        failure = model_failure(error, model, attempt=attempt, tries=tries, since=since)
        _log.warning("model turn failed: %s: %s", turn, failure)
        raise failure from None
    except ApplicationError as error:
        is_waiting = error.type == WAITS_FOR_BATCH
        words = "model turn goes on waiting: %s: %s" if is_waiting else "model turn failed: %s: %s"
        _log.log(logging.INFO if is_waiting else logging.WARNING, words, turn, error)
        raise
    except AgentRunError as error:
        _log.warning("model turn unusable: %s: %s", turn, quoted(str(error)))
        answered = counts.add(info) if batched is None else attempt
        if answered < _MALFORMED_ANSWER_ATTEMPTS:
            # Under its own name Pydantic AI's retry policy would not try it again.
            raise ApplicationError(quoted(str(error)), type=MALFORMED_ANSWER) from None
        unusable = ModelFailed(f"the model's answer could not be used: {quoted(str(error))}")
        raise as_failure(unusable, other_model=OtherModel.INSTEAD) from None
    except LlmDoError as error:
        other = OtherModel.INSTEAD if isinstance(error, ModelRefusal) else None
        raise as_failure(error, other_model=other) from error
    except OSError as error:
        # A connection that broke where the provider's library did not expect it, or a disk that is busy.
        _log.warning("model turn failed: %s: %s", turn, error)
        raise
    except Exception as error:
        if isinstance(error, RPCError) and error.status in _SERVER_IS_BUSY:
            _log.warning("model turn failed: %s: %s", turn, error)
            raise
        # Whatever else goes wrong while a turn is prepared or decoded goes wrong every time it is tried.
        _log.exception("model turn broken: %s", turn)
        raise as_failure(ModelFailed(f"the model turn failed: {type(error).__name__}: {quoted(str(error))}")) from None
    _log.info("model turn answered: %s", turn)
