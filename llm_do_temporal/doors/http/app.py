"""The application of `/api/v1`: its routes, and the OpenAPI document that is made from them.

A thin translation: each route asks `doors` one thing. Owns headers, status codes and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from llm_do_temporal.client.views.run_list import read_filter
from llm_do_temporal.doors import views
from llm_do_temporal.doors.http.reference import POLICY, reference_page
from llm_do_temporal.doors.http.requests import (
    PREFIX,
    After,
    Caller,
    Key,
    QuestionId,
    RunId,
    Service,
    Shown,
    TokenFirst,
    add_handlers,
    located,
    owner_of,
    problem_responses,
    saved,
)
from llm_do_temporal.doors.principal import TokenFile
from llm_do_temporal.doors.service import MAX_WAIT_SECONDS, MOST_SEEN, DoorService
from llm_do_temporal.doors.values import Answer, AskedQuestion, Run, RunFile, RunsPage, RunsQuery, Start, Worker
from llm_do_temporal.doors.views import BatchItems, RunTree, TranscriptPart
from llm_do_temporal.extension import added
from llm_do_temporal.request_bodies import limited

MAX_BODY_BYTES = 64 << 20
"""Largest request: files are in base64."""
_DECIDING = problem_responses(409, 412, 428)
runs = APIRouter(prefix=PREFIX, tags=["runs"], route_class=TokenFirst)
questions = APIRouter(prefix=PREFIX, tags=["questions"], route_class=TokenFirst)


@runs.get("/workers")
async def list_workers(service: Service, caller: Caller) -> list[Worker]:
    """List the workers that may be started: exported ones, for a person all."""
    return await service.workers(caller)


@runs.post("/runs", status_code=202)
async def start_run(service: Service, caller: Caller, start: Start, response: Response, key: Key = None) -> Run:
    """Start a run. The same `Idempotency-Key` of the same owner starts one run, whatever is lost on the way."""
    run, _ = await service.start(caller, start, key=key)
    return located(run, response)


@runs.get("/runs")
async def list_of_runs(service: Service, caller: Caller, wanted: Annotated[RunsQuery, Query()]) -> RunsPage:
    """List runs, open ones first, then those that ended last."""
    return await service.runs(caller, read_filter(wanted.model_dump(exclude={"page"})), page=wanted.page)


@runs.get("/runs/{run}")
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


@runs.post("/runs/{run}/cancel", status_code=202)
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


@runs.get("/runs/{run}/events", response_class=EventSourceResponse)
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


@runs.get("/runs/{run}/files")
async def list_files_of_run(service: Service, caller: Caller, run: RunId) -> list[RunFile]:
    """List the files that a run was given, and that its file tools and reviews have written."""
    return await service.files(caller, run)


@runs.get("/runs/{run}/files/content", response_class=Response)
async def read_file_of_run(
    service: Service,
    caller: Caller,
    run: RunId,
    origin: Annotated[Literal["given", "written"], Query(description="Where the file comes from.")],
    name: Annotated[str, Query(description="Its name in the list.", max_length=4_000)],
) -> Response:
    """Send a file, to be saved; of a written one what is there now, to programs only as the run has left it."""
    return saved(*await service.file(caller, run, origin, name))


@runs.get("/runs/{run}/tree")
async def get_tree_of_run(service: Service, caller: Caller, run: RunId) -> RunTree:
    """Return all invocations of a run, and what each has spent so far."""
    return await views.tree_of_run(service, caller, run)


@runs.get("/runs/{run}/transcript")
async def read_transcript(
    service: Service,
    caller: Caller,
    run: RunId,
    path: Annotated[str, Query(description="Place in the tree.", min_length=1, max_length=1_000)] = "main",
    part: Annotated[str | None, Query(description="`before` of the part behind.", pattern="^[0-9a-f-]{36}$")] = None,
) -> TranscriptPart:
    """Return the conversation of an invocation, the newest part first: a long one has several."""
    return await views.transcript(service, caller, run, path, part=part)


@runs.get("/runs/{run}/items")
async def list_items_of_run(
    service: Service,
    caller: Caller,
    run: RunId,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=views.MOST_ITEMS)] = views.MOST_ITEMS,
) -> BatchItems:
    """List the items of a batch with their outcomes, in their order."""
    return await views.items(service, caller, run, after=after, limit=limit)


@runs.post("/runs/{run}/retry", status_code=202)
async def retry_run(service: Service, caller: Caller, run: RunId, response: Response, key: Key = None) -> Run:
    """Start a run for the items of a batch that failed or were never done; what was done is taken over."""
    return located(await service.retry(caller, run, key=key), response)


@questions.get("/questions")
async def list_questions(service: Service, caller: Caller) -> list[AskedQuestion]:
    """List all questions that wait, oldest first."""
    return await service.questions(caller)


@questions.get("/runs/{run}/questions")
async def list_questions_of_run(service: Service, caller: Caller, run: RunId) -> list[AskedQuestion]:
    """List the questions of a run that wait, oldest first."""
    return await service.questions(caller, run)


@questions.get("/runs/{run}/questions/{question}")
async def get_question(
    service: Service, caller: Caller, run: RunId, question: QuestionId, response: Response
) -> AskedQuestion:
    """Return a question, decided or not. Its `ETag` is what a decision and an undo name in `If-Match`."""
    asked = await service.question(caller, run, question)
    response.headers["ETag"] = f'"{asked.digest}"'
    return asked


@questions.post("/runs/{run}/questions/{question}/decision", responses=_DECIDING)
async def decide_question(
    service: Service, caller: Caller, run: RunId, question: QuestionId, answer: Answer, digest: Shown
) -> AskedQuestion:
    """Decide a question as it was shown. The first answer of all doors wins: 409 says whose that was."""
    return await service.decide(caller, run, question, answer, digest=digest)


@questions.post("/runs/{run}/questions/{question}/undo", responses=_DECIDING)
async def undo_decision(
    service: Service, caller: Caller, run: RunId, question: QuestionId, digest: Shown
) -> AskedQuestion:
    """Take back one's own decision about what was shown, before it takes effect; the question is open again."""
    return await service.undo(caller, run, question, digest=digest)


def build_api(service: DoorService, tokens: TokenFile) -> FastAPI:
    """Return the application for the runs of the service, open to those who have one of the tokens."""
    app = FastAPI(
        title="llm-do-temporal",
        version=version("llm-do-temporal"),
        description="Start workers, answer their questions, read results.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=problem_responses(400, 401, 403, 404, 413, 422, 424, 503),
    )
    app.state.service, app.state.tokens = service, tokens
    for router in (runs, questions, *added(lambda one: one.routers())):
        app.include_router(router)
    app.add_route(f"{PREFIX}/docs", _reference, methods=["GET"], include_in_schema=False)
    add_handlers(app)
    app.add_middleware(_bounded)
    return app


def _bounded(app: ASGIApp) -> ASGIApp:
    """Return the application, which reads no more than MAX_BODY_BYTES of a request."""
    return lambda scope, receive, send: app(scope, limited(receive, MAX_BODY_BYTES), send)


async def _reference(request: Request) -> HTMLResponse:
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return HTMLResponse(reference_page(request.app.openapi()), headers=headers)
