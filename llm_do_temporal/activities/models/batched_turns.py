"""Model turn through a batch API, one attempt of its activity at a time.

The first attempt sends the request, together with others, and ends; the following ones look at the batch, and each
but the last ends as a failure that says when the next one comes. So a turn that waits takes no slot, no memory and no
connection, and a service that dies takes nothing along. What the next attempt must know is in the details of the
heartbeat, where the server keeps it: what is about to be sent, before it is sent, and the batch, once there is one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models._batch_codec import (
    BatchJobError,  # pyright: ignore[reportPrivateUsage] - what is raised for a batch that ran nothing
)
from pydantic_ai.models.batch import Batch, BatchRequest, BatchResult
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from llm_do_temporal.activities.models.builder import shown_name
from llm_do_temporal.activities.models.failures import said
from llm_do_temporal.activities.models.provider_batches import (
    BatchNotSeen,
    NotWanted,
    Passenger,
    WaitingTurn,
    find,
    loop_batches,
)
from llm_do_temporal.activities.models.streams import Asked
from llm_do_temporal.errors import ModelFailed, ModelRefusal
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.policy.models import PROVIDERS_WITH_BATCHES, next_look

_BATCH: TypeAdapter[Batch] = TypeAdapter(Batch)
_BATCH_ID_CHARS = 80
_REFUSED = 500
"""Status from which it cannot be told whether the provider has made a batch."""
_CANCELLED = 499
_OF_ALL = (ModelAuthenticationError, ModelNotFoundError)
"""Refusals that no request of a batch is the reason of."""
_FAILED_WHOLE = {"failed", "JOB_STATE_FAILED"}
"""States of a batch none of whose requests ran, because of one of them or for a reason of its provider."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchTimes:
    """Times of turns that go through batch APIs."""

    window: timedelta = timedelta(seconds=10)
    """Time that requests wait for others, to leave together."""
    check: timedelta = timedelta(seconds=30)
    """Time to the first look at a batch; the times between later ones grow up to twenty times as long."""


def told_before() -> BatchedTurn:
    """Return what earlier attempts of the running activity have told the server."""
    details = activity.info().heartbeat_details
    if details and isinstance(details[0], dict):
        try:
            return BatchedTurn.model_validate(details[0])
        except ValidationError:
            pass  # the end of an answer that was written live, by an attempt of another mode
    return _unsent()


class BatchedTurns:
    """Turns of one service that go through batch APIs."""

    def __init__(self, times: BatchTimes | None = None) -> None:
        """`times`: None for the usual ones."""
        self._times = times or BatchTimes()

    async def answer(
        self,
        model: Model,
        turn: BatchedTurn,
        build: Callable[[], Awaitable[Asked]],
        finish: Callable[[ModelResponse, Asked], ModelResponse],
    ) -> ModelResponse:
        """Return the model's answer; `build` makes the request that is sent, and `finish` what is kept of its answer.

        Raises ApplicationError of the type WAITS_FOR_BATCH until it is there, ModelAPIError for a request that failed,
        ModelRefusal where the provider has no batches or the request cannot go through one.
        """
        if model.batch_max_requests is None:
            providers = ", ".join(PROVIDERS_WITH_BATCHES)
            raise ModelRefusal(
                f"model '{shown_name(model)}' has no batch API for `turns: batch`",
                next_step=f"Set `turns: now`, or name a model of a provider that has one: {providers}.",
            )
        try:
            if turn.sent_at is not None and turn.batch is None:
                turn = await self._found(model, turn)
            if turn.batch is None:
                turn = await self._sent(model, turn, await build())
                raise self._waits(model, turn)
            result = await self._result(model, turn)
            if result is None:
                raise self._waits(model, turn)
            return await self._decoded(model, turn, result, await build(), finish)
        except UserError as error:
            raise ModelRefusal(
                f"model '{shown_name(model)}' cannot be asked with `turns: batch`: {error}",
                next_step="Set `turns: now`, or take what it names out of `model_settings`.",
            ) from error

    async def _found(self, model: Model, turn: BatchedTurn) -> BatchedTurn:
        """Return the turn with the batch that its request is in, or as one that was never sent."""
        try:
            batch = await find(model, turn, datetime.now(UTC))
        except BatchNotSeen:
            raise _waiting(f"its turn is looked for among the batches of {model.system}", self._times.check) from None
        except ModelAPIError as error:
            raise self._not_seen(model, error) from error
        if batch is None:
            _log.info("request %s was never sent", turn.custom_id)
            return _unsent(alone=turn.alone, failed=turn.failed)
        return await self._tell(turn.model_copy(update={"batch": _BATCH.dump_python(batch, mode="json")}))

    async def _sent(self, model: Model, turn: BatchedTurn, asked: Asked) -> BatchedTurn:
        info, now = activity.info(), datetime.now(UTC)
        name = f"{info.workflow_id} {info.workflow_run_id} {info.activity_id} {now.isoformat()}"
        custom_id = hashlib.sha256(name.encode()).hexdigest()[:48]
        encoded = await model.batch_encode(_request(custom_id, asked))
        turn = BatchedTurn(
            custom_id=custom_id, group=encoded.group, sent_at=datetime.now(UTC), alone=turn.alone, failed=turn.failed
        )
        # Whoever goes on after a crash must know that there may be a batch, so this comes first.
        await self._tell(turn)
        passenger = Passenger(encoded, partial(_is_wanted, activity.client(), info.task_token, turn))
        try:
            batch = await loop_batches().departures.join(model, passenger, self._times.window, alone=turn.alone)
        except NotWanted:
            with suppress(RPCError):
                await self._tell(_unsent(alone=turn.alone, failed=turn.failed))
            raise _waiting("its turn was taken over before it was sent", self._times.check) from None
        except ModelAPIError as error:
            if not isinstance(error, ModelHTTPError) or error.status_code >= _REFUSED:
                # From now on it counts how long the provider does not list a batch.
                await self._tell(turn.model_copy(update={"sent_at": datetime.now(UTC)}))
                raise self._not_seen(model, error) from error
            if isinstance(error, ModelRequestRejectedError) and not isinstance(error, _OF_ALL):
                await self._apart(turn, said(error))
            else:
                await self._came_back(turn)
            raise
        return await self._tell(turn.model_copy(update={"batch": _BATCH.dump_python(batch, mode="json")}))

    async def _result(self, model: Model, turn: BatchedTurn) -> BatchResult | None:
        """Return what came of the request; None while its batch is under way. Raises ModelAPIError."""
        batch = _batch(turn)
        try:
            state, answers = await loop_batches().checks.look(model, batch, self._times.check)
        except BatchJobError as error:
            loop_batches().abandoned.ended(batch)
            if error.status_code == _CANCELLED:
                return BatchResult(custom_id=turn.custom_id, status="canceled")
            if error.status_code < _REFUSED:
                await self._apart(turn, said(error))
                raise ModelRequestRejectedError(error.model_name, said(error)) from error
            await self._came_back(turn)
            raise
        except ModelNotFoundError as error:
            raise ModelFailed(
                f"the provider of model '{shown_name(model)}' does not know batch {batch.id[:_BATCH_ID_CHARS]} "
                f"any more: {said(error)}",
                next_step="Providers keep answers for some days or weeks, and for the account that asked. Start again.",
            ) from error
        except ModelAPIError as error:
            if isinstance(error, ModelAuthenticationError):
                raise
            raise self._not_seen(model, error) from error
        except ValueError as error:
            # Counted, but not forgotten: the next attempt reads the same answers again.
            await self._tell(turn.model_copy(update={"failed": turn.failed + 1}))
            raise UnexpectedModelBehavior(f"the answers of its batch cannot be read: {type(error).__name__}") from error
        if answers is None:
            return None
        loop_batches().abandoned.ended(batch)
        return await self._own_result(model, turn, state, answers)

    async def _own_result(
        self, model: Model, turn: BatchedTurn, state: Batch, answers: dict[str, BatchResult]
    ) -> BatchResult:
        """Return what came of the request, out of the answers of its batch, which has ended."""
        result = answers.get(turn.custom_id)
        details = state.provider_details or {}
        was_whole = str(details.get("status") or details.get("state") or "") in _FAILED_WHOLE
        if result is not None and result.status == "errored" and was_whole:
            await self._apart(turn, "one of its requests was refused")
        if result is None:
            unlisted = model._batch_unlisted_status(state)  # pyright: ignore[reportPrivateUsage] - part of reading results
            result = BatchResult(custom_id=turn.custom_id, status=unlisted or "expired")
        return result

    async def _decoded(
        self,
        model: Model,
        turn: BatchedTurn,
        result: BatchResult,
        asked: Asked,
        finish: Callable[[ModelResponse, Asked], ModelResponse],
    ) -> ModelResponse:
        if result.status == "canceled":
            raise ModelFailed(
                f"the batch of model '{shown_name(model)}' was cancelled at its provider before the turn was answered",
                next_step="Whoever cancelled it meant it to stop. Start again, or set `turns: now`.",
            )
        try:
            return finish(model.batch_decode(result, _request(turn.custom_id, asked)), asked)
        except Exception:
            # Whatever it was, the same answer read once more would be the same.
            await self._came_back(turn)
            raise

    async def _apart(self, turn: BatchedTurn, why: str) -> None:
        """Send the requests of a batch, of which none ran, one by one; return where the batch had only this one."""
        if turn.alone:
            await self._came_back(turn)
            return
        await self._tell(_unsent(alone=True, failed=turn.failed))
        raise _waiting(f"its batch failed, so it is sent alone: {why}", self._times.window)

    async def _came_back(self, turn: BatchedTurn) -> None:
        """Tell that the request has come back without an answer: the next attempt sends it anew."""
        await self._tell(_unsent(alone=turn.alone, failed=turn.failed + 1))

    async def _tell(self, turn: BatchedTurn) -> BatchedTurn:
        """Tell the server what the next attempt must know, and return once it has that."""
        # The other heartbeats of this attempt repeat it from now on.
        activity.heartbeat(turn)
        handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
        try:
            await handle.heartbeat(turn)
        except AsyncActivityCancelledError:
            raise _waiting("nobody waits for the turn any more", self._times.check) from None
        return turn

    def _waits(self, model: Model, turn: BatchedTurn) -> ApplicationError:
        info, batch = activity.info(), _batch(turn)
        assert turn.sent_at is not None
        assert info.workflow_id is not None
        assert info.workflow_run_id is not None
        waiting = WaitingTurn(info.workflow_id, info.workflow_run_id, info.activity_id)
        every = self._times.check
        loop_batches().abandoned.waits(activity.client(), model, batch, turn.custom_id, waiting, every)
        count = f", {batch.request_count} requests" if batch.request_count > 1 else ""
        since = f"{turn.sent_at:%Y-%m-%d %H:%M} UTC"
        message = f"its turn waits for a batch of {model.system} since {since} ({batch.id[:_BATCH_ID_CHARS]}{count})"
        return _waiting(message, next_look(datetime.now(UTC) - turn.sent_at, self._times.check))

    def _not_seen(self, model: Model, error: ModelAPIError) -> ApplicationError:
        """The failure of an attempt that did not reach the provider; whatever waits there goes on waiting."""
        return _waiting(
            f"its turn waits for {model.system}, whose batches cannot be asked for: {said(error)}", self._times.check
        )


async def _is_wanted(client: Client, task_token: bytes, turn: BatchedTurn) -> bool:
    """Return whether the server still waits for this attempt. What cannot be asked for is not sent."""
    try:
        await client.get_async_activity_handle(task_token=task_token).heartbeat(turn)
    except (AsyncActivityCancelledError, RPCError):
        return False
    return True


def _unsent(*, alone: bool = False, failed: int = 0) -> BatchedTurn:
    return BatchedTurn(custom_id="", alone=alone, failed=failed)


def _request(custom_id: str, asked: Asked) -> BatchRequest:
    messages, settings, parameters = asked
    kept = cast("Any", {name: value for name, value in settings.items() if name not in ("timeout", "max_retries")})
    return BatchRequest(
        custom_id=custom_id, messages=messages, model_settings=kept, model_request_parameters=parameters
    )


def _batch(turn: BatchedTurn) -> Batch:
    return _BATCH.validate_python(turn.batch)


def _waiting(message: str, wait: timedelta) -> ApplicationError:
    return ApplicationError(
        message, type=WAITS_FOR_BATCH, next_retry_delay=wait, category=ApplicationErrorCategory.BENIGN
    )
