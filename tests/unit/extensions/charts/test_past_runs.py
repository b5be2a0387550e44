"""The index of ended runs: each end is read once, and what the server counts is not counted here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.views.tree import Accounts, Branch, Spent
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch
from llm_do_temporal.extensions.charts import weeks as past_runs
from llm_do_temporal.extensions.charts.weeks import PastRuns, count_ended, last_weeks
from llm_do_temporal.messages.budget import Usage, Waits
from llm_do_temporal.messages.runs import RunMemo
from tests.support.runs.run_server import RunServer

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
SINCE = NOW - timedelta(days=14)
COST = Decimal("0.25")


class Ends(Accounts):
    """Accounts that know the ends of runs, but for `locked` and `gone`."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))
        self.asked: list[str] = []

    async def read_one(self, branch: Branch, *, whole: bool = False) -> Spent:
        """See Accounts."""
        self.asked.append(branch.workflow_id)
        if branch.workflow_id == "locked":
            raise KeyMismatch("no key", key="other")
        if branch.workflow_id == "gone":
            raise RPCError("no history", RPCStatusCode.NOT_FOUND, b"")
        usage = Usage(requests=1, cost_usd=COST, costs={"m:x": COST}, unpriced=("m:odd",))
        return Spent(total=usage, waited=Waits(questions=1, seconds=5, longest=5))


@pytest.fixture
async def server() -> RunServer:
    """Five runs that ended an hour after each other, one that ended long ago, and an open one."""
    server = RunServer()
    for number in range(5):
        await put(server, f"run-{number}", hours=number)
    await put(server, "old", hours=24 * 30)
    await server.put("open", "Running", RunMemo(worker="boss"), began=NOW)
    return server


async def put(server: RunServer, run: str, *, hours: int, status: str = "Completed") -> None:
    ended = NOW - timedelta(hours=hours)
    await server.put(run, status, RunMemo(worker="boss"), began=ended, ended=ended)


async def test_the_newest_ends_are_read_first_and_each_once(server: RunServer) -> None:
    ends = Ends()
    past = PastRuns(cast("Any", server), ends)
    first = await past.read(SINCE, most=3)
    assert ends.asked == ["run-0", "run-1", "run-2"]
    assert (len(first.read), first.unread, first.unreadable) == (3, 2, 0)
    second = await past.read(SINCE, most=3)
    assert ends.asked == [f"run-{number}" for number in range(5)]
    assert (len(second.read), second.unread) == (5, 0)
    run, outcome = second.read[0]
    assert (run.worker, outcome.cost, outcome.costs, outcome.is_partial) == ("boss", COST, {"m:x": COST}, True)
    assert outcome.waited.seconds == 5


async def test_later_only_the_news_are_listed(server: RunServer) -> None:
    past = PastRuns(cast("Any", server), Ends())
    await past.read(SINCE)
    await put(server, "new", hours=-1)
    assert {run.run for run, _ in (await past.read(SINCE)).read} >= {"new", "run-4"}
    assert "CloseTime >= '2026-11-25T11:59:00.000000Z'" in server.queries[-1]


@pytest.fixture
async def busy(monkeypatch: pytest.MonkeyPatch) -> RunServer:
    """A server with 250 ended runs, of which it lists a hundred in one answer."""
    monkeypatch.setattr(past_runs, "LISTED_AT_ONCE", 100)
    server = RunServer()
    for number in range(250):
        await end(server, f"run-{number}", minutes=number)
    return server


async def end(server: RunServer, run: str, *, minutes: int) -> None:
    """Have a run that ended so many minutes ago."""
    ended = NOW - timedelta(minutes=minutes)
    await server.put(run, "Completed", RunMemo(worker="boss"), began=ended, ended=ended)


async def all_read(past: PastRuns) -> list[str]:
    """The runs of the index once it is whole, the newest first."""
    while (reading := await past.read(SINCE)).unread:
        pass
    return [run.run for run, _ in sorted(reading.read, key=lambda one: one[0].ended_at, reverse=True)]


async def test_the_ends_of_the_newest_are_read_before_the_others_are_listed(busy: RunServer) -> None:
    ends = Ends()
    past = PastRuns(cast("Any", busy), ends)
    first = await past.read(SINCE, most=40)
    assert ends.asked == [f"run-{number}" for number in range(40)]
    assert len(busy.queries) == 1
    assert (len(first.read), first.unread) == (40, 210)
    assert await all_read(past) == [f"run-{number}" for number in range(250)]
    assert len(ends.asked) == 250


async def test_a_list_that_breaks_off_goes_on_where_it_was(busy: RunServer, monkeypatch: pytest.MonkeyPatch) -> None:
    past = PastRuns(cast("Any", busy), Ends())
    await past.read(SINCE, most=100)

    async def unavailable(*_args: Any, **_options: Any) -> Any:
        raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")

    with monkeypatch.context() as broken:
        broken.setattr(busy, "list_workflow_executions", unavailable)
        with pytest.raises(ConnectionFailed):
            await past.read(SINCE)
    assert len(await all_read(past)) == 250


async def test_more_news_than_one_answer_holds_leave_no_gap(busy: RunServer, monkeypatch: pytest.MonkeyPatch) -> None:
    past = PastRuns(cast("Any", busy), Ends())
    await past.read(SINCE)
    for number in range(130):
        await end(busy, f"new-{number}", minutes=-1 - number)
    assert len(await all_read(past)) == 380
    # Once there are more than the index keeps, the oldest leave it, and nothing between them.
    monkeypatch.setattr(past_runs, "MOST_RUNS", 140)
    new = [f"new-{number}" for number in range(129, -1, -1)]
    assert await all_read(past) == [*new, *(f"run-{number}" for number in range(10))]
    for number in range(120):
        await end(busy, f"last-{number}", minutes=-200 - number)
    assert await all_read(past) == [*(f"last-{number}" for number in range(119, -1, -1)), *new[:20]]


async def test_what_ended_before_the_first_week_is_forgotten(server: RunServer) -> None:
    past = PastRuns(cast("Any", server), Ends())
    await past.read(SINCE)
    kept = await past.read(NOW - timedelta(hours=2))
    assert {run.run for run, _ in kept.read} == {"run-0", "run-1", "run-2"}


async def test_ends_that_cannot_be_read_are_counted_and_hide_no_others(server: RunServer) -> None:
    await put(server, "locked", hours=1)
    await put(server, "gone", hours=2)
    reading = await PastRuns(cast("Any", server), Ends()).read(SINCE)
    assert (len(reading.read), reading.unread, reading.unreadable) == (5, 0, 2)


async def test_the_server_counts_how_runs_ended_week_by_week(server: RunServer) -> None:
    await put(server, "broken", hours=1, status="Failed")
    await put(server, "late", hours=24 * 7, status="TimedOut")
    await put(server, "stopped", hours=24 * 7, status="Canceled")
    weeks = last_weeks(NOW, 2)
    await count_ended(cast("Any", server), weeks)
    assert [(week.completed, week.failed, week.stopped) for week in weeks] == [(0, 1, 1), (5, 1, 0)]
    assert [week.runs for week in weeks] == [2, 6]
