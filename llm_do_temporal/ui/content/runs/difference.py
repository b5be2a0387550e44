"""Values and files of two runs as two sides, cut to what a page holds. Pure."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.client.differences.reader import ComparedFile
from llm_do_temporal.policy.layers.patch import Hunk, ended_line, file_hunks, line_span
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.ui.content.documents.diffs import DiffBlock, blocks_of
from llm_do_temporal.ui.content.renderer import pretty

MOST_CHARS = 20_000
"""Characters of a value that are compared on a page; `diff --json` has all of it."""
MOST_LINES = 400
"""Lines of a difference that are shown."""
_CUT = "… cut here; `diff --json` has all of it"


def sides_of(first: Any, second: Any) -> list[DiffBlock]:
    """Return two values beside each other, as the lines that differ and those around them."""
    hunks = file_hunks(_text(first).encode(errors="replace"), _text(second).encode(errors="replace"))
    return [] if hunks is None else _blocks(hunks.hunks)


def file_blocks(file: ComparedFile) -> list[DiffBlock]:
    """Return the lines of a file in which the runs differ."""
    return _blocks(file.lines)


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
