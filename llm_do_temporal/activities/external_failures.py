"""Failures of toolsets from elsewhere, and the texts of their programs, as people and logs get them.

Owns which errors of the protocol's library leave the outcome of a call unknown, what is told of a server that does not
begin, cannot be reached or refuses (never a path, an address or a header), the bounds of such text, and that nothing in
it acts on a terminal or breaks a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import traceback
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePath
from signal import Signals
from typing import TextIO, cast

from llm_do_temporal.activities.runtime.failures import causes_of
from llm_do_temporal.messages.definitions import McpServer
from llm_do_temporal.messages.sizes import MAX_EXTERNAL_ERROR_CHARS, MAX_LOGGED_CHARS
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible

_LAST_WORDS_SECONDS = 1.0
"""Seconds for the last words of a stopped server; processes that it left behind may hold the pipe for ever."""

_log = logging.getLogger(__name__)


def bounded(text: str, most: int = MAX_EXTERNAL_ERROR_CHARS) -> str:
    """Return the text, cut after `most` characters, and without half characters, which no history can hold."""
    said = text[:most].encode("utf-8", errors="replace").decode("utf-8")
    return said if len(text) <= most else f"{said} [cut here: {most} of {len(text)} characters]"


def logged(text: str) -> str:
    """Return foreign text as a log may hold it: cut, with hidden characters written out; lines stay lines."""
    return made_visible(bounded(text, MAX_LOGGED_CHARS))


def logged_error(error: BaseException) -> str:
    """Return an error with its traceback for the log; its message may be foreign text."""
    return logged("".join(traceback.format_exception(error, limit=-20)))


@contextlib.asynccontextmanager
async def server_stderr(name: str) -> AsyncGenerator[TextIO]:
    """Open a file for a server's standard error; the beginning of its text is logged, the rest is dropped."""
    reading, writing = os.pipe()
    heard = _Heard()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: heard, os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        os.close(writing)
        raise
    try:
        with os.fdopen(writing, "w") as file:
            yield file
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await heard.ended.wait()
    finally:
        transport.close()
        if heard.total:
            _log.warning("the server of toolset %s wrote to its standard error: %s", name, heard.text())


class _Heard(asyncio.Protocol):
    """Keeps the beginning of the output, and counts all of it."""

    def __init__(self) -> None:
        self.total = 0
        self.ended = asyncio.Event()
        self._kept = b""

    def data_received(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data[: MAX_LOGGED_CHARS - len(self._kept)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def text(self) -> str:
        """Return the text for the log."""
        said = logged(self._kept.decode("utf-8", errors="replace").strip())
        left = self.total - len(self._kept)
        return f"{said} [and {left} bytes more]" if left else said


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


CONNECT_SECONDS = 45
"""Seconds for the first answer of a server: a program has to be loaded, perhaps on a busy machine."""
_NO_BEGIN = "Failed to initialize server session"
"""Text of the library for a server that has not answered in time."""
_MOST_SAID = 200
_WITH_KEY = ("LocalProtocolError", "UnicodeEncodeError")
"""Classes of errors of headers; their messages may quote a key."""


@dataclass
class ServerNote:
    """Last sign of its server that a transport saw and that explains a failure; None: there is none."""

    text: str | None = None

    def answered(self, status: int) -> None:
        """Note the HTTP status of an answer; a good one explains nothing."""
        known = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
        self.text = None if 200 <= status < 300 else f"its server answered with HTTP status {status}{known}"

    def broken(self, words: str, *, sent: bool) -> None:
        """Note a connection that failed, in the words of the HTTP library; not `sent`: it was never made."""
        what = "the connection to its server broke" if sent else "its server cannot be reached"
        self.text = f"{what}: {_said(words) or 'it took too long'}"

    def ended(self, code: int) -> None:
        """Note the end of a program: its exit code, or the negative number of the signal that ended it."""
        signal = Signals(-code).name if -code in set(Signals) else -code
        how = f"exit code {code}" if code >= 0 else f"signal {signal}"
        self.text = f"its program ended with {how}"


def why_unusable(server: McpServer, error: BaseException, note: ServerNote) -> str | None:
    """Return why a server cannot be used. None: nothing is known but the class of the error."""
    for cause in (error, *causes_of(error)):
        kind = type(cause).__name__
        if isinstance(cause, OSError) and server.command and cause.filename == server.command[0]:
            return _not_started(server.command[0], cause)
        if str(cause) == _NO_BEGIN:
            return f"its server did not answer within {CONNECT_SECONDS} s"
        if kind in _WITH_KEY:
            return "one of its headers has characters that HTTP does not carry"
    if note.text is not None:
        return note.text
    why = why_no_answer(error)
    if why is not None:
        return f"its server {why}"
    said = getattr(getattr(error, "error", None), "message", None)
    return f"its server refuses: {_said(said)}" if isinstance(said, str) and said.strip() else None


def _not_started(program: str, error: OSError) -> str:
    name = f"its program '{logged(PurePath(program).name)}'"
    if isinstance(error, FileNotFoundError):
        return f"{name} is missing where the worker service runs"
    return f"{name} cannot be started: {error.strerror}"


def _said(text: str) -> str:
    return remove_keys(logged(text.strip()[:_MOST_SAID]))
