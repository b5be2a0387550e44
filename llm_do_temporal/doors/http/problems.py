"""Errors as problem details (RFC 9457), with the status that fits them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.values import Failure
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
_STATUSES: tuple[tuple[type[LlmDoError], int], ...] = (
    (UnknownHere, 404),
    (AccessRefused, 403),
    (DecisionRefused, 409),
    (ConnectionFailed, 503),
    (UsageError, 422),
    (DefinitionError, 422),
    (KeyMismatch, 424),
)
_MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing, or not known.",
    403: "The token does not allow this.",
    404: "There is no such thing, or the token's owner may not know of it.",
    409: "Somebody else was first, or it cannot be decided any more: the detail says who and when.",
    412: "What would be decided is not what was shown.",
    413: "The request is too large.",
    422: "The request says something that cannot be.",
    424: "It is encrypted with a key that the server does not have.",
    428: "The decision does not say what was shown.",
    503: "The Temporal server cannot be reached.",
}


class ProblemDetails(Failure):
    """ProblemDetails details: `code` and `next_step` are ours, the rest is RFC 9457's."""

    title: str
    status: int
    detail: str


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that a route can answer with, for its description; 401 and 503 are always among them."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    known = sorted({400, 401, 403, 422, 424, 503, *statuses})
    return {status: {"description": _MEANINGS[status], "content": content, "model": ProblemDetails} for status in known}


def add_handlers(app: FastAPI) -> None:
    """Have the application answer errors with problem details."""
    app.add_exception_handler(LlmDoError, _known)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(Exception, _unknown)


def problem(status: int, code: str, detail: str, next_step: str | None = None) -> JSONResponse:
    """Return an answer with the problem."""
    title = _MEANINGS.get(status, "That did not work.")
    told = {"title": title, "status": status, "detail": detail, "code": code, "message": detail, "next_step": next_step}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse(told, status, headers, MEDIA_TYPE)


async def _known(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, LlmDoError)
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    told = Failure.of(error)
    return problem(status, told.code, told.message, told.next_step)


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, "HttpError", str(error.detail))
    answer.headers.update(error.headers or {})
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(sorted(_methods_at(request)))
    return answer


def _methods_at(request: Request) -> set[str]:
    """Return the methods of all routes at the request's path; each method has a route of its own."""
    routes = (route for route in request.app.state.routes if isinstance(route, APIRoute))
    return {method for one in routes if one.path_regex.match(request.scope["path"]) for method in one.methods or ()}


async def _unreadable(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit, with the places of all mistakes and none of their values."""
    assert isinstance(error, RequestValidationError)
    mistakes = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return problem(422, "UsageError", "; ".join(mistakes[:20])[:4_000])


async def _unknown(_request: Request, error: Exception) -> JSONResponse:
    return problem(500, type(error).__name__, "The server met an error that it does not know.")
