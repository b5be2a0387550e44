"""Page of two runs side by side."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.extensions.forks.client_differences import read_difference
from llm_do_temporal.policy.layers.patch import Hunk, ended_line, file_hunks, line_span
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.ui.content.documents import DiffBlock, blocks_of
from llm_do_temporal.ui.content.renderer import pretty, render
from llm_do_temporal.ui.content.urls import run_address
from llm_do_temporal.ui.requests import client_of

MOST_DIVERGENCES = 20
"""Invocations of which the first difference is shown; of others the table tells that they differ."""
MOST_PAIRS = 200
MOST_CHARS = 20_000
"""Characters of a value that are compared on a page; `diff --json` has all of it."""
MOST_LINES = 400
"""Lines of a difference that are shown."""
_CUT = "… cut here; `diff --json` has all of it"


def difference_address(run: str, other: str) -> str:
    """Return the address of the page of two runs beside each other."""
    return f"{run_address(run)}/diff/{quote(other, safe='')}"


async def show_difference(request: Request) -> Response:
    """Show what differs between the two runs that the address names."""
    run, other = request.path_params["run"], request.path_params["other"]
    difference = await read_difference(client_of(request).temporal, run, other)
    first, second = difference.first, difference.second
    shown = difference.divergences[:MOST_DIVERGENCES]
    return render(
        request,
        "forks/diff.html",
        first=first,
        second=second,
        difference=difference,
        divergences=[(one, sides_of(one.first, one.second)) for one in shown],
        pairs=difference.pairs[:MOST_PAIRS],
        answer=None if difference.same_output else sides_of(first.error or first.output, second.error or second.output),
        files=[(one, _blocks(one.lines)) for one in difference.files],
    )


def sides_of(first: Any, second: Any) -> list[DiffBlock]:
    """Return two values beside each other, as the lines that differ and those around them."""
    hunks = file_hunks(_text(first).encode(errors="replace"), _text(second).encode(errors="replace"))
    return [] if hunks is None else _blocks(hunks.hunks)


def _blocks(hunks: tuple[Hunk, ...]) -> list[DiffBlock]:
    lines: list[str] = []
    for hunk in hunks:
        old, new = line_span(hunk.old_start, hunk.old_lines), line_span(hunk.new_start, hunk.new_lines)
        lines += [f"@@ -{old} +{new} @@", *(ended_line(line).rstrip("\n") for line in hunk.lines)]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"@@ {_CUT}"]
    return blocks_of(remove_keys("\n".join(lines)), None) if lines else []


def _text(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else pretty(value)
    if len(text) > MOST_CHARS:
        text = f"{text[:MOST_CHARS]}\n{_CUT}"
    # What has no line end at its last line would be told to differ in that alone.
    return text if not text or text.endswith("\n") else f"{text}\n"


routes = (Route("/runs/{run}/diff/{other}", show_difference, methods=["GET"]),)
