"""Parts that all routes of `/api/v1` share: who calls, which service answers, ids, and what a decision is about."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from llm_do_temporal.doors.http.problems import problem
from llm_do_temporal.doors.principal import Principal
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.doors.tokens import TokenFile
from llm_do_temporal.messages.sizes import MAX_RUN_ID_CHARS

PREFIX = "/api/v1"
VIA = "http"
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_SINGLE = ("Authorization", "Idempotency-Key", "If-Match", "Last-Event-ID")
"""Headers of which there is one: somebody on the way may have read the other one."""

_bearer = HTTPBearer(auto_error=False, description="Token that `llm-do-temporal token create` has printed.")
RunId = Annotated[str, Path(description="Id of the run.", min_length=1, max_length=MAX_RUN_ID_CHARS)]
QuestionId = Annotated[str, Path(description="Id of the question, like `a3`.", max_length=40)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
Tag = Annotated[str | None, Header(alias="If-Match", description="The `ETag` of what was shown.", max_length=200)]
After = Annotated[int, Query(ge=0, le=1 << 31, description="`following` of the part before.")]


def _service(request: Request) -> DoorService:
    return request.app.state.service


def _caller(
    request: Request, response: Response, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """Return the owner of the request's token. Raises HTTPException."""
    response.headers.update(NO_STORE)
    if any(len(request.headers.getlist(name)) > 1 for name in _SINGLE):
        raise HTTPException(400, f"a header is there twice; of {', '.join(_SINGLE)} there is one")
    tokens = cast("TokenFile", request.app.state.tokens)
    record = None if given is None else tokens.find(given.credentials)
    if record is None:
        raise HTTPException(401, "no token, or none that is known here; `llm-do-temporal token create` makes one")
    return record.principal(VIA)


def is_known(request: Request) -> bool:
    """Return whether the token of a request is known at this moment: its answer may go on for days."""
    token = request.headers["Authorization"].partition(" ")[2].strip()
    return cast("TokenFile", request.app.state.tokens).find(token) is not None


Service = Annotated[DoorService, Depends(_service)]
Caller = Annotated[Principal, Depends(_caller)]


def unmatched(if_match: str | None, digest: str) -> Response | None:
    """Return the refusal of a decision that does not name what was shown; None: it does."""
    if if_match is None:
        return problem(428, "UsageError", "`If-Match` is missing", "Send the `ETag` of the question that was shown.")
    if if_match != f'"{digest}"':
        return problem(412, "DecisionRefused", "it asks about something else than what was shown", "Read it again.")
    return None
