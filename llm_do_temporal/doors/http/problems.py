"""Errors as problem details (RFC 9457), with the status that fits them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.values import Failure, ProblemDetails, mistakes_in
from llm_do_temporal.doors.values.problem_types import PROBLEM_TYPES
from llm_do_temporal.errors import LlmDoError, UsageError

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
