"""Hunks: the change of one text file in parts that are accepted each by itself.

A file has hunks where both of its states are UTF-8 text; of anything else there is one change, the whole. Lines end at
line feeds and nowhere else, and keep them, so that nothing of a file is lost on the way. The id of a hunk is a digest
of both files and of its place in them: when either file changes, no id of before fits any more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import Value

CONTEXT_LINES = 3
ID_DIGITS = 32
"""Digits of the id of a hunk: 128 bits."""
MAX_COMPARED_LINES = 4_000
"""Most lines that are compared one by one, which grows with their square; where more differ they are one hunk."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Hunk(Value):
    """Lines that are replaced by others."""

    id: str
    old_start: int
    """Number of old lines before the hunk's first one."""
    new_start: int
    """Number of new lines before it."""
    lines: tuple[str, ...]
    """Lines with their ends; each begins with ' ' (both), '-' (old) or '+' (new)."""

    @property
    def old_lines(self) -> int:
        """Number of the hunk's lines in the old text."""
        return sum(line[0] != "+" for line in self.lines)

    @property
    def new_lines(self) -> int:
        """Number of the hunk's lines in the new text."""
        return sum(line[0] != "-" for line in self.lines)

    @property
    def growth(self) -> int:
        """Number of lines that a file gains by the hunk; negative where it loses some."""
        return self.new_lines - self.old_lines


class FileHunks(Value):
    """All hunks of one file."""

    old: str
    new: str
    hunks: tuple[Hunk, ...]

    def chosen(self, ids: Collection[str]) -> tuple[Hunk, ...]:
        """Return the hunks with these ids, in their order. Raises DecisionRefused where there is none with one."""
        known = {hunk.id for hunk in self.hunks}
        if stale := sorted(set(ids) - known):
            raise DecisionRefused(
                f"there is no part '{stale[0]}' of this change; the file is not as it was when that was shown",
                next_step="Look at the change again.",
            )
        return tuple(hunk for hunk in self.hunks if hunk.id in ids)

    def applied(self, ids: Collection[str]) -> str:
        """Return the old text with these hunks, and no others. Raises DecisionRefused for an id that is no hunk's."""
        old = split_lines(self.old)
        made: list[str] = []
        at = 0
        for hunk in self.chosen(ids):
            made += old[at : hunk.old_start]
            made += [line[1:] for line in hunk.lines if line[0] != "-"]
            at = hunk.old_start + hunk.old_lines
        return "".join([*made, *old[at:]])

    def unified(self, ids: Collection[str] | None = None) -> str:
        """Return these hunks (None: all) as the body of a unified diff, counted as if there were no others."""
        hunks = self.hunks if ids is None else self.chosen(ids)
        written: list[str] = []
        shift = 0
        for hunk in hunks:
            old = line_span(hunk.old_start, hunk.old_lines)
            written.append(f"@@ -{old} +{line_span(hunk.old_start + shift, hunk.new_lines)} @@\n")
            written += [ended_line(line) for line in hunk.lines]
            shift += hunk.growth
        return "".join(written)


def file_hunks(old: bytes, new: bytes) -> FileHunks | None:
    """Return the hunks between two states of a file; None where one of them is not text, or nothing differs."""
    texts = [text_of(old), text_of(new)]
    before, after = texts
    if before is None or after is None or before == after:
        return None
    old_lines, new_lines = split_lines(before), split_lines(after)
    groups = list(_groups(old_lines, new_lines))
    named = digest_of([before, after])
    hunks = tuple(_hunk(named, group, old_lines, new_lines) for group in groups)
    return FileHunks(old=before, new=after, hunks=hunks)


def text_of(data: bytes) -> str | None:
    """Return the text of a file; None where it is none."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def split_lines(text: str) -> list[str]:
    """Return the lines of a text with their ends."""
    # Not splitlines(): that breaks at characters which are no line ends for anybody else.
    return _LINE.findall(text)


_Opcode = tuple[str, int, int, int, int]


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[_Opcode]]:
    """Yield the operations of each hunk: tag, and the lines from and to, old and new."""
    shortest = min(len(old), len(new))
    start = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    same_end = next((i for i in range(shortest - start) if old[-1 - i] != new[-1 - i]), shortest - start)
    head, tail = min(start, CONTEXT_LINES), min(same_end, CONTEXT_LINES)
    old_end, new_end = len(old) - same_end, len(new) - same_end
    if old_end + new_end - 2 * start > MAX_COMPARED_LINES:
        around = [("equal", start - head, start, start - head, start)] if head else []
        after = [("equal", old_end, old_end + tail, new_end, new_end + tail)] if tail else []
        yield [*around, ("replace", start, old_end, start, new_end), *after]
        return
    first = start - head
    matcher = SequenceMatcher(None, old[first : old_end + tail], new[first : new_end + tail])
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        yield [(tag, i1 + first, i2 + first, j1 + first, j2 + first) for tag, i1, i2, j1, j2 in group]


def _hunk(named: str, group: list[_Opcode], old: Sequence[str], new: Sequence[str]) -> Hunk:
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            lines += [f" {line}" for line in old[i1:i2]]
        else:
            lines += [f"-{line}" for line in old[i1:i2]]
            lines += [f"+{line}" for line in new[j1:j2]]
    old_start, new_start = group[0][1], group[0][3]
    return Hunk(
        id=digest_of([named, old_start, new_start, len(lines)])[:ID_DIGITS],
        old_start=old_start,
        new_start=new_start,
        lines=tuple(lines),
    )


def line_span(start: int, count: int) -> str:
    """Return the place of so many lines behind `start` others, as the head of a hunk has it."""
    # A unified diff numbers lines from 1, and an empty span by the line before it.
    return f"{start + 1 if count else start},{count}"


def ended_line(line: str) -> str:
    """Return a line of a unified diff with its end, and a note where the file has none there."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
