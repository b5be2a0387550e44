"""Calls as the page shows them, in parts and in tables of similar questions: differences on two sides, files as read.

Nothing is cut. A long part may be folded, and then has to be opened before the call can be approved. Whether the file
that a call would change is as it was is seen only if the workshop's folder is on the page's machine: by the preview of
the file activities, which leads nowhere outside of the workshop and changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from llm_do_temporal.client import FrozenQuestion, InboxEntry, LlmDoClient, Question
from llm_do_temporal.client.open_questions import QuestionGroup, read_readable
from llm_do_temporal.client.question_document import FILE_TEXTS, CallPart, changed_arguments, parts_of_call
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import EditFileInput, FileChange, WriteFileInput
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.sandbox.changes import TextFiles
from llm_do_temporal.ui.content.documents import DiffBlock, ReadText, blocks_of, coloured, document_of, language_of

LONG_CHARS, LONG_LINES = 8_000, 120
"""Longest part that is shown open; of a longer one nobody sees the end without meaning to."""
LINE_CHARS = 80
"""Longest JSON that stands on one line."""
MOST_WHOLE, MOST_RUNS = 40, 20
"""Questions whose long arguments one page shows whole, and runs whose histories are read for that."""
MOST_CHARS = 400_000
"""Most characters of these arguments together; a question that does not fit shows its beginnings alone."""


@dataclass(frozen=True)
class Part:
    """Piece of a call."""

    label: str
    kind: Literal["text", "json", "argv", "diff"]
    text: str = ""
    words: tuple[str, ...] = ()
    """Program and arguments of a command, one by one; empty for other kinds."""
    is_told: bool = False
    """Whether a difference above shows all that the part changes, so that it need not be opened."""

    @property
    def is_long(self) -> bool:
        """Whether the part is folded if a page can fold it."""
        return len(self.text) > LONG_CHARS or self.text.count("\n") > LONG_LINES or len(self.words) > LONG_LINES


@dataclass(frozen=True)
class ShownPart:
    """Part of a call with what a page needs to show it."""

    part: Part
    document: ReadText
    blocks: list[DiffBlock] = field(default_factory=list[DiffBlock])
    """Sides of a difference; empty for other kinds."""

    @property
    def is_told(self) -> bool:
        """Whether a difference above shows all that the part changes."""
        return self.part.is_told


def parts_of(question: Question) -> list[Part]:
    """Return the whole call as it was asked for, in parts; the files that it hands over are shown by themselves."""
    request = question.request
    return [one for part in parts_of_call(request, request.args, request.diff or "") for one in _parts(part)]


def shown_parts(parts: Sequence[Part], request: RequestApprovalInput) -> list[ShownPart]:
    """Return the parts of a call in the order in which people read them: commands and differences first."""
    path = str(request.args.get("path", "")) if request.tool in PATH_TOOLS else ""
    first = [part for part in parts if part.kind in ("argv", "diff")]
    return [shown_part(part, path) for part in (*first, *(part for part in parts if part not in first))]


def shown_part(part: Part, path: str = "") -> ShownPart:
    """Return a part that is about the file at `path`."""
    if part.kind == "diff":
        return ShownPart(part, ReadText(coloured(part.text, None)), blocks_of(part.text, language_of(path)))
    if part.kind == "json":
        return ShownPart(part, ReadText(coloured(part.text, "json")))
    is_file = part.label in FILE_TEXTS
    return ShownPart(part, document_of(path if is_file else "", part.text, is_written=True))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Part]:
    """Return the differences between two sets of arguments, a part for each argument that differs."""
    return [Part(name, "diff", "\n".join(lines)) for name, lines in changed_arguments(before, after)]


def _parts(part: CallPart) -> Iterator[Part]:
    if part.kind == "diff":
        yield Part("Changes", "diff", part.value.rstrip("\n"))
    elif part.kind == "argument":
        yield _part(part.name, part.value, is_told=part.is_told)
    elif part.kind == "capability":
        for name, value in part.value.items():
            if name == "argv" and isinstance(value, list | tuple):
                yield Part("Command, word by word", "argv", words=tuple(map(str, cast("list[Any]", value))))
            else:
                yield _part(f"{part.name}: {name}", value)


def _part(label: str, value: Any, *, is_told: bool = False) -> Part:
    if isinstance(value, str):
        return Part(label, "text", value, is_told=is_told)
    line = json.dumps(value, ensure_ascii=False)
    return Part(label, "json", line if len(line) <= LINE_CHARS else json.dumps(value, indent=2, ensure_ascii=False))


@dataclass(frozen=True)
class FileNow:
    """State of the file now, against the question."""

    state: Literal["same", "changed", "unknown"]
    diff: str = ""
    """Changes that the call would make now, if they differ from those in the question."""
    problem: str = ""
    """Reason why the call would fail now; empty if it would not."""

    @property
    def part(self) -> Part:
        """Part of the page with the changes."""
        return Part("Changes, as the file is now", "diff", self.diff)


def file_now(question: Question, workshop: Path | None) -> FileNow | None:
    """Compare the file that an open question would change; None for questions about anything else. Reads files."""
    request = question.request
    if not question.is_open or request.diff is None or request.tool not in ("write_file", "edit_file"):
        return None
    if workshop is None or not workshop.is_dir():
        return FileNow("unknown")
    try:
        change = _preview(question, workshop)
    except LlmDoError as error:
        return FileNow("changed", problem=error.message)
    except (OSError, KeyError, ValueError):
        return FileNow("unknown")
    return FileNow("same") if change.diff == request.diff else FileNow("changed", diff=change.diff.rstrip("\n"))


def _preview(question: Question, workshop: Path) -> FileChange:
    files, args = TextFiles(workshop), question.request.args
    place = locate(question.request.tree, str(args["path"]))
    if question.request.tool == "write_file":
        write = WriteFileInput(mount=place.mount, relative=place.relative, path=place.path, content=args["content"])
        return files.change(write, apply=False)
    edit = EditFileInput(
        mount=place.mount,
        relative=place.relative,
        path=place.path,
        old_text=args["old_text"],
        new_text=args["new_text"],
    )
    return files.change(edit, apply=False)


@dataclass(frozen=True)
class GroupRow:
    """Question in a table."""

    entry: InboxEntry
    value: str
    """The question as it is shown, for the form."""
    cells: list[str]
    """Values of the columns."""
    whole: list[ShownPart]
    """Differences and arguments that the table has no room for; empty where there are none, or too many of them."""


@dataclass(frozen=True)
class GroupTable:
    """Questions of a group, as a page shows them."""

    group: QuestionGroup
    columns: list[str]
    rows: list[GroupRow]

    @property
    def in_part(self) -> int:
        """Number of questions of which something is not shown."""
        return sum(_is_in_part(row.entry) and not row.whole for row in self.rows)


async def read_tables(
    client: LlmDoClient, chosen: Iterable[tuple[QuestionGroup, Sequence[InboxEntry]]]
) -> list[GroupTable]:
    """Return a table for each group and its entries that are wanted; reads histories for what a list leaves out."""
    pairs = list(chosen)
    wanted = [entry for _, entries in pairs for entry in entries if _is_in_part(entry)]
    whole = await asyncio.to_thread(_left_out, await _read_whole(client, wanted))
    return [_table(group, entries, whole) for group, entries in pairs]


async def _read_whole(client: LlmDoClient, entries: Sequence[InboxEntry]) -> dict[FrozenQuestion, Question]:
    """Return the questions of these entries as they are now, by what was shown; none where these are too many."""
    runs = {entry.run for entry in entries}
    if len(entries) > MOST_WHOLE or len(runs) > MOST_RUNS:
        return {}
    wanted = {FrozenQuestion(entry.run, entry.id, entry.digest) for entry in entries}
    questions = [one for asked in (await read_readable(client, sorted(runs))).values() for one in asked]
    by_key = {FrozenQuestion(one.run, one.id, one.request.digest): one for one in questions}
    return {key: question for key, question in by_key.items() if key in wanted}


def _left_out(questions: dict[FrozenQuestion, Question]) -> dict[FrozenQuestion, list[ShownPart]]:
    """Return the differences of each question, and the arguments that its cells do not show whole."""
    found: dict[FrozenQuestion, list[ShownPart]] = {}
    room = MOST_CHARS
    for key, question in questions.items():
        parts = [part for part in parts_of(question) if part.kind == "diff" or _is_cut(question, part.label)]
        needed = sum(len(part.text) for part in parts)
        if needed <= room:
            room -= needed
            found[key] = [one for one in shown_parts(parts, question.request) if not one.is_told]
    return found


def _is_cut(question: Question, name: str) -> bool:
    """Whether the arguments have this one, and the cells do not have the whole of it."""
    request = question.request
    value: object = request.args.get(name)
    whole = value if isinstance(value, str) else canonical(value)
    return name in request.args and request.group.cells.get(name) != whole


def _table(
    group: QuestionGroup, entries: Sequence[InboxEntry], whole: dict[FrozenQuestion, list[ShownPart]]
) -> GroupTable:
    found = [(entry, whole.get(FrozenQuestion(entry.run, entry.id, entry.digest), [])) for entry in entries]
    below = [{shown.part.label for shown in parts} for _, parts in found]
    # Where each row has the whole value below, its beginning tells nothing.
    columns = [name for name in group.columns if not all(name in labels for labels in below)]
    rows: list[GroupRow] = []
    for entry, parts in found:
        cells = dict(zip(group.columns, group.cells(entry), strict=True))
        value = json.dumps([entry.run, entry.id, entry.digest])
        rows.append(GroupRow(entry, value, [cells[name] for name in columns], parts))
    return GroupTable(group, columns, rows)


def _is_in_part(entry: InboxEntry) -> bool:
    return entry.group is not None and not entry.group.is_whole
