"""The application of `/api/v1`, with the OpenAPI document that is made from its routes.

A thin translation: each route asks `doors` one thing. Owns headers, status codes and nothing else.
"""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.types import ASGIApp

from llm_do_temporal.doors.http import experiments, questions, runs
from llm_do_temporal.doors.http.problems import add_handlers, problem_responses
from llm_do_temporal.doors.http.requests import PREFIX
from llm_do_temporal.doors.reference import POLICY, reference_page
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.tokens import TokenFile
from llm_do_temporal.request_bodies import limited

MAX_BODY_BYTES = 64 << 20
"""Largest request: files are in base64."""


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
    for router in (runs.router, questions.router, experiments.router):
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


__all__ = ["MAX_BODY_BYTES", "PREFIX", "build_api"]
