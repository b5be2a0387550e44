"""Errors as problem details (RFC 9457), with the status that fits them."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.values import Failure, ProblemDetails
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

MEDIA_TYPE = "application/problem+json"
_DOCS = "`/api/v1/docs` shows what there is, and what a request may say."


class Kind(NamedTuple):
    """Problems of one status."""

    title: str
    errors: tuple[type[LlmDoError], ...]
    """Classes of the errors that have the status; without such an error, the first one's name is the `code`."""
    next_step: str | None = None
    """Advice where the error has none."""


KINDS = {
    403: Kind("The token does not allow this.", (AccessRefused,)),
    404: Kind("There is no such thing, or the token's owner may not know of it.", (UnknownHere,), _DOCS),
    409: Kind("Somebody else was first, or it cannot be decided any more.", (DecisionRefused,), "Read it again."),
    422: Kind("The request says something that cannot be.", (UsageError, DefinitionError), _DOCS),
    424: Kind("It is encrypted with a key that the server does not have.", (KeyMismatch,)),
    503: Kind("The Temporal server cannot be reached.", (ConnectionFailed,), "Send it again later."),
    500: Kind("That did not work.", (LlmDoError,)),
    400: Kind("The request cannot be read.", (UsageError,), _DOCS),
    401: Kind("The token is missing, or not known.", (AccessRefused,), "`llm-do-temporal token create` makes one."),
    405: Kind("The path has other methods.", (UsageError,), "`Allow` names them."),
    412: Kind("What would be decided is not what was shown.", (DecisionRefused,), "Read it again."),
    413: Kind("The request is too large.", (UsageError,), "Send fewer or smaller files."),
    428: Kind(
        "The decision does not say what was shown.", (UsageError,), "Send the `ETag` of the question in `If-Match`."
    ),
}
"""Problems by their status; an error has the first one that fits it."""


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of these statuses, for the description of routes."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {one: {"description": KINDS[one].title, "content": content, "model": ProblemDetails} for one in statuses}


def add_handlers(app: FastAPI) -> None:
    """Have the application answer errors with problem details."""
    app.add_exception_handler(LlmDoError, _raised)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(Exception, _raised)


def described(request: Request) -> dict[str, Any]:
    """Return the routes at the path of the request, by their methods in small letters, as the document has them."""
    return request.app.openapi()["paths"][request.scope["route"].path_format]


def _problem(status: int, told: Failure) -> JSONResponse:
    title, _, step = KINDS.get(status, KINDS[500])
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
    status = next(status for status, kind in KINDS.items() if isinstance(error, kind.errors))
    return _problem(status, Failure.of(error))


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = KINDS.get(error.status_code, KINDS[500])
    answer = _problem(error.status_code, Failure(code=kind.errors[0].__name__, message=str(error.detail)))
    answer.headers.update(error.headers or {})
    if error.status_code == 405 and "route" in request.scope:
        # Each method is a route of its own, and the error names the methods of one.
        answer.headers["Allow"] = ", ".join(sorted(map(str.upper, described(request))))
    return answer


async def _unreadable(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit, with the places of all mistakes and none of their values."""
    assert isinstance(error, RequestValidationError)
    mistakes = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return await _raised(request, UsageError("; ".join(mistakes[:20])[:4_000]))
