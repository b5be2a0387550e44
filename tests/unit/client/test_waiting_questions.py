"""The inbox of many runs: memos and few histories are read; and groups of equal questions over all runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.api.enums.v1 import WorkflowExecutionStatus

from llm_do_temporal.cli.groups import group_lines
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import (
    FEWEST_RUNS,
    MOST_RUNS,
    InboxContents,
    InboxEntry,
    OldestRuns,
    grouped,
    read_group,
    read_groups,
    read_run,
)
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, LlmDoError, UsageError
from llm_do_temporal.messages.base import PENDING_MEMO
from llm_do_temporal.messages.runs import PendingApprovalMemo
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from tests.support.runs.list_server import KEY, ListServer
from tests.support.workflow.desk_questions import request, write

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def asked(run: str, number: int = 1, minutes: int = 0) -> PendingApprovalMemo:
    return PendingApprovalMemo(
        id=f"a{number}",
        invocation=run,
        key=f"main:{number}",
        worker="boss",
        path="main",
        tool="write_file",
        summary=f"write {number}",
        asked_at=NOW + timedelta(minutes=minutes),
    )


class Reading(LlmDoClient):
    """A client that notes of which runs the histories are read; that of `locked` cannot be.

    That of the run `one` fails with `failure`, while the others are being read.
    """

    def __init__(self, server: ListServer, locked: str = "", failure: LlmDoError | None = None) -> None:
        super().__init__(cast("Any", server))
        self.read: list[str] = []
        self._locked_run = locked
        self._failure = failure
        self._server = server

    async def approvals(self, run: str | None = None) -> list[Question]:
        """See LlmDoClient."""
        assert run is not None
        self.read.append(run)
        if run == self._locked_run:
            raise KeyMismatch("no key", key="other")
        if run == "one" and self._failure is not None:
            raise self._failure
        for _ in range(5):  # others come to their turn
            await asyncio.sleep(0)
        info = self._server.executions[run]
        (value,) = await self._server.data_converter.decode(
            [info.memo.fields[PENDING_MEMO]], [list[PendingApprovalMemo]]
        )
        names = ("key", "worker", "path", "tool", "summary")
        requests = [request(**{name: getattr(one, name) for name in names}) for one in value]
        return [Question(one.id, run, its, one.asked_at) for one, its in zip(value, requests, strict=True)]


@pytest.fixture
async def server() -> ListServer:
    """Three runs; the second one asks first."""
    server = ListServer()
    await server.put("one", [asked("one", minutes=2)])
    await server.put("two", [asked("two", 1, minutes=1), asked("two", 2, minutes=9)])
    await server.put("three", [asked("three", minutes=3)])
    return server


async def test_a_memo_is_decrypted_again_only_when_it_has_changed(server: ListServer) -> None:
    client = LlmDoClient(cast("Any", server))
    first = await client.inbox()
    assert [(one.run, one.id) for one in first.entries] == [
        ("two", "a1"),
        ("one", "a1"),
        ("three", "a1"),
        ("two", "a2"),
    ]
    assert len(server.opened) == 6
    server.opened.clear()
    assert await client.inbox() == first
    assert server.opened == []
    await server.put("one", [asked("one", 2, minutes=5)])
    again = await client.inbox()
    assert [one.id for one in again.entries if one.run == "one"] == ["a2"]
    assert len(server.opened) == 2


async def test_a_run_that_left_the_list_is_forgotten(server: ListServer) -> None:
    client = LlmDoClient(cast("Any", server))
    await client.inbox()
    left = server.executions.pop("one")
    assert {one.run for one in (await client.inbox()).entries} == {"two", "three"}
    server.executions["one"] = left
    server.opened.clear()
    assert {one.run for one in (await client.inbox()).entries} == {"one", "two", "three"}
    assert len(server.opened) == 2


async def test_a_run_whose_key_comes_later_is_shown_then(server: ListServer) -> None:
    client = LlmDoClient(cast("Any", server))
    server.keys.clear()
    contents = await client.inbox()
    assert contents.entries == []
    assert {(one.run, one.missing_key) for one in contents.locked} == {(run, "first") for run in server.executions}
    server.keys.append(KEY)
    assert len((await client.inbox()).entries) == 4


async def test_only_the_histories_of_the_oldest_questions_are_read(server: ListServer) -> None:
    client = Reading(server)
    found = await client.all_approvals(limit=2)
    assert [(one.run, one.id) for one in found.questions] == [("two", "a1"), ("one", "a1")]
    assert (found.further_questions, found.further_runs) == (2, 0)
    assert sorted(client.read) == ["one", "two"]


async def test_without_a_limit_all_questions_are_there_the_oldest_first(server: ListServer) -> None:
    found = await Reading(server).all_approvals()
    assert [(one.run, one.id) for one in found.questions] == [
        ("two", "a1"),
        ("one", "a1"),
        ("three", "a1"),
        ("two", "a2"),
    ]
    assert (found.further_questions, found.further_runs) == (0, 0)


async def test_a_run_with_a_readable_memo_and_an_unreadable_history_is_locked(server: ListServer) -> None:
    found = await Reading(server, locked="one").all_approvals()
    assert {one.run for one in found.questions} == {"two", "three"}
    (locked,) = found.locked
    assert (locked.run, locked.worker, locked.waiting, locked.missing_key) == ("one", "boss", 1, "other")
    assert server.described == ["one"]


async def test_a_run_that_is_deleted_meanwhile_asks_nothing_and_hides_no_other(server: ListServer) -> None:
    found = await Reading(server, failure=UsageError("there is no run 'one'")).all_approvals()
    assert [one.run for one in found.questions] == ["two", "three", "two"]
    assert found.locked == []


async def test_a_lost_connection_ends_all_readings_with_its_own_error(server: ListServer) -> None:
    client = Reading(server, failure=ConnectionFailed("gone"))
    before = asyncio.all_tasks()
    with pytest.raises(ConnectionFailed, match="gone"):
        await client.all_approvals()
    assert client.read == ["two", "one", "three"]
    assert asyncio.all_tasks() <= before


async def test_a_short_list_of_runs_is_a_short_answer_of_the_server(server: ListServer) -> None:
    listed = await LlmDoClient(cast("Any", server)).runs(limit=2)
    assert [(one.run, one.pending) for one in listed] == [("three", 1), ("one", 1)]
    assert server.page_sizes == [2]


async def test_a_list_of_more_runs_than_one_answer_holds_is_asked_for_in_several(server: ListServer) -> None:
    await LlmDoClient(cast("Any", server)).runs(limit=5000)
    assert server.page_sizes == [1000]


@pytest.fixture
async def busy() -> ListServer:
    """More runs than one reading takes: one a minute, the first one first."""
    server = ListServer()
    for number in range(3 * MOST_RUNS):
        await server.put(f"run-{number}", [asked(f"run-{number}", minutes=number)])
    return server


async def test_of_very_many_runs_the_oldest_are_read(busy: ListServer) -> None:
    contents = await LlmDoClient(cast("Any", busy)).inbox()
    assert FEWEST_RUNS <= len(contents.entries) <= MOST_RUNS
    assert [one.run for one in contents.entries] == [f"run-{number}" for number in range(len(contents.entries))]
    assert contents.further == 3 * MOST_RUNS - len(contents.entries)


async def test_the_next_reading_searches_for_the_oldest_no_more(busy: ListServer) -> None:
    client = LlmDoClient(cast("Any", busy))
    first = await client.inbox()
    busy.counted = 0
    assert await client.inbox() == first
    assert busy.counted == 3
    # Those are answered; the next ones come up.
    for entry in first.entries:
        del busy.executions[entry.run]
    again = await client.inbox()
    assert again.entries[0].run == f"run-{len(first.entries)}"
    assert len(again.entries) >= FEWEST_RUNS


async def test_the_whole_inbox_and_that_of_one_run_leave_nothing_out(busy: ListServer) -> None:
    client = LlmDoClient(cast("Any", busy))
    assert len((await client.inbox(whole=True)).entries) == 3 * MOST_RUNS
    newest = f"run-{3 * MOST_RUNS - 1}"
    assert [one.run for one in (await client.inbox(newest)).entries] == [newest]
    found = await Reading(busy).all_approvals(limit=3)
    assert [one.run for one in found.questions] == ["run-0", "run-1", "run-2"]
    assert found.further_questions + found.further_runs == 3 * MOST_RUNS - 3
    assert FEWEST_RUNS <= found.further_questions + 3 <= MOST_RUNS
    assert len((await Reading(busy).all_approvals(limit=MOST_RUNS + 1)).questions) == MOST_RUNS + 1


async def test_without_search_attributes_everything_is_read(busy: ListServer) -> None:
    busy.knows_no_attributes = True
    contents = await LlmDoClient(cast("Any", busy)).inbox()
    assert (len(contents.entries), contents.further) == (3 * MOST_RUNS, 0)


async def test_runs_that_began_at_the_same_moment_are_read_in_part() -> None:
    server = ListServer()
    for number in range(MOST_RUNS + 7):
        await server.put(f"run-{number}", [asked(f"run-{number}")])
    contents = await LlmDoClient(cast("Any", server)).inbox()
    assert (len(contents.entries), contents.further) == (MOST_RUNS, 7)


async def test_a_clock_that_is_behind_that_of_the_server_hides_nothing() -> None:
    server = ListServer()
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    for number in range(2 * MOST_RUNS):
        one = asked(f"run-{number}").model_copy(update={"asked_at": in_an_hour + timedelta(seconds=number)})
        await server.put(f"run-{number}", [one])
    contents = await LlmDoClient(cast("Any", server)).inbox()
    assert contents.entries[0].run == "run-0"
    assert FEWEST_RUNS <= len(contents.entries) <= MOST_RUNS
    assert contents.further == 2 * MOST_RUNS - len(contents.entries)


@pytest.mark.thorough
async def test_of_a_burst_and_a_few_older_runs_the_older_ones_are_read() -> None:
    server = ListServer()
    older, burst = 50, 5_000
    for number in range(older + burst):
        began = NOW - timedelta(seconds=max(older - number, 0) / 10)
        await server.put(f"run-{number}", [asked(f"run-{number}")], began=began)
    client = LlmDoClient(cast("Any", server))
    contents = await client.inbox()
    found = {entry.run for entry in contents.entries}
    assert {f"run-{number}" for number in range(older)} <= found
    assert (len(found), contents.further) == (MOST_RUNS, older + burst - MOST_RUNS)
    server.counted = 0
    assert (await client.inbox()).further == contents.further
    assert server.counted == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("older", [2 * MOST_RUNS, 4 * MOST_RUNS + 50])
@pytest.mark.parametrize("is_asking", [True, False], ids=["locked", "asks nothing"])
async def test_older_runs_without_a_question_that_can_be_read_hide_no_younger_ones(
    older: int, *, is_asking: bool
) -> None:
    server = ListServer()
    for number in range(older):
        began = NOW + timedelta(seconds=number)
        pending = [asked(f"old-{number}")] if is_asking else []
        # What was loaded before the namespace knew the attributes has none; only its memo tells that it asks nothing.
        await server.put(f"old-{number}", pending, began=began, has_attributes=is_asking, is_readable=not is_asking)
    for number in range(2 * MOST_RUNS):
        await server.put(f"run-{number}", [asked(f"run-{number}", minutes=60 + number)])
    contents = await LlmDoClient(cast("Any", server)).inbox()
    asking = [entry.run for entry in contents.entries]
    assert asking == [f"run-{number}" for number in range(len(asking))]
    assert FEWEST_RUNS <= len(asking) <= MOST_RUNS
    assert len(contents.locked) == (older if is_asking else 0)
    assert contents.further == 2 * MOST_RUNS - len(asking)


async def test_of_thousands_of_open_runs_only_those_that_wait_are_read() -> None:
    server = ListServer()
    for number in range(2_000):
        await server.put(f"run-{number}", [], began=NOW + timedelta(seconds=number))
    for number in range(3):
        await server.put(f"asks-{number}", [asked(f"asks-{number}", minutes=number)])
    server.executions["asks-2"].status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED
    server.opened.clear()
    contents = await LlmDoClient(cast("Any", server)).inbox()
    assert [entry.run for entry in contents.entries] == ["asks-0", "asks-1"]
    assert contents.further == 0
    assert len(server.opened) == 4


async def test_two_readings_at_once_search_for_the_oldest_once() -> None:
    counted: list[datetime] = []

    async def count(until: datetime) -> int:
        counted.append(until)
        await asyncio.sleep(0)
        return max((until - NOW) // timedelta(minutes=1), 0)

    async def found(oldest: OldestRuns) -> datetime:
        return await oldest.find(count, NOW + timedelta(days=9), most=MOST_RUNS)

    alone = await found(OldestRuns())
    searched = len(counted)
    counted.clear()
    oldest = OldestRuns()
    assert await asyncio.gather(found(oldest), found(oldest)) == [alone, alone]
    assert len(counted) == searched + 1


def question(run: str, number: int, path: str) -> Question:
    facts = {"worker": "boss", "summary": f"write_file {path}", "identity_version": IDENTITY_VERSION}
    asked = write(path, "x", invocation=run, key=f"main:{number}", **facts)
    return Question(id=f"a{number}", run=run, request=asked, asked_at=NOW + timedelta(seconds=number))


def entry(asked: Question) -> InboxEntry:
    of_run = {"run": asked.run, "run_worker": "boss", "started_by": "ann", "task": f"task of {asked.run}"}
    return InboxEntry.of(asked.request, id=asked.id, asked_at=asked.asked_at, votes=0, **of_run)


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
