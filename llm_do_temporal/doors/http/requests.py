"""Parts that all routes of `/api/v1` share: who calls, which service answers, ids, what a decision is about, problems.

Bodies of requests are JSON that everybody reads alike: other encodings, keys that are there twice and millions of
values are refused; numbers and texts that JSON does not have are the business of `check_json`. Errors are answered as
problem details (RFC 9457), with the status that fits them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from json import JSONDecodeError
from typing import Annotated, Any, NamedTuple, cast
from urllib.parse import quote

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.principal import Principal, TokenFile, TokenRecord
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.values import MAX_KEY_CHARS, MAX_QUESTION_ID_CHARS, Failure, ProblemDetails, Run, mistakes_in
from llm_do_temporal.errors import (
    AccessRefused,
    ConnectionFailed,
    DecisionRefused,
    DefinitionError,
    KeyMismatch,
    LlmDoError,
    UnknownHere,
    UsageError,
)
from llm_do_temporal.messages.base import RepeatedKey, unique_object
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS

_DOCS = "`/api/v1/docs` shows what there is, and what a request may say."
_AGAIN = "Read it again."


class ProblemType(NamedTuple):
    """Type of the problems of one status."""

    title: str
    errors: tuple[type[LlmDoError], ...]
    """Classes of the errors that have the status; where none was raised, the name of the first is the `code`."""
    next_step: str | None = None
    """Advice where the error has none."""


PROBLEM_TYPES = {
    403: ProblemType("The token does not allow this.", (AccessRefused,)),
    404: ProblemType("There is no such thing, or the token's owner may not know of it.", (UnknownHere,), _DOCS),
    409: ProblemType("The decision cannot be taken.", (DecisionRefused,), _AGAIN),
    422: ProblemType("The request says something that cannot be.", (UsageError, DefinitionError), _DOCS),
    424: ProblemType("It is encrypted with a key that the server does not have.", (KeyMismatch,)),
    503: ProblemType("The Temporal server or blob store is unreachable.", (ConnectionFailed,), "Send it again later."),
    500: ProblemType("That did not work.", (LlmDoError,)),
    400: ProblemType("The request cannot be read.", (UsageError,), _DOCS),
    401: ProblemType("The token is missing or unknown.", (AccessRefused,), "`llm-do-temporal token create` makes one."),
    405: ProblemType("The path has other methods.", (UsageError,), "`Allow` names them."),
    412: ProblemType("What would be decided is not what was shown.", (DecisionRefused,), _AGAIN),
    413: ProblemType("The request is too large.", (UsageError,), "Send fewer or smaller files."),
    421: ProblemType(
        "The server does not answer under this name.",
        (UsageError,),
        "Use the address that it has printed, or start it with `--allowed-host NAME`.",
    ),
    428: ProblemType("The decision does not say what was shown.", (UsageError,), "Send the `ETag` in `If-Match`."),
}
"""Problem types by status. An error has the first that fits; those listed after 500 are raised by routes alone."""


MEDIA_TYPE = "application/problem+json"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of these statuses, for the description of routes."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    common = {"content": content, "model": ProblemDetails}
    return {one: {"description": PROBLEM_TYPES[one].title, **common} for one in statuses}


def add_handlers(app: FastAPI) -> None:
    """Have the application answer errors with problem details."""
    app.add_exception_handler(LlmDoError, _raised)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(Exception, _raised)


def path_item(request: Request) -> dict[str, Any]:
    """Return the routes at the path of the request, by their methods in lower case, as the document has them."""
    return request.app.openapi()["paths"][request.scope["route"].path_format]


def misdirected() -> JSONResponse:
    """Return the answer to a request that calls the server by another name than its own."""
    return _problem(421, Failure(code=UsageError.__name__, message="the server does not answer under this name"))


def _problem(status: int, told: Failure) -> JSONResponse:
    title, _, step = PROBLEM_TYPES.get(status, PROBLEM_TYPES[500])
    step = told.next_step or step
    told = ProblemDetails(
        title=title, status=status, detail=told.message, code=told.code, message=told.message, next_step=step
    )
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse(told.model_dump(), status, headers, MEDIA_TYPE)


async def _raised(_request: Request, error: Exception) -> JSONResponse:
    """Answer an error; of one that is none of ours nothing is told."""
    if not isinstance(error, LlmDoError):
        step = "The log of the process that serves the door says more."
        error = LlmDoError("the server met an error that it does not know", next_step=step)
    status = next(status for status, one in PROBLEM_TYPES.items() if isinstance(error, one.errors))
    return _problem(status, Failure.of(error))


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    problem = PROBLEM_TYPES.get(error.status_code, PROBLEM_TYPES[500])
    answer = _problem(error.status_code, Failure(code=problem.errors[0].__name__, message=str(error.detail)))
    answer.headers.update(error.headers or {})
    if error.status_code == 405 and "route" in request.scope:
        # Each method is a route of its own, and the error names the methods of one.
        answer.headers["Allow"] = ", ".join(sorted(map(str.upper, path_item(request))))
    return answer


async def _unreadable(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit, with the places of all mistakes and none of their values."""
    assert isinstance(error, RequestValidationError)
    return await _raised(request, UsageError(mistakes_in(error.errors())))


MAX_PARTS = 2_000_000
"""Largest number of commas and opening brackets in a text, those inside strings included.

Each may be a value, which takes a hundred bytes of memory and more.
"""


def read_json(data: bytes) -> Any:
    """Return the value of a text in UTF-8.

    Raises JSONDecodeError, also for another encoding, a key that is there twice and more than MAX_PARTS.
    RecursionError and ValueError come from the reader: for too many levels, and for numbers of thousands of digits.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_PARTS:
        raise JSONDecodeError(f"there are more than {MAX_PARTS:,} commas and brackets", "", 0)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise JSONDecodeError("it is not UTF-8", "", error.start) from error
    try:
        return json.loads(text, object_pairs_hook=unique_object)
    except RepeatedKey as error:
        raise JSONDecodeError(str(error), "", 0) from error


PREFIX = "/api/v1"
VIA = "http"
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_SINGLE = ("Authorization", "Idempotency-Key", "If-Match", "Last-Event-ID")
"""Headers of which there is one: somebody on the way may have read the other one."""

_bearer = HTTPBearer(auto_error=False, description="Token that `llm-do-temporal token create` has printed.")
RunId = Annotated[str, Path(description="Id of the run.", min_length=1, max_length=MAX_RUN_ID_CHARS)]
QuestionId = Annotated[str, Path(description="Id of the question, like `a3`.", max_length=MAX_QUESTION_ID_CHARS)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=MAX_KEY_CHARS)]
Tag = Annotated[str | None, Header(alias="If-Match", description="The `ETag` of what was shown.", max_length=200)]
After = Annotated[int, Query(ge=0, le=1 << 31, description="`following` of the part before.")]


def _service(request: Request) -> DoorService:
    return request.app.state.service


async def owner_of(request: Request) -> TokenRecord:
    """Return the record of the token that a request was sent with.

    Raises HTTPException: 401 without one that is known, 400 for a header of _SINGLE that is there twice.
    """
    if any(len(request.headers.getlist(name)) > 1 for name in _SINGLE):
        raise HTTPException(400, f"a header is there twice; of {', '.join(_SINGLE)} there is one")
    given = await _bearer(request)
    record = None if given is None else cast("TokenFile", request.app.state.tokens).find(given.credentials)
    if record is None:
        raise HTTPException(401, "no token, or none that is known here")
    return record


class TokenFirst(APIRoute):
    """Route that looks at the token before it reads a body; see `strict_json` for what a body may be."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of its requests."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            request.state.owner = await owner_of(request)
            return await answer(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(Request):
    async def json(self) -> Any:
        return read_json(await self.body())


def _caller(request: Request, response: Response, _given: Annotated[Any, Depends(_bearer)]) -> Principal:
    """Return the owner of the token. Raises UsageError for a query key that the route does not have."""
    response.headers.update(NO_STORE)
    _check_query(request)
    return cast("TokenRecord", request.state.owner).principal(VIA)


def _check_query(request: Request) -> None:
    if not request.query_params:
        return  # The document takes most of a second to make.
    parameters = path_item(request)[request.method.lower()].get("parameters", ())
    known = [one["name"] for one in parameters if one["in"] == "query"]
    for key in set(request.query_params) - set(known):
        close = "".join(f"Did you mean '{one}'? " for one in get_close_matches(key, known, n=1))
        step = f"{close}There are {', '.join(known)}." if known else "It takes none."
        raise UsageError(f"query.{key[:80]}: this route has no such key", next_step=step)


Service = Annotated[DoorService, Depends(_service)]
Caller = Annotated[Principal, Depends(_caller)]


async def _shown(service: Service, caller: Caller, run: RunId, question: QuestionId, if_match: Tag = None) -> str:
    """Return the digest of the question, which the request names as what was shown. Raises HTTPException."""
    asked = await service.question(caller, run, question)
    if if_match is None:
        raise HTTPException(428, "`If-Match` is missing")
    try:
        service.check_shown(asked, if_match[1:-1] if if_match[:1] == if_match[-1:] == '"' else "")
    except DecisionRefused as differs:
        raise HTTPException(412, differs.message) from differs
    return asked.digest


Shown = Annotated[str, Depends(_shown)]


def saved(data: bytes | str, media_type: str) -> Response:
    """Return bytes as an answer that a browser never shows, only saves."""
    return Response(data, media_type=media_type, headers=NO_STORE | {"Content-Disposition": "attachment"})


def located(run: Run, response: Response) -> Run:
    """Return a run that was started, and say where it is."""
    response.headers["Location"] = f"{PREFIX}/runs/{quote(run.run, safe='')}"
    return run
