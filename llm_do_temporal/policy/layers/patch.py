"""Hunks of a text file, which are accepted each by itself, and the patch of a layer that `git apply` takes.

A file has hunks where both of its states are UTF-8 text; of anything else there is one change, the whole. Lines end at
line feeds and nowhere else, and keep them, so that nothing of a file is lost on the way. The id of a hunk is a digest
of both files and of its place in them: when either file changes, no earlier id fits any more.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.layer import (
    Layer,
    LayerChange,
    LayerChangeKind,
    LayerNode,
    NodeKind,
    changes_of,
    is_folder,
)
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


Read = Callable[[LayerNode, str], bytes]
"""Returns the bytes of a file; its second argument is the path."""
_QUOTED = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
_LITERAL_BYTES = 52
"""Bytes in one line of a binary literal."""


def patch_of(layer: Layer, read: Read) -> str:
    """Return the patch. Folders are left out, as git has none; of permissions it knows whether a file is a program."""
    return "".join(part for change in changes_of(layer) for part in _parts(change, read))


def _parts(change: LayerChange, read: Read) -> Iterator[str]:
    """Yield the patch of one change; two, where a link takes the place of a file or a file that of a link."""
    old, new = _of_git(change.base), _of_git(change.now)
    old_path = change.old_path or change.path
    if old is not None and new is not None and old.kind is not new.kind:
        yield _file(old, None, old_path, old_path, read)
        yield _file(None, new, change.path, change.path, read)
    elif old is not None or new is not None:
        yield _file(old, new, old_path, change.path, read, renamed=change.kind is LayerChangeKind.RENAMED)


def _file(
    old: LayerNode | None, new: LayerNode | None, old_path: str, path: str, read: Read, *, renamed: bool = False
) -> str:
    before = b"" if old is None else _bytes(old, old_path, read)
    after = b"" if new is None else _bytes(new, path, read)
    head = [f"diff --git {_quoted('a/' + old_path)} {_quoted('b/' + path)}"]
    if old is None and new is not None:
        head.append(f"new file mode {git_mode(new)}")
    elif new is None and old is not None:
        head.append(f"deleted file mode {git_mode(old)}")
    elif old is not None and new is not None and git_mode(old) != git_mode(new):
        head += [f"old mode {git_mode(old)}", f"new mode {git_mode(new)}"]
    if renamed:
        head += ["similarity index 100%", f"rename from {_quoted(old_path)}", f"rename to {_quoted(path)}"]
    if before == after:
        # Without a difference in bytes or mode there is nothing that git would take.
        return "\n".join(head) + "\n" if len(head) > 1 else ""
    hunks = file_hunks(before, after)
    if hunks is None:
        index = f"index {_object_id(old, before)}..{_object_id(new, after)}"
        return "\n".join([*head, index, "GIT binary patch", _literal(after), _literal(before), ""])
    names = ["--- /dev/null" if old is None else f"--- {_quoted('a/' + old_path)}"]
    names.append("+++ /dev/null" if new is None else f"+++ {_quoted('b/' + path)}")
    return "\n".join([*head, *names]) + "\n" + hunks.unified()


def _of_git(node: LayerNode | None) -> LayerNode | None:
    return None if is_folder(node) else node


def _bytes(node: LayerNode, path: str, read: Read) -> bytes:
    return node.target.encode() if node.kind is NodeKind.LINK else read(node, path)


def git_mode(node: LayerNode) -> str:
    """Return the mode that git has for a file or a link."""
    return "120000" if node.kind is NodeKind.LINK else "100755" if node.mode & 0o100 else "100644"


def _quoted(path: str) -> str:
    """Return a path as git writes it: in quotes where it has characters that could be taken for something else."""
    data = path.encode()
    if all(32 <= byte < 127 and byte not in _QUOTED for byte in data):
        return path if " " not in path else f'"{path}"'
    escaped = (_QUOTED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
    return '"' + "".join(escaped) + '"'


def _object_id(node: LayerNode | None, data: bytes) -> str:
    """Return the name that git gives to these bytes, by which it makes sure that a patch with bytes fits."""
    if node is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _literal(data: bytes) -> str:
    packed = zlib.compress(data)
    lines = [f"literal {len(data)}\n"]
    for start in range(0, len(packed), _LITERAL_BYTES):
        part = packed[start : start + _LITERAL_BYTES]
        # The first letter tells how many bytes the line has.
        size = chr(ord("A") + len(part) - 1) if len(part) <= 26 else chr(ord("a") + len(part) - 27)
        lines.append(size + base64.b85encode(part, pad=True).decode() + "\n")
    return "".join(lines)
