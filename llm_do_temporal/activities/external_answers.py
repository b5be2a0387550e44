"""Answers of MCP servers in the form in which the protocol's library reads them.

Owns what becomes of an answer that breaks the protocol and whose meaning is plain all the same: the call was made, and
what it returned is a result or a failure. Owns also how much a server may write that is no message while it is waited
for. Called before the library reads a message.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from typing import Any, cast

from llm_do_temporal.activities.external_failures import bounded
from llm_do_temporal.definitions.tools.python_functions import DEEPEST, plain_value

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
            value, _ = decoder.raw_decode(_shallow(text))
    except (ValueError, RecursionError):
        return None
    return plain_value(value)


def _shallow(text: str) -> str:
    """Return a JSON text without what is nested too deeply for any reader."""
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
    return "".join(kept) + (text[end:] if depth < DEEPEST else "")


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
