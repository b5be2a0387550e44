"""Tables of similar questions: columns of what differs, and below each row whatever is too long for a column."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_do_temporal.client import FrozenQuestion, InboxEntry, LlmDoClient, Question
from llm_do_temporal.client.open_questions import QuestionGroup, read_readable
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.ui.content.call_parts import parts_of
from llm_do_temporal.ui.content.documents.shown_part import ShownPart, shown_parts

MOST_WHOLE, MOST_RUNS = 40, 20
"""Questions whose long arguments one page shows whole, and runs whose histories are read for that."""
MOST_CHARS = 400_000
"""Most characters of these arguments together; a question that does not fit shows its beginnings alone."""


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
