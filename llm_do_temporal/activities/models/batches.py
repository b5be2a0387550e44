"""Model turns through batch APIs, one attempt of an activity at a time, and the batches at providers.

The first attempt sends the request, together with others, and ends; the following ones look at the batch, and each
but the last ends as a failure that says when the next one comes. So a turn that waits takes no slot, no memory and no
connection, and a service that dies takes nothing along. What the next attempt must know is in the details of the
heartbeat, where the server keeps it: what is about to be sent, before it is sent, and the batch, once there is one.

All other state belongs to one event loop of one process, and none of it is needed after a crash.
- Requests wait for each other for a short time, and leave in one batch.
- Turns that wait for the same batch ask its provider once, and read its answers once.
- The batches of an account are listed where the answer to a creation was lost; the library cannot list them.
- A batch that no turn waits for is cancelled, if this process knows all of its turns. The server is asked, because a
  turn that waits runs nowhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

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
from pydantic_ai.models.batch import Batch, BatchRequest, BatchResult, EncodedBatchRequest
from pydantic_ai.models.wrapper import WrapperModel
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.activities.models.builder import shown_name
from llm_do_temporal.activities.models.failures import many_answers, said
from llm_do_temporal.activities.models.streams import Asked
from llm_do_temporal.errors import ModelFailed, ModelRefusal
from llm_do_temporal.messages.base import WAITS_FOR_BATCH
from llm_do_temporal.messages.conversation import BatchedTurn
from llm_do_temporal.messages.runs import lines_of
from llm_do_temporal.policy.models import PROVIDERS_WITH_BATCHES, next_look

EARLIEST = timedelta(minutes=30)
"""Longest time for which a creation was under way before it was given up, and the provider's clock is behind ours."""
LATEST = timedelta(minutes=30)
"""Longest time from handing a request over to the creation of its batch, with the largest upload."""
SETTLED = timedelta(minutes=1)
"""Age of a request from which a batch that its provider does not list was never made: a list may lag behind."""
_MOST_LISTED = 1_000
_OF_THE_LIBRARY = "pydantic-ai-batch"
"""Name that the library gives to batches at Google."""


class BatchNotSeen(Exception):
    """Request of which cannot be told yet whether it is in one of the account's batches."""


async def find(model: Model, turn: BatchedTurn, now: datetime) -> Batch | None:
    """Return the batch that has a request; None where there is none, and the request was never sent.

    Raises BatchNotSeen while that cannot be told, ModelAPIError where the provider does not answer.
    """
    assert turn.sent_at is not None
    undecided = False
    try:
        async for listed in _listed(_unwrapped(model), turn.group):
            if turn.sent_at - EARLIEST <= listed.created_at <= turn.sent_at + LATEST:
                batch = await model.batch_status(listed)
                held = await _holds(model, batch, turn.custom_id)
                if held:
                    return batch
                undecided |= held is None
    except ModelAPIError:
        raise
    except Exception as error:
        # Each provider's library has exceptions of its own for a list that does not come.
        raise ModelAPIError(model.model_name, f"its batches could not be listed: {error}") from error
    if undecided or now - turn.sent_at < SETTLED:
        raise BatchNotSeen
    return None


async def _holds(model: Model, batch: Batch, custom_id: str) -> bool | None:
    """Return whether a batch has a request; None where the provider says so only once the batch has ended."""
    input_file = (batch.provider_details or {}).get("input_file_id")
    if batch.status != "ended" and input_file is None:
        return None
    if batch.status != "ended":
        text: str = (await cast("Any", _unwrapped(model)).client.files.content(input_file)).text
        return any(json.loads(line)["custom_id"] == custom_id for _, line in lines_of(text))
    try:
        return any(result.custom_id == custom_id for result in await model.batch_results(batch))
    except BatchJobError:
        return False  # it ran nothing, so nothing of it is paid


def _unwrapped(model: Model) -> Model:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model


async def _listed(model: Model, group: str) -> AsyncIterator[Batch]:
    """Yield the account's newest batches, as far as their lists tell."""
    client = cast("Any", model).client
    listed = 0
    kind = type(model).__name__
    if kind == "OpenAIResponsesModel":
        pages = client.batches.list(limit=100)
    elif kind == "AnthropicModel":
        pages = client.beta.messages.batches.list(limit=100)
    else:
        pages = await client.aio.batches.list(config={"page_size": 100})
    async for one in pages:
        listed += 1
        if listed > _MOST_LISTED:
            return
        if getattr(one, "display_name", _OF_THE_LIBRARY) != _OF_THE_LIBRARY:
            continue
        created: Any = getattr(one, "created_at", None) or getattr(one, "create_time", None)
        yield Batch(
            id=getattr(one, "id", None) or one.name,
            model_name=model.model_name,
            provider_name=model.system,
            group=group,
            status="in_progress",
            created_at=datetime.fromtimestamp(created, tz=UTC) if isinstance(created, int | float) else created,
            request_count=0,
        )


MOST_REQUESTS = 500
"""Most requests of one batch: their answers come in one file, which is held in memory while it is read."""
MOST_BYTES = 64 * 1024 * 1024
"""Size from which requests leave without waiting for others; they are held in memory until then."""


class NotWanted(Exception):
    """Request that did not leave, because somebody else has taken over the turn meanwhile, or its run was cancelled."""


@dataclass(frozen=True)
class Passenger:
    """Request that waits to leave."""

    request: EncodedBatchRequest
    is_wanted: Callable[[], Awaitable[bool]]
    """Question to the server, asked right before the departure: this process may have been stopped for a while."""


@dataclass
class Departure:
    """Requests that leave together, and the batch that they become."""

    model: Model
    requests: dict[str, Passenger] = field(default_factory=dict[str, Passenger])
    size: int = 0
    batch: asyncio.Future[Batch | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    has_left: bool = False


class Departures:
    """Departures of one event loop, by what their requests must share."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Departure] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(self, model: Model, passenger: Passenger, window: timedelta, *, alone: bool) -> Batch:
        """Return the batch that the request has become a part of.

        Raises NotWanted, and what the creation of the batch raises. Cancelled before the departure, the request is
        not sent.
        """
        request = passenger.request
        size = model.batch_request_size(request)
        key = (model.system, request.group)
        departure = self._departure(key, model, size, window, alone=alone)
        departure.requests[request.custom_id] = passenger
        departure.size += size
        most = model.batch_max_requests or MOST_REQUESTS
        if len(departure.requests) >= min(most, MOST_REQUESTS) or departure.size >= self._most_bytes(model):
            self._leave(key, departure)
        try:
            batch = await asyncio.shield(departure.batch)
        except asyncio.CancelledError:
            if not departure.has_left:
                departure.requests.pop(request.custom_id, None)
                departure.size -= size
            raise
        if batch is None or request.custom_id not in departure.requests:
            raise NotWanted
        return batch

    def _departure(self, key: tuple[str, str], model: Model, size: int, window: timedelta, *, alone: bool) -> Departure:
        if alone:
            departure = Departure(model)
            self._after(timedelta(0), lambda: self._leave(None, departure))
            return departure
        waiting = self._open.get(key)
        if waiting is not None and waiting.requests and waiting.size + size > self._most_bytes(model):
            self._leave(key, waiting)
            waiting = None
        if waiting is not None:
            return waiting
        departure = self._open[key] = Departure(model)
        self._after(window, lambda: self._leave(key, departure))
        return departure

    def _most_bytes(self, model: Model) -> int:
        return min(model.batch_max_bytes or MOST_BYTES, MOST_BYTES)

    def _after(self, window: timedelta, leave: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(window.total_seconds(), leave)

    def _leave(self, key: tuple[str, str] | None, departure: Departure) -> None:
        if key is not None and self._open.get(key) is departure:
            del self._open[key]
        if departure.has_left:
            return
        departure.has_left = True
        task = asyncio.get_running_loop().create_task(_create(departure))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _create(departure: Departure) -> None:
    try:
        waiting = list(departure.requests.items())
        wanted = await asyncio.gather(*(passenger.is_wanted() for _, passenger in waiting))
        for (custom_id, _), stays in zip(waiting, wanted, strict=True):
            if not stays:
                del departure.requests[custom_id]
        leaving = [passenger.request for passenger in departure.requests.values()]
        batch = await departure.model.batch_create(leaving) if leaving else None
    except Exception as error:
        departure.batch.set_exception(error)
        departure.batch.exception()  # all who waited may be cancelled; then nobody else takes it
    else:
        departure.batch.set_result(batch)


_log = logging.getLogger(__name__)


class WaitingTurn(NamedTuple):
    """Activity that waits for a batch."""

    workflow_id: str
    run_id: str
    activity_id: str


@dataclass
class _Watched:
    model: Model
    batch: Batch
    turns: dict[str, WaitingTurn]
    """Turns, by the ids of their requests."""


class AbandonedBatches:
    """Watches the batches that turns of the running event loop wait for."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._watching: asyncio.Task[None] | None = None

    def waits(
        self, client: Client, model: Model, batch: Batch, custom_id: str, turn: WaitingTurn, every: timedelta
    ) -> None:
        """Note that a turn waits for a batch; every so often somebody looks whether it still does."""
        key = (batch.group, batch.id)
        watched = self._watched.setdefault(key, _Watched(model, batch, {}))
        watched.batch, watched.turns[custom_id] = batch, turn
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch(client, every))

    def ended(self, batch: Batch) -> None:
        """Note that a batch has ended: nothing is saved by cancelling it."""
        self._watched.pop((batch.group, batch.id), None)

    async def _watch(self, client: Client, every: timedelta) -> None:
        while self._watched:
            await asyncio.sleep(every.total_seconds())
            for key, watched in list(self._watched.items()):
                requests = watched.batch.request_count  # 0 where the provider does not say
                if not requests or len(watched.turns) < requests or await _any_waits(client, watched):
                    continue
                if self._watched.pop(key, None) is not None:  # else it has ended while the server was asked
                    await _cancel(watched)


async def _any_waits(client: Client, watched: _Watched) -> bool:
    for custom_id, turn in list(watched.turns.items()):
        if await _waits(client, turn):
            # It stands first when somebody looks next: then one question to the server is mostly enough.
            watched.turns = {custom_id: turn, **watched.turns}
            return True
    return False


async def _waits(client: Client, turn: WaitingTurn) -> bool:
    """Return whether a turn is still pending; True where the server does not say."""
    try:
        described = await client.get_workflow_handle(turn.workflow_id, run_id=turn.run_id).describe()
    except RPCError as error:
        return error.status != RPCStatusCode.NOT_FOUND
    # The server goes on listing the activities of a workflow that was terminated.
    if described.status != WorkflowExecutionStatus.RUNNING:
        return False
    return any(one.activity_id == turn.activity_id for one in described.raw_description.pending_activities)


async def _cancel(watched: _Watched) -> None:
    try:
        await watched.model.batch_cancel(watched.batch)
    except (ModelAPIError, UserError) as error:
        _log.warning("batch %s, which nobody waits for, could not be cancelled: %s", watched.batch.id, error)
    else:
        _log.info("batch %s is cancelled: nobody waits for it", watched.batch.id)


MOST_KEPT = 16
"""Batches whose last state is kept, and their answers once they have ended."""
MOST_KEPT_BYTES = 128 * 1024 * 1024
"""Size from which the answers of the batch read longest ago are dropped; a turn that still needs them reads them again.
"""
_FRESH = 0.5
"""Part of the time between two looks for which the state that was seen last is still told."""


@dataclass
class _Seen:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    at: float = 0.0
    batch: Batch | None = None
    answers: dict[str, BatchResult] | None = None
    size: int = 0


class BatchChecks:
    """Batches as the running event loop has seen them last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    async def look(self, model: Model, batch: Batch, between: timedelta) -> tuple[Batch, dict[str, BatchResult] | None]:
        """Return a batch as it is, and its answers by the ids of their requests; None while it is under way.

        `between` is the shortest time between two looks. Raises ModelAPIError.
        """
        seen = self._seen.setdefault((batch.group, batch.id), _Seen())
        self._seen.move_to_end((batch.group, batch.id))
        async with seen.lock:
            old = seen.batch is None or time.monotonic() - seen.at > between.total_seconds() * _FRESH
            # A batch that has ended stays so.
            if old and seen.answers is None:
                seen.batch = await model.batch_status(batch)
                seen.at = time.monotonic()
            state = seen.batch or batch
            if state.status == "ended" and seen.answers is None:
                with many_answers():
                    results = await model.batch_results(state)
                seen.answers = {result.custom_id: result for result in results}
                seen.size = sum(len(result.body or "") for result in results)
        while len(self._seen) > 1 and (
            len(self._seen) > MOST_KEPT or sum(seen.size for seen in self._seen.values()) > MOST_KEPT_BYTES
        ):
            self._seen.popitem(last=False)
        return state, seen.answers


class LoopBatches:
    """Batches of one event loop: futures, locks and the clients of models belong to a loop."""

    def __init__(self) -> None:
        self.departures = Departures()
        self.abandoned = AbandonedBatches()
        self.checks = BatchChecks()


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBatches] = WeakKeyDictionary()


def loop_batches() -> LoopBatches:
    """Return those of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), LoopBatches())


_BATCH: TypeAdapter[Batch] = TypeAdapter(Batch)
_BATCH_ID_CHARS = 80
_REFUSED = 500
"""Status from which it cannot be told whether the provider has made a batch."""
_CANCELLED = 499
_OF_ALL = (ModelAuthenticationError, ModelNotFoundError)
"""Refusals that no request of a batch is the reason of."""
_FAILED_WHOLE = {"failed", "JOB_STATE_FAILED"}
"""States of a batch none of whose requests ran, because of one of them or for a reason of its provider."""


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
