"""Answers of MCP servers in the form in which the protocol's library reads them.

Owns what becomes of an answer that breaks the protocol and whose meaning is plain all the same: the call was made, and
what it returned is a result or a failure. Owns also how much a server may write that is no message while it is waited
for. Called before the library reads a message.

Owns which errors of the protocol's library leave the outcome of a call unknown, what is told of a server that does not
begin, cannot be reached or refuses (never a path, an address or a header), the bounds of such text, and that nothing in
it acts on a terminal or breaks a log.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import os
import re
import time
import traceback
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePath
from signal import Signals
from typing import Any, TextIO, cast

from llm_do_temporal.activities.runtime.failures import causes_of
from llm_do_temporal.definitions.tools.python_functions import DEEPEST, plain_value
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
            name = f"its program '{logged(PurePath(server.command[0]).name)}'"
            if isinstance(cause, FileNotFoundError):
                return f"{name} is missing where the worker service runs"
            return f"{name} cannot be started: {cause.strerror}"
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


def _said(text: str) -> str:
    return remove_keys(logged(text.strip()[:_MOST_SAID]))


LEFT_OUT = "x-left-out"
"""Key of a schema that stands for one that could not be read; its value is the reason."""
MOST_MESSAGE_BYTES = 32 * 1024 * 1024
"""Largest message of a server; results are cut to far less, once they are read."""
MOST_PROSE_LINES = 10_000
"""Most lines in a row that are no messages."""
MOST_PROSE_MOMENTS = 120
"""Most moments in a row in which such lines came: slow ones end the wait for an answer after one minute or two."""
MOMENT_SECONDS = 0.5
"""Seconds that one moment takes at least, however many lines came in it."""
REFUSED = -32603
"""Code of an error to which the server gave none."""
_BEGINNING = '{"jsonrpc"'
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_CUT_ANSWER = re.compile(r'\{.{0,200}?"id"\s*:\s*"?(\d{1,18})\b.*"(?:result|error)"\s*:', re.DOTALL)
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")


class Prose:
    """Lines of a server in a row, or texts of events, that are no messages."""

    def __init__(self) -> None:
        self._lines = self._bytes = self._moments = 0
        self._moment: float | None = None

    def is_too_much(self, size: int) -> bool:
        """Count a line of so many bytes, and return whether no answer is to be expected any more."""
        now = time.monotonic()
        if self._moment is None or now - self._moment >= MOMENT_SECONDS:
            self._moment = now
            self._moments += 1
        self._lines += 1
        self._bytes += size
        return self._lines > MOST_PROSE_LINES or self._bytes > MOST_MESSAGE_BYTES or self._moments > MOST_PROSE_MOMENTS


def read_message(text: str) -> dict[str, Any] | None:
    """Return the first JSON-RPC message in a text that the library could not read; None where there is none.

    What stands before and after the message is left out. Halves of characters are replaced, and what is nested too
    deeply is left out with a note.
    """
    start = text.find(_BEGINNING)
    value = _first_json(text[start if start >= 0 else max(text.find("{"), 0) :])
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, Any]", value)
    found: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(given.get("method"), str):
        parts: dict[str, Any] = {"method": given["method"]}
        if isinstance(given.get("params"), dict):
            parts["params"] = given["params"]
        return found | parts | ({"id": given["id"]} if "id" in given else {})
    if "id" not in given or not ("result" in given or "error" in given):
        return None
    if given.get("error") is not None:
        return {**found, "id": given["id"], "error": _error(given["error"])}
    result: Any = given.get("result")
    return {**found, "id": given["id"], "result": result if isinstance(result, dict) else {"content": result}}


def cut_answer(text: str) -> int | None:
    """Return the id of the request that a text answers which is no whole message; None: it answers no request."""
    found = _CUT_ANSWER.search(text[:2000])
    return int(found[1]) if found else None


def _first_json(text: str) -> Any:
    decoder = json.JSONDecoder(strict=False)
    try:
        try:
            value, _ = decoder.raw_decode(text)
        except RecursionError:
            # Without what is nested too deeply for any reader.
            kept: list[str] = []
            depth = end = 0
            for token in _TOKEN.finditer(text):
                if token[0] in "[{":
                    depth += 1
                    if depth == DEEPEST:
                        kept.append(f'{text[end : token.start()]}"[nested too deeply]"')
                elif token[0] in "]}":
                    if depth == DEEPEST:
                        end = token.end()
                    depth -= 1
            value, _ = decoder.raw_decode("".join(kept) + (text[end:] if depth < DEEPEST else ""))
    except (ValueError, RecursionError):
        return None
    return plain_value(value)


def _error(error: Any) -> dict[str, Any]:
    given: dict[str, Any] = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    code, message = given.get("code"), given.get("message")
    known = isinstance(code, int) and not isinstance(code, bool)
    return {"code": code if known else REFUSED, "message": message if isinstance(message, str) else _as_text(error)}


def readable_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call of a tool with parts that the library takes; others become text."""
    if result.get("resultType") == "input_required":
        return result
    content: Any = result.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    found: dict[str, Any] = {
        "content": [_part(part) for part in parts],
        "isError": result.get("isError") in (True, "true", "True"),
    }
    structured = result.get("structuredContent")
    if isinstance(result.get("resultType"), str):
        found["resultType"] = result["resultType"]
    if structured is None and "content" not in result:
        known = ("_meta", "isError", "resultType", "structuredContent")
        structured = {name: value for name, value in result.items() if name not in known} or None
    if structured is not None:
        # The library takes an object alone, and gives on what stands below this name as it is.
        found["structuredContent"] = structured if isinstance(structured, dict) else {"result": structured}
    return found


def _part(part: Any) -> dict[str, Any]:
    """Return a part of a result as the library takes it, without what no model gets."""
    given: dict[str, Any] = cast("dict[str, Any]", part) if isinstance(part, dict) else {"type": "text", "text": part}
    kind = given.get("type", "text")
    if kind == "text" and "text" in given:
        return _text(given["text"])
    if kind in ("image", "audio"):
        return _binary(kind, given)
    if kind == "resource" and isinstance(given.get("resource"), dict):
        return _resource(given["resource"])
    if kind == "resource_link" and isinstance(given.get("uri"), str):
        return {"type": kind, "uri": given["uri"], "name": _as_text(given.get("name") or given["uri"])}
    return _text(bounded(_as_text(given)))


def _text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": _as_text(value)}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _binary(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    media: Any = given.get("mimeType")
    size = _decoded_size(given.get("data"))
    if size is None:
        return _text(f"[{kind}, its data cannot be read]")
    if not isinstance(media, str) or not media.startswith(f"{kind}/"):
        return _text(f"[{kind}, {size} bytes, not shown]")
    return {"type": kind, "data": _DATA_URL.sub("", given["data"], 1), "mimeType": media}


def _resource(resource: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"uri": _as_text(resource.get("uri") or "")}
    if isinstance(resource.get("mimeType"), str):
        found["mimeType"] = resource["mimeType"]
    if isinstance(resource.get("text"), str):
        return {"type": "resource", "resource": {**found, "text": resource["text"]}}
    if _decoded_size(resource.get("blob")) is not None:
        return {"type": "resource", "resource": {**found, "blob": _DATA_URL.sub("", resource["blob"], 1)}}
    return _text(f"[resource {bounded(found['uri'], 1000)}, its content cannot be read]")


def _decoded_size(data: Any) -> int | None:
    """Return how many bytes stand in a text as Base64; None: they cannot be read."""
    if not isinstance(data, str):
        return None
    try:
        return len(base64.b64decode("".join(_DATA_URL.sub("", data, 1).split()), validate=True))
    except (binascii.Error, ValueError):
        return None
