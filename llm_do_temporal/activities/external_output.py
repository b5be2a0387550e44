"""Texts of other people's programs beside their results: errors, and the standard error of servers.

Owns the bounds of such text, and that nothing in it acts on a terminal or breaks a log. Called where toolsets from
elsewhere are used; what their calls return is bounded there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import traceback
from collections.abc import AsyncGenerator
from typing import TextIO

from llm_do_temporal.messages.sizes import MAX_EXTERNAL_ERROR_CHARS, MAX_LOGGED_CHARS
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
