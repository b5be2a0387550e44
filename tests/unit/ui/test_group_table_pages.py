"""Tables of equal questions show long arguments whole, where there are few enough of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from llm_do_temporal.client import InboxEntry, Question
from llm_do_temporal.client.open_questions import InboxContents, grouped
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.ui.content import question_parts
from llm_do_temporal.ui.content.question_parts import MOST_RUNS, MOST_WHOLE, GroupTable, read_tables
from tests.support.people.inbox import entry_of
from tests.support.people.signed_in import browser_with

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SCRIPT = "<script>alert(1)</script>"


def question(number: int, *, run: str = "r", content: str = "", diff: str | None = None) -> Question:
    path = f"/notes/{number}.md"
    text = content or f"# Note {number}\n\n" + "A sentence that is too long for a cell of a table. " * 3
    request = RequestApprovalInput(
        invocation=f"{run}/main",
        key=str(number),
        worker="clerk",
        path="main",
        tool="write_file",
        args={"path": path, "content": text},
        capabilities=(CapabilityUse(name="sandbox.write", payload={"path": path, "bytes": len(text)}),),
        summary=f"write_file {path}",
        diff=diff,
        identity_version=IDENTITY_VERSION,
    )
    return Question(f"a{number}", run, request, NOW)


@dataclass
class Histories:
    """A client whose runs ask this; a run without an entry cannot be read."""

    questions: list[Question]
    lost: set[str] = field(default_factory=set[str])
    read: list[str] = field(default_factory=list[str])

    async def approvals(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        self.read.append(run)
        if run in self.lost:
            raise UsageError(f"there is no run '{run}'")
        return [one for one in self.questions if one.run == run]

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """See LlmDoClient."""
        return InboxContents([entry_of(one) for one in self.questions], [], 0)


async def table_of(histories: Histories, entries: list[InboxEntry] | None = None) -> GroupTable:
    (group,) = grouped(entries or [entry_of(one) for one in histories.questions])
    (table,) = await read_tables(cast("Any", histories), [(group, group.entries)])
    return table


async def test_a_text_too_long_for_a_column_stands_whole_below_its_row_and_has_no_column() -> None:
    table = await table_of(Histories([question(1), question(2)]))
    assert table.columns == ["path"]
    assert [row.cells for row in table.rows] == [["/notes/1.md"], ["/notes/2.md"]]
    labels = [[shown.part.label for shown in row.whole] for row in table.rows]
    assert labels == [["content"], ["content"]]
    assert table.rows[0].whole[0].part.text == question(1).request.args["content"]
    assert table.in_part == 0


async def test_of_a_file_that_is_there_the_change_is_shown_and_not_its_new_text() -> None:
    diff = "--- /notes/1.md\n+++ /notes/1.md\n@@ -1 +1 @@\n-old\n+new\n"
    table = await table_of(Histories([question(1, diff=diff), question(2, diff=diff)]))
    assert [shown.part.kind for shown in table.rows[0].whole] == ["diff"]
    assert table.in_part == 0


async def test_what_fits_into_its_columns_is_read_from_the_list_alone() -> None:
    histories = Histories([question(1, content="x"), question(2, content="y")])
    table = await table_of(histories)
    assert (histories.read, table.in_part) == ([], 0)
    assert [row.cells for row in table.rows] == [["/notes/1.md", "x"], ["/notes/2.md", "y"]]


async def test_of_too_many_questions_or_runs_and_of_too_long_texts_the_beginnings_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = await table_of(Histories([question(number) for number in range(MOST_WHOLE + 1)]))
    assert many.in_part == MOST_WHOLE + 1
    runs = await table_of(Histories([question(number, run=f"r{number}") for number in range(MOST_RUNS + 1)]))
    assert runs.in_part == MOST_RUNS + 1
    monkeypatch.setattr(question_parts, "MOST_CHARS", 300)
    long = await table_of(Histories([question(1), question(2)]))
    assert (long.in_part, long.columns) == (1, ["path", "content"])


async def test_a_question_that_is_gone_or_another_now_shows_nothing_of_what_it_is_now() -> None:
    asked = [question(1), question(2), question(3, run="lost")]
    entries = [entry_of(asked[0], digest="earlier"), entry_of(asked[1]), entry_of(asked[2])]
    table = await table_of(Histories(asked, lost={"lost"}), entries)
    assert [bool(row.whole) for row in sorted(table.rows, key=lambda row: row.entry.id)] == [False, True, False]
    assert table.in_part == 2


async def test_the_table_and_one_more_look_have_long_texts_as_text() -> None:
    long = SCRIPT + " and a text that is long enough for a row of its own, \u202e which is not turned around" * 2
    histories = Histories([question(1, content=long), question(2, content=long + "!")])
    ada = await browser_with(histories)
    page = await ada.open(f"/groups/{histories.questions[0].request.group.key}")
    review = await ada.send(page, page.form(scope="group"), what="approve-all")
    for shown in (page, review):
        assert shown.status == 200
        assert SCRIPT in shown.text
        assert SCRIPT not in shown.html
        assert "\u202e" not in shown.html
        assert "does not show every argument" not in shown.text
