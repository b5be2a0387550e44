"""Parts that all routes of `/api/v1` share: who calls, which service answers, ids, and what a decision is about."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.http.problems import path_item
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.tokens import TokenFile
from llm_do_temporal.doors.values.runs import MAX_KEY_CHARS, MAX_QUESTION_ID_CHARS
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


def _caller(
    request: Request, response: Response, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """Return the owner of the token. Raises HTTPException, UsageError for a query key that the route does not have."""
    response.headers.update(NO_STORE)
    if any(len(request.headers.getlist(name)) > 1 for name in _SINGLE):
        raise HTTPException(400, f"a header is there twice; of {', '.join(_SINGLE)} there is one")
    tokens = cast("TokenFile", request.app.state.tokens)
    record = None if given is None else tokens.find(given.credentials)
    if record is None:
        raise HTTPException(401, "no token, or none that is known here")
    _check_query(request)
    return record.principal(VIA)


def _check_query(request: Request) -> None:
    """Raise UsageError for a key of the query that the route does not have."""
    parameters = path_item(request)[request.method.lower()].get("parameters", ())
    known = [one["name"] for one in parameters if one["in"] == "query"]
    for key in set(request.query_params) - set(known):
        close = "".join(f"Did you mean '{one}'? " for one in get_close_matches(key, known, n=1))
        step = f"{close}There are {', '.join(known)}." if known else "It takes none."
        raise UsageError(f"query.{key[:80]}: this route has no such key", next_step=step)


def is_known(request: Request) -> bool:
    """Return whether the token of a request is known at this moment: its answer may go on for days."""
    token = request.headers["Authorization"].partition(" ")[2].strip()
    return cast("TokenFile", request.app.state.tokens).find(token) is not None


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
