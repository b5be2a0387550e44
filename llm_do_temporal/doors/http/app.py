"""The routes of `/api/v1`, with the OpenAPI document that is made from them.

A thin translation: each route asks `doors.service` one thing. Owns headers, status codes and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from llm_do_temporal.client.views.run_list import read_filter
from llm_do_temporal.doors.http.problems import ProblemDetails, add_handlers, answers, problem
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import LONGEST_WAIT, DoorService, RunsPage
from llm_do_temporal.doors.tokens import TokenFile
from llm_do_temporal.doors.values import Answer, AskedQuestion, Run, RunFile, Start, Worker
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS
from llm_do_temporal.policy.run_filter import STATES

PREFIX = "/api/v1"
VIA = "http"
MAX_BODY_BYTES = 64 << 20
"""Largest request: files are in base64."""
_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

router = APIRouter(prefix=PREFIX)
_bearer = HTTPBearer(auto_error=False, description="Token that `llm-do-temporal token create` has printed.")
RunId = Annotated[str, Path(description="Id of the run.", min_length=1, max_length=MAX_RUN_ID_CHARS)]
QuestionId = Annotated[str, Path(description="Id of the question, like `a3`.", max_length=40)]


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
        max_body_size=MAX_BODY_BYTES,
    )
    app.state.service, app.state.tokens = service, tokens
    app.state.routes = router.routes
    app.include_router(router)
    add_handlers(app)
    return app


def _service(request: Request) -> DoorService:
    return request.app.state.service


def _caller(
    request: Request,
    response: Response,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """Return the owner of the request's token. Raises HTTPException."""
    response.headers.update(_NO_STORE)
    tokens = cast("TokenFile", request.app.state.tokens)
    record = None if given is None else tokens.find(given.credentials)
    if record is None:
        raise HTTPException(401, "no token, or none that is known here; `llm-do-temporal token create` makes one")
    return record.principal(VIA)


Service = Annotated[DoorService, Depends(_service)]
Caller = Annotated[Principal, Depends(_caller)]


async def _readable(service: Service, caller: Caller, run: RunId) -> str:
    """Return the id of a run that the caller may read, before an answer has begun."""
    return (await service.run(caller, run)).run


@router.get("/workers", responses=answers())
async def list_workers(service: Service, caller: Caller) -> list[Worker]:
    """List the workers that may be started: exported ones, for a person all."""
    return await service.workers(caller)


@router.post("/runs", status_code=202, responses=answers(413))
async def start_run(
    service: Service,
    caller: Caller,
    start: Start,
    response: Response,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Run:
    """Start a run. The same `Idempotency-Key` of the same owner starts one run, whatever is lost on the way."""
    run, _ = await service.start(caller, start, key=idempotency_key)
    response.headers["Location"] = f"{PREFIX}/runs/{quote(run.run, safe='')}"
    return run


@router.get("/runs", responses=answers())
async def list_of_runs(
    service: Service,
    caller: Caller,
    state: Annotated[str, Query(description="State of the runs.", json_schema_extra={"enum": ["", *STATES]})] = "",
    worker: Annotated[str, Query(description="Name of the entry worker.")] = "",
    who: Annotated[str, Query(description="Name of whoever has started it.")] = "",
    since: Annotated[str, Query(description="Moment like `7d` or `2026-11-01T08:30`.")] = "",
    until: Annotated[str, Query(description="Moment until which it has begun.")] = "",
    text: Annotated[str, Query(description="Words in the task or the id.", max_length=200)] = "",
    begins: Annotated[str, Query(description="Beginning of the id.")] = "",
    page: Annotated[str, Query(description="`following` of the page before.")] = "",
) -> RunsPage:
    """List runs, open ones first, then those that ended last."""
    given = {"state": state, "worker": worker, "who": who, "since": since, "until": until, "text": text}
    return await service.runs(caller, read_filter(given | {"begins": begins}), page=page)


@router.get("/runs/{run}", responses=answers(404))
async def get_run(
    service: Service,
    caller: Caller,
    run: RunId,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for its end or a question.")] = 0,
    seen: Annotated[list[str] | None, Query(description="Questions that end no wait.", max_length=100)] = None,
) -> Run:
    """Return a run with its result, once it has ended. With `wait`, as soon as it ends or asks something new."""
    if wait:
        return await service.wait(caller, run, wait, seen=seen or ())
    return await service.run(caller, run)


@router.post("/runs/{run}/cancel", status_code=202, responses=answers(404))
async def cancel_run(service: Service, caller: Caller, run: RunId) -> Run:
    """Ask a run, and everything below it, to stop, and return it as it is now."""
    return await service.cancel(caller, run)


@router.get("/runs/{run}/events", response_class=EventSourceResponse, responses=answers(404))
async def follow_run(
    service: Service,
    caller: Caller,
    run: Annotated[str, Depends(_readable)],
    last_event_id: Annotated[int, Header(ge=0, le=1 << 53)] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Send the events of a run as they come, behind the number in `Last-Event-ID`; ends with the event `end`."""
    async for event in service.events(caller, run, after=last_event_id):
        yield ServerSentEvent(data=event, event=str(event["type"]), id=str(event["seq"]))
    ended = await service.run(caller, run)
    yield ServerSentEvent(data=ended.model_dump(mode="json"), event="end")


@router.get("/runs/{run}/files", responses=answers(404))
async def list_files_of_run(service: Service, caller: Caller, run: RunId) -> list[RunFile]:
    """List the files that a run was given, and that its file tools have written."""
    return await service.files(caller, run)


@router.get("/runs/{run}/files/content", response_class=Response, responses=answers(404))
async def read_file_of_run(
    service: Service,
    caller: Caller,
    run: RunId,
    origin: Annotated[Literal["given", "written"], Query(description="Where the file comes from.")],
    name: Annotated[str, Query(description="Its name in the list.", max_length=4_000)],
) -> Response:
    """Send the bytes of a file; of a written one as it is now. It is never shown by a browser, only saved."""
    data, media_type = await service.file(caller, run, origin, name)
    return Response(data, media_type=media_type, headers=_NO_STORE | {"Content-Disposition": "attachment"})


@router.get("/questions", responses=answers())
async def list_questions(service: Service, caller: Caller) -> list[AskedQuestion]:
    """List all questions that wait, oldest first."""
    return await service.questions(caller)


@router.get("/runs/{run}/questions", responses=answers(404))
async def list_questions_of_run(service: Service, caller: Caller, run: RunId) -> list[AskedQuestion]:
    """List the questions of a run that wait, oldest first."""
    return await service.questions(caller, run)


@router.get("/runs/{run}/questions/{question}", responses=answers(404))
async def get_question(
    service: Service, caller: Caller, run: RunId, question: QuestionId, response: Response
) -> AskedQuestion:
    """Return a question, decided or not. Its `ETag` is what a decision names in `If-Match`."""
    asked = await service.question(caller, run, question)
    response.headers["ETag"] = f'"{asked.digest}"'
    return asked


@router.post(
    "/runs/{run}/questions/{question}/decision", responses=answers(404, 409, 412, 428), response_model=AskedQuestion
)
async def decide_question(
    service: Service,
    caller: Caller,
    run: RunId,
    question: QuestionId,
    answer: Answer,
    if_match: Annotated[str | None, Header(description="The question's `ETag`.", max_length=200)] = None,
) -> Any:
    """Decide a question as it was shown. The first answer of all doors wins: 409 says whose that was."""
    asked = await service.question(caller, run, question)
    if if_match is None:
        return problem(428, "UsageError", "`If-Match` is missing", "Send the `ETag` of the question that was shown.")
    if if_match != f'"{asked.digest}"':
        return problem(412, "DecisionRefused", "it asks about something else than what was shown", "Read it again.")
    decided = await service.decide(caller, run, question, answer, digest=asked.digest)
    return JSONResponse(decided.model_dump(mode="json"), headers=_NO_STORE)


__all__ = ["MAX_BODY_BYTES", "PREFIX", "ProblemDetails", "build_api"]
