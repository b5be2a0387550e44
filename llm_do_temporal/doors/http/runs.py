"""Routes of runs: started, waited for, followed, accounted for, and done once more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from llm_do_temporal.client.views.run_list import read_filter
from llm_do_temporal.doors import forks, views
from llm_do_temporal.doors.http.requests import PREFIX, After, Caller, Key, RunId, Service, TokenFirst, owner_of, saved
from llm_do_temporal.doors.service import MAX_WAIT_SECONDS
from llm_do_temporal.doors.values.forks import Fork, ForkForecast
from llm_do_temporal.doors.values.runs import Run, RunFile, RunsPage, RunsQuery, Start, Worker
from llm_do_temporal.doors.values.views import BatchItems, RunTree, TranscriptPart
from llm_do_temporal.doors.waits import MOST_SEEN

router = APIRouter(prefix=PREFIX, tags=["runs"], route_class=TokenFirst)


def _located(run: Run, response: Response) -> Run:
    """Return a run that was started, and say where it is."""
    response.headers["Location"] = f"{PREFIX}/runs/{quote(run.run, safe='')}"
    return run


@router.get("/workers")
async def list_workers(service: Service, caller: Caller) -> list[Worker]:
    """List the workers that may be started: exported ones, for a person all."""
    return await service.workers(caller)


@router.post("/runs", status_code=202)
async def start_run(service: Service, caller: Caller, start: Start, response: Response, key: Key = None) -> Run:
    """Start a run. The same `Idempotency-Key` of the same owner starts one run, whatever is lost on the way."""
    run, _ = await service.start(caller, start, key=key)
    return _located(run, response)


@router.get("/runs")
async def list_of_runs(service: Service, caller: Caller, wanted: Annotated[RunsQuery, Query()]) -> RunsPage:
    """List runs, open ones first, then those that ended last."""
    return await service.runs(caller, read_filter(wanted.model_dump(exclude={"page"})), page=wanted.page)


@router.get("/runs/{run}")
async def get_run(
    service: Service,
    caller: Caller,
    run: RunId,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for end or question.")] = 0,
    seen: Annotated[list[str] | None, Query(description="Questions that end no wait.", max_length=MOST_SEEN)] = None,
) -> Run:
    """Return a run with its result, once it has ended. With `wait`, as soon as it ends or asks something new."""
    if wait:
        return await service.wait(caller, run, wait, seen=seen or ())
    return await service.run(caller, run)


@router.post("/runs/{run}/cancel", status_code=202)
async def cancel_run(service: Service, caller: Caller, run: RunId) -> Run:
    """Ask a run, and everything below it, to stop, and return it as it is now."""
    return await service.cancel(caller, run)


async def _followed(
    service: Service, caller: Caller, run: RunId, last_event_id: Annotated[int, Header(ge=0, le=1 << 53)] = 0
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Yield the events of a run that the caller may read; they end with the request, however that ends."""
    await service.readable(caller, run)
    async with aclosing(service.events(caller, run, after=last_event_id)) as events:
        yield events


@router.get("/runs/{run}/events", response_class=EventSourceResponse)
async def follow_run(
    service: Service,
    caller: Caller,
    run: RunId,
    events: Annotated[AsyncIterator[Any], Depends(_followed)],
    request: Request,
) -> AsyncIterator[ServerSentEvent]:
    """Send the events of a run as they come, behind the number in `Last-Event-ID`; ends with the event `end`."""
    with suppress(HTTPException):  # a token that is revoked meanwhile ends the stream
        async for event in events:
            await owner_of(request)
            yield ServerSentEvent(data=event, event=str(event["type"]), id=str(event["seq"]))
        ended = await service.run(caller, run)
        await owner_of(request)
        yield ServerSentEvent(data=ended.model_dump(mode="json"), event="end")


@router.get("/runs/{run}/files")
async def list_files_of_run(service: Service, caller: Caller, run: RunId) -> list[RunFile]:
    """List the files that a run was given, and that its file tools and reviews have written."""
    return await service.files(caller, run)


@router.get("/runs/{run}/files/content", response_class=Response)
async def read_file_of_run(
    service: Service,
    caller: Caller,
    run: RunId,
    origin: Annotated[Literal["given", "written"], Query(description="Where the file comes from.")],
    name: Annotated[str, Query(description="Its name in the list.", max_length=4_000)],
) -> Response:
    """Send a file, to be saved; of a written one what is there now, to programs only as the run has left it."""
    return saved(*await service.file(caller, run, origin, name))


@router.get("/runs/{run}/tree")
async def get_tree_of_run(service: Service, caller: Caller, run: RunId) -> RunTree:
    """Return all invocations of a run, and what each has spent so far."""
    return await views.tree_of_run(service, caller, run)


@router.get("/runs/{run}/transcript")
async def read_transcript(
    service: Service,
    caller: Caller,
    run: RunId,
    path: Annotated[str, Query(description="Place in the tree.", min_length=1, max_length=1_000)] = "main",
    part: Annotated[str | None, Query(description="`before` of the part behind.", pattern="^[0-9a-f-]{36}$")] = None,
) -> TranscriptPart:
    """Return the conversation of an invocation, the newest part first: a long one has several."""
    return await views.transcript(service, caller, run, path, part=part)


@router.get("/runs/{run}/items")
async def list_items_of_run(
    service: Service,
    caller: Caller,
    run: RunId,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=views.MOST_ITEMS)] = views.MOST_ITEMS,
) -> BatchItems:
    """List the items of a batch with their outcomes, in their order."""
    return await views.items(service, caller, run, after=after, limit=limit)


@router.post("/runs/{run}/retry", status_code=202)
async def retry_run(service: Service, caller: Caller, run: RunId, response: Response, key: Key = None) -> Run:
    """Start a run for the items of a batch that failed or were never done; what was done is taken over."""
    return _located(await forks.retry(service, caller, run, key=key), response)


@router.post("/runs/{run}/forks", status_code=202)
async def fork_run(
    service: Service, caller: Caller, run: RunId, changes: Fork, response: Response, key: Key = None
) -> Run:
    """Do a run once more with changes, for a person; what they leave as it was is reused, and files stay aside."""
    return _located(await forks.fork(service, caller, run, changes, key=key), response)


@router.post("/runs/{run}/forks/forecast")
async def forecast_fork(service: Service, caller: Caller, run: RunId, changes: Fork) -> ForkForecast:
    """Return what a fork would reuse, what would run and what that may cost, and start nothing."""
    return await forks.forecast(service, caller, run, changes)
