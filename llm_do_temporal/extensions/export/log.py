"""Events of a run as lines for people, in the order in which they happened: `logs`.

Pure. An event is a line with the time (UTC), the place in the tree and a description; a model's words stand below.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from llm_do_temporal.cli.tables import clock
from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.client.views.run_view import ViewEvent

_PATH_CHARS = 28
_WORDS_CHARS = 600
_VALUE_CHARS = 120
_INDENT = "    | "


def log_lines(event: ViewEvent) -> list[str]:
    """Return the lines of one event."""
    when = f"{event.at.isoformat(sep=' ', timespec='milliseconds')}Z"
    place = visible_line(event.path or "run").ljust(_PATH_CHARS)
    answer = str(event.data.get("text") or "").strip()
    words = visible_line(_words(event), _WORDS_CHARS)
    return [f"{when}  {place}  {words}", *(f"{_INDENT}{line}" for line in visible_block(answer).splitlines())]


def concerns(event: ViewEvent, path: str | None) -> bool:
    """Whether the event belongs to the invocation at `path` or to one below it; every event does for None."""
    return path is None or is_within(event.path, path)


def is_within(place: str, path: str) -> bool:
    """Whether a place in the tree is `path` or below it."""
    return place == path or place.startswith(f"{path}/")


def _words(event: ViewEvent) -> str:
    kind, _, what = event.type.partition(".")
    data = event.data
    if event.type in _WORDS:
        return _WORDS[event.type](data)
    if kind == "approval":
        return _approval(what, data)
    if kind == "activity":
        more = data.get("error") or data.get("note")
        return f"{what}: {data.get('what')}" + (f": {more}" if more else "")
    why = data.get("error") or ""
    if kind == "item":
        why = f"{data.get('item')}" + (f": {why.get('message')}" if isinstance(why, dict) else "")
    return f"{kind} {what}" + (f": {why}" if why else "")


def _answered(data: dict[str, Any]) -> str:
    calls = ", ".join(map(_call, cast("list[dict[str, Any]]", data.get("calls") or [])))
    tokens = f"{data.get('input_tokens', 0):,} tokens in, {data.get('output_tokens', 0):,} out"
    tokens += " (estimated)" if data.get("estimated") else ""
    tokens = f"from {data['reused']}" if data.get("reused") else tokens
    return f"turn {data.get('turn')} answered: {tokens}" + (f"; calls {calls}" if calls else "")


def _failed(data: dict[str, Any]) -> str:
    reason = data.get("reason")
    said = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return f"{data.get('tool')} refused or failed: {said}"


def _warning(data: dict[str, Any]) -> str:
    return f"warning: {data.get('reason')}"


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "invocation.started": lambda data: f"started: {data.get('worker')}, {data.get('model')}",
    "turn.started": lambda data: f"turn {data.get('turn')} begins",
    "turn.completed": _answered,
    "call.reused": lambda data: f"{data.get('tool')} not carried out: its result is from {data.get('reused')}",
    "call.anew": lambda data: f"a call of the other run is carried out anew: {data.get('reason')}",
    "call.failed": _failed,
    "tools.missing": _warning,
    "files.missing": _warning,
    "signal.ignored": lambda data: f"a signal was ignored: {data.get('reason')}",
    "desk.changed": lambda data: f"waits for a person: {', '.join(data.get('pending') or []) or 'nothing'}",
}
"""Words for an event, by its type, out of its data."""


def _approval(what: str, data: dict[str, Any]) -> str:
    if what == "requested":
        why = f", since {data['reason']}" if data.get("reason") else ""
        return f"asks: {data.get('summary')}{why}" + (f": {_arguments(data['args'])}" if data.get("args") else "")
    if what == "voted":
        votes: list[str] = data.get("votes") or []
        names = ", ".join(name or "somebody" for name in votes)
        return f"{data.get('id')} agreed to so far by {names}: {data.get('summary')}"
    who = data.get("by") or ("a timer" if data.get("door") == "timer" else "somebody")
    who += f" via {data['via']}" if data.get("via") else ""
    who += f" (from {data['source']})" if data.get("source") else ""
    note = f" ({data['note']})" if data.get("note") else ""
    waited = data.get("waited_seconds")
    after = "" if waited is None else f" after {clock(waited)}"
    return f"{data.get('id')} {data.get('decision')} by {who}{after}: {data.get('summary')}{note}"


def _call(call: dict[str, Any]) -> str:
    return f"{call.get('tool')}({_arguments(call.get('args'))})"


def _arguments(args: Any) -> str:
    """Return the arguments of a call on one line, each text with the beginning that a line has room for."""
    if not isinstance(args, dict):
        return _brief(args)
    given = cast("dict[str, Any]", args)
    return ", ".join(f"{name}={_brief(value)}" for name, value in given.items())


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"
