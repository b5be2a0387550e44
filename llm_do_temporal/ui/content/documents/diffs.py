"""Differences as two sides, line by line, in the colours of their language. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from llm_do_temporal.ui.content.documents.syntax import coloured_change
from llm_do_temporal.ui.content.renderer import visible

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class DiffLine:
    """Line on one side of a difference."""

    kind: Literal["add", "del", "same", "note"]
    number: int | None
    """Number of the line in its file; None where it is not known."""
    html: Markup
    """Text of the line behind its sign."""


@dataclass
class DiffBlock:
    """Lines that stand beside each other; a heading has its text and no lines."""

    heading: Markup | None = None
    old: list[DiffLine] = field(default_factory=list[DiffLine])
    new: list[DiffLine] = field(default_factory=list[DiffLine])

    @property
    def is_same(self) -> bool:
        """Whether both sides are the same, so that a narrow screen shows one of them."""
        return all(line.kind == "same" for line in (*self.old, *self.new))


def blocks_of(diff: str, language: str | None) -> list[DiffBlock]:
    """Return a unified diff as blocks, in order; nothing of it is left out."""
    lines = diff.split("\n")
    names = 2 if diff.startswith("--- ") else 0
    blocks = [DiffBlock(visible(line)) for line in lines[:names]]
    for heading, body in _hunks(lines[names:]):
        if heading is not None:
            blocks.append(DiffBlock(visible(heading)))
        blocks += _pairs(body, heading, language)
    return blocks


def _hunks(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the parts below each `@@` line, with that line; None for what stands before the first."""
    heading: str | None = None
    body: list[str] = []
    for line in lines:
        if line.startswith("@@"):
            if heading is not None or body:
                yield heading, body
            heading, body = line, []
        else:
            body.append(line)
    if heading is not None or body:
        yield heading, body


def _pairs(body: list[str], heading: str | None, language: str | None) -> Iterator[DiffBlock]:
    found = _HUNK.match(heading or "")
    numbers = {"-": int(found[1]), "+": int(found[2])} if found else {}
    colours = {sign: iter(_side(body, sign, language)) for sign in "-+"}
    block = DiffBlock()
    for line in body:
        sign = line[:1]
        is_change = sign in ("-", "+")
        if (block.old or block.new) and sign != "\\" and is_change == block.is_same:
            yield block
            block = DiffBlock()
        if sign == "\\":
            note = DiffLine("note", None, visible(line))
            for side in (block.old, block.new):
                if side:
                    side.append(note)
            continue
        for each, side in (("-", block.old), ("+", block.new)):
            if is_change and each != sign:
                continue
            kind: Literal["add", "del", "same"] = "same" if not is_change else "del" if sign == "-" else "add"
            shown = Markup("{}{}").format(visible(sign or " "), next(colours[each]))
            side.append(DiffLine(kind, numbers.get(each), shown))
            if each in numbers:
                numbers[each] += 1
    if block.old or block.new:
        yield block


def _side(body: list[str], sign: str, language: str | None) -> list[Markup]:
    """Return the lines of one side in colours, without their signs."""
    other = "+" if sign == "-" else "-"
    return coloured_change("\n".join(line[1:] for line in body if line[:1] not in (other, "\\")), language)
