"""Ends of calls of MCP servers: whether a server refused a call, or nobody knows what it did.

Owns which errors of the protocol's library leave the outcome of a call unknown. Called by the activity that makes the
calls, for errors that came after the connection was made and the tools were listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

_CONNECTION_CLOSED = -32000
_REQUEST_TIMEOUT = -32001
_PARSE_ERROR = -32700
_WHY: Mapping[int, str] = {
    _CONNECTION_CLOSED: "closed the connection before it answered",
    _REQUEST_TIMEOUT: "did not answer in time",
    _PARSE_ERROR: "gave an answer that could not be read",
}
"""Reasons by the code that the library gives to an error of its own, each as the end of a sentence."""
_WHY_BY_TEXT: Mapping[str, str] = {
    "Server returned an error response": "answered with an HTTP error that says nothing of the call",
    "Redirect to ": "answered with a redirect, which says nothing of the call",
    "Unexpected content type": "gave an answer that could not be read",
    "server answered a request with 202": "took the call and gave no answer",
}
"""Reasons by the begin of the library's text, where its code is one that servers use for refusals, too."""


def why_no_answer(error: BaseException | None) -> str | None:
    """Return why the outcome of a call is unknown, as the end of a sentence. None: the server has answered it.

    `error` is what the protocol's library raised; None, where the tool itself reported a failure.
    """
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    answered = getattr(error, "error", None)
    code, text = getattr(answered, "code", None), str(getattr(answered, "message", ""))
    if isinstance(code, int) and code in _WHY:
        return _WHY[code]
    return next((why for begin, why in _WHY_BY_TEXT.items() if text.startswith(begin)), None)
