"""Errors that come in the body of an answer with status 200.

Owns the status that such an error should have had. With it, the provider's library and its adapter read the error as
they read all others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

UNNAMED = 599
"""Status of an error that names none, nor anything from which one follows."""
_ANSWERS = ("choices", "content", "output", "candidates")
"""Keys with the answer itself, in all protocols: beside one an error is a remark."""
_BARE = (b'"message"', b'"detail"')
"""Keys with the words of an error that is nothing else, as web servers and API gateways send it."""
_WORDS = (
    (402, ("insufficient_quota", "quota_exceeded", "billing", "credit", "payment")),
    (429, ("rate_limit", "rate limit", "too_many_requests", "too many requests", "resource_exhausted", "throttl")),
    (503, ("overloaded", "over capacity", "unavailable")),
    (401, ("authentication", "unauthenticated", "invalid_api_key", "unauthorized")),
    (403, ("permission", "forbidden")),
    (404, ("not_found", "notfound")),
    (413, ("too_large",)),
    (400, ("invalid_request", "invalid_argument", "context_length", "badrequest")),
    (504, ("timeout", "timed out", "deadline")),
    (500, ("server_error", "internal", "api_error")),
)


def status_of(body: bytes) -> int | None:
    """Return the HTTP status of the error that a body is; None where it is none, or no JSON."""
    is_bare = any(key in body for key in _BARE) and not any(key.encode() in body for key in _ANSWERS)
    if b"error" not in body and not is_bare:
        return None
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(read, list) and len(cast("list[Any]", read)) == 1:
        read = cast("list[Any]", read)[0]
    if not isinstance(read, dict):
        return None
    whole = cast("dict[str, Any]", read)
    is_error = "error" in (whole.get("object"), whole.get("type"))
    words = is_bare and any(isinstance(whole.get(key), str) for key in ("message", "detail"))
    error = whole.get("error") or (whole if is_error or words else None)
    if error and not any(whole.get(key) for key in _ANSWERS):
        return _status(error, whole)
    broken = _error_of_choice(whole)
    return None if not broken else _status(broken, broken)


def _error_of_choice(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the error in the first choice, which some gateways put there when it broke off; empty: there is none."""
    choices: Any = whole.get("choices")
    first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    error: Any = cast("Mapping[str, Any]", first).get("error") if isinstance(first, Mapping) else None
    return cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {}


def _status(error: object, whole: Mapping[str, Any]) -> int:
    named: list[object] = [error] if isinstance(error, str) else []
    for given in (error, whole):
        if isinstance(given, Mapping):
            known = cast("Mapping[str, Any]", given)
            named += (known.get(key) for key in ("code", "status", "status_code", "type"))
    for one in named:
        if not isinstance(one, bool) and str(one).isdecimal() and len(str(one)) == 3 and 400 <= int(str(one)) < 600:
            return int(str(one))
    if isinstance(error, Mapping):
        named += (cast("Mapping[str, Any]", error).get(key) for key in ("message", "detail"))
    for one in named:
        words = one.lower() if isinstance(one, str) else ""
        for status, signs in _WORDS:
            if any(sign in words for sign in signs):
                return status
    return UNNAMED
