"""Groups of equal questions over all runs: from one list, and from histories where that has no room for all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import InboxContents, InboxEntry, grouped, read_group, read_groups, read_run
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from llm_do_temporal.policy.values import CapabilityUse

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def question(run: str, number: int, path: str) -> Question:
    request = RequestApprovalInput(
        invocation=run,
        key=f"main:{number}",
        worker="boss",
        path="main",
        tool="write_file",
        args={"path": path, "content": "x"},
        capabilities=(CapabilityUse(name="sandbox.write", payload={"path": path}),),
        summary=f"write_file {path}",
        identity_version=IDENTITY_VERSION,
    )
    return Question(id=f"a{number}", run=run, request=request, asked_at=NOW + timedelta(seconds=number))


def entry(asked: Question) -> InboxEntry:
    request = asked.request
    return InboxEntry(
        run=asked.run,
        run_worker="boss",
        started_by="ann",
        id=asked.id,
        worker=request.worker,
        path=request.path,
        tool=request.tool,
        summary=request.summary,
        asked_at=asked.asked_at,
        deadline=None,
        votes=0,
        quorum=1,
        approvers=(),
        task=f"task of {asked.run}",
        digest=request.digest,
        group=request.group,
    )


NOTES = [question("one", 1, "/notes/a.md"), question("two", 2, "/notes/b.md"), question("one", 3, "/notes/c.md")]
OTHER = question("two", 4, "/done/a.md")


class Asking(LlmDoClient):
    """A client of runs with these questions, of which the memo of each has room for so many."""

    def __init__(self, asked: list[Question], room: int = 20) -> None:
        super().__init__(cast("Any", None))
        self._asked = asked
        self._room = room
        self.read: list[str] = []

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        """See LlmDoClient."""
        assert whole or run is not None
        by_run = {one.run: [each for each in self._asked if each.run == one.run] for one in self._asked}
        listed = [entry(one) for asked in by_run.values() for one in asked[: self._room]]
        crowded = {name: len(asked) - self._room for name, asked in by_run.items() if len(asked) > self._room}
        wanted = [one for one in listed if run in (None, one.run)]
        return InboxContents(sorted(wanted, key=lambda one: one.asked_at), [], crowded=crowded)

    async def approvals(self, run: str | None = None) -> list[Question]:
        """See LlmDoClient."""
        self.read.append(str(run))
        return [one for one in self._asked if one.run == run]


def ids(group: Any) -> list[tuple[str, str]]:
    return [(one.run, one.id) for one in group.entries]


async def test_equal_questions_of_all_runs_are_together_the_oldest_first() -> None:
    client = Asking([OTHER, *NOTES])
    found = await read_groups(client)
    first, second = found.groups
    assert ids(first) == [("one", "a1"), ("two", "a2"), ("one", "a3")]
    assert (first.title, first.runs, first.oldest) == ("write_file *.md in /notes", 2, NOTES[0].asked_at)
    assert ids(second) == [("two", "a4")]
    assert client.read == []


async def test_a_table_has_a_column_for_each_argument_that_differs() -> None:
    (group,) = grouped(map(entry, NOTES))
    assert group.columns == ("path",)
    assert group.common == {"content": "x"}
    assert [group.cells(one) for one in group.entries] == [["/notes/a.md"], ["/notes/b.md"], ["/notes/c.md"]]
    assert (group.in_part, group.tells_workers) == (0, False)


async def test_a_group_that_a_list_has_no_room_for_is_read_whole() -> None:
    client = Asking([OTHER, *NOTES], room=1)
    listed = await read_groups(client)
    assert sum(len(group.entries) for group in listed.groups) == 2
    assert listed.unlisted == 2
    group = await read_group(client, NOTES[0].request.group.key)
    assert group is not None
    assert ids(group) == [("one", "a1"), ("two", "a2"), ("one", "a3")]
    assert group.entries[2].task == "task of one"
    assert sorted(client.read) == ["one", "two"]


async def test_a_run_that_cannot_be_read_has_what_the_list_tells() -> None:
    class Locked(Asking):
        async def approvals(self, run: str | None = None) -> list[Question]:
            """See LlmDoClient."""
            if run == "one":
                raise UsageError("it has ended")
            return await super().approvals(run)

    group = await read_group(Locked([OTHER, *NOTES], room=1), NOTES[0].request.group.key)
    assert group is not None
    assert ids(group) == [("one", "a1"), ("two", "a2")]


async def test_a_selection_is_ids_with_the_digests_that_were_shown() -> None:
    group = await read_group(Asking(NOTES), NOTES[0].request.group.key[:8])
    assert group is not None
    assert group.frozen() == [FrozenQuestion(one.run, one.id, one.request.digest) for one in NOTES]
    assert len({one.digest for one in group.frozen()}) == 3


async def test_a_key_is_long_enough_to_be_meant() -> None:
    client = Asking(NOTES)
    with pytest.raises(UsageError, match="too short"):
        await read_group(client, NOTES[0].request.group.key[:3])
    assert await read_group(client, "0000") is None


async def test_a_run_is_read_whole_and_in_groups() -> None:
    found = await read_run(Asking([*NOTES, question("one", 9, "/done/x.md")], room=1), "one")
    assert [ids(group) for group in found.groups] == [[("one", "a1"), ("one", "a3")], [("one", "a9")]]


async def test_questions_of_an_earlier_version_are_alone() -> None:
    old = replace(entry(NOTES[0]), digest="", group=None)
    first, second = grouped([old, replace(old, id="a7")])
    assert (first.key, first.title, second.entries[0].id) == ("", "write_file /notes/a.md", "a7")


def test_a_group_has_a_task_where_one_run_asks_it_all_about_one_item() -> None:
    first, other = entry(NOTES[0]), entry(NOTES[2])
    assert grouped([first, other])[0].task == "task of one"
    (group,) = grouped([replace(first, task="a.pdf"), replace(other, task="b.pdf")])
    assert group.task == ""
    assert [" (a.pdf)" in line for line in group_lines(group, 30)].count(True) == 1
    assert grouped([entry(one) for one in NOTES])[0].task == ""  # of two runs
