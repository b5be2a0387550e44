"""Parts that all routes of `/api/v1` share: who calls, which service answers, ids, and what a decision is about."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Annotated, Any, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.http.problems import path_item
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.tokens import TokenFile, TokenRecord
from llm_do_temporal.doors.values.runs import MAX_KEY_CHARS, MAX_QUESTION_ID_CHARS
from llm_do_temporal.doors.values.strict_json import read_json
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS

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
    """Raise UsageError for a key of the query that the route does not have."""
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
