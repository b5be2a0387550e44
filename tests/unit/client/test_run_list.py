"""The list of runs in pages, and the server's list below it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.views import run_list
from llm_do_temporal.client.views.run_list import (
    PAGE_RUNS,
    RunSummary,
    count_left_out,
    list_runs,
    read_all_spent,
    read_filter,
)
from llm_do_temporal.client.views.server_list import attribute_of, every_part
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent
from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import ItemCounts, RunMemo
from llm_do_temporal.policy.run_filter import RunFilter
from tests.support.runs.run_server import RunServer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SPENT = Spent(total=Usage(requests=3))
LISTED_AT = datetime(2026, 1, 2, tzinfo=UTC)


class Kept(Accounts):
    """Accounts of a server that answers with this where it is asked for the history of `gone`."""

    def __init__(self, status: RPCStatusCode) -> None:
        super().__init__(cast("Any", None))
        self._status = status

    async def read_one(self, branch: Branch, *, whole: bool = False) -> Spent:
        """See Accounts."""
        if branch.workflow_id == "gone":
            raise RPCError("no history", self._status, b"")
        return SPENT


def listed(run: str) -> RunSummary:
    return RunSummary(run, "boss", "completed", 0, NOW, NOW, started_by="ann", run_id="r")


async def test_a_run_whose_history_was_removed_does_not_hide_the_others() -> None:
    (gone, nothing), (kept, spent) = await read_all_spent(
        Kept(RPCStatusCode.NOT_FOUND), [listed("gone"), listed("kept")]
    )
    assert (gone.run, gone.has_history, nothing) == ("gone", False, Spent())
    assert (kept.run, kept.has_history, spent) == ("kept", True, SPENT)


async def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ConnectionFailed, match="does not answer"):
        await read_all_spent(Kept(RPCStatusCode.UNAVAILABLE), [listed("gone")])


async def server_with(runs: int, **memo: Any) -> RunServer:
    """A server with so many completed runs, of which every tenth is about a deck."""
    server = RunServer()
    for number in range(runs):
        about: dict[str, Any] = {
            "task": f"deck {number}" if number % 10 == 0 else f"mail {number}",
            "started_by": "ada",
        } | memo
        began = NOW + timedelta(minutes=number)
        await server.put(f"run-{number}", "Completed", RunMemo(worker="boss", **about), began=began, ended=began)
    return server


async def every_page(server: RunServer, wanted: RunFilter) -> list[list[str]]:
    """The tasks on all pages, page by page."""
    pages: list[list[str]] = []
    page = ""
    while True:
        shown = await list_runs(cast("Any", server), wanted, page=page)
        pages.append([run.task for run in shown.runs])
        if shown.following is None:
            return pages
        page = shown.following


@pytest.mark.extension("evaluations")
async def test_the_server_alone_judges_what_it_can() -> None:
    server = await server_with(60)
    wanted = RunFilter(state="completed", worker="boss", since="2026-01-02", until="2026-01-03", begins="run-")
    assert [len(page) for page in await every_page(server, wanted)] == [25, 25, 10]
    assert server.queries[0] == (
        "WorkflowType = 'LlmDoRun'"
        " AND (ParentWorkflowId IS NULL OR ParentWorkflowId NOT STARTS_WITH 'eval-')"
        " AND ExecutionStatus = 'Completed' AND LlmDoWorker = 'boss'"
        " AND WorkflowId STARTS_WITH 'run-' AND StartTime >= '2026-01-02T00:00:00.000000Z'"
        " AND StartTime < '2026-01-04T00:00:00.000000Z'"
    )


@pytest.mark.parametrize("runs", [9, 251, 500, 2_603])
async def test_a_search_finds_each_run_once_however_the_pages_fall(runs: int) -> None:
    server = await server_with(runs)
    pages = await every_page(server, RunFilter(text="DECK"))
    found = [task for page in pages for task in page]
    assert found == [f"deck {number}" for number in range(runs - 1, -1, -1) if number % 10 == 0]
    assert all(len(page) == PAGE_RUNS for page in pages[:-1])


async def test_a_run_that_is_deleted_between_two_pages_hides_no_other() -> None:
    server = await server_with(600)
    wanted = RunFilter(text="deck")
    first = await list_runs(cast("Any", server), wanted)
    server.runs = [info for info in server.runs if info.execution.workflow_id != first.runs[-1].run]
    second = await list_runs(cast("Any", server), wanted, page=first.following or "")
    seen = {run.task for page in (first, second) for run in page.runs}
    assert seen >= {f"deck {number}" for number in range(350, 600, 10)}


async def test_a_search_stops_after_many_runs_and_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "MOST_LOOKED_AT", 100)
    server = await server_with(1_200, task="mail")
    await server.put("old", "Completed", RunMemo(worker="boss", task="deck"), began=NOW, ended=NOW - timedelta(1))
    first = await list_runs(cast("Any", server), RunFilter(text="deck"))
    assert (first.runs, first.looked_at) == ([], 100)
    second = await list_runs(cast("Any", server), RunFilter(text="deck"), page=first.following or "")
    assert (second.runs, second.looked_at) == ([], 200)
    monkeypatch.undo()
    third = await list_runs(cast("Any", server), RunFilter(text="deck"), page=second.following or "")
    assert [run.run for run in third.runs] == ["old"]
    assert (third.following, third.looked_at) == (None, 1_201)


async def test_what_was_looked_at_is_counted_from_the_page_before_that_had_runs() -> None:
    server = await server_with(700)
    first = await list_runs(cast("Any", server), RunFilter(text="deck"))
    second = await list_runs(cast("Any", server), RunFilter(text="deck"), page=first.following or "")
    assert (first.looked_at, second.looked_at) == (250, 250)


async def test_runs_that_cannot_be_read_are_counted_and_hide_no_others() -> None:
    server = await server_with(30)
    server.data_converter = encrypting(pydantic_data_converter, KeyRing.of(Key("other", bytes(32))))
    await server.put("locked", "Completed", RunMemo(worker="boss", task="deck"), began=NOW, ended=NOW)
    server.data_converter = encrypting(pydantic_data_converter, KeyRing.of(Key("first", bytes(32))))
    page = await list_runs(cast("Any", server), RunFilter(text="deck"))
    assert ([run.task for run in page.runs], page.locked) == (["deck 20", "deck 10", "deck 0"], 1)
    (found,) = (await list_runs(cast("Any", server), RunFilter(text="lock"))).runs
    assert (found.run, found.missing_key) == ("locked", "other")


async def test_a_batch_with_failures_is_found_among_the_completed() -> None:
    server = RunServer()
    for run, failed in (("whole", 0), ("part", 1)):
        counts = ItemCounts(total=4, completed=4 - failed, failed=failed)
        await server.put(run, "Completed", RunMemo(worker="boss", items=counts), began=NOW, ended=NOW)
    (found,) = (await list_runs(cast("Any", server), RunFilter(state="partly failed"))).runs
    assert (found.run, found.state) == ("part", "completed, 1 of 4 failed")


async def test_the_terminals_list_looks_at_all_runs_for_what_it_was_asked() -> None:
    server = await server_with(1_000)
    await server.put("open", "Running", RunMemo(worker="boss", task="deck of today", started_by="bob"), began=NOW)
    client = LlmDoClient(cast("Any", server))
    found = await client.runs(RunFilter(text="deck"), limit=3)
    assert [one.task for one in found] == ["deck of today", "deck 990", "deck 980"]
    assert [one.started_by for one in await client.runs(RunFilter(who="bob"))] == ["bob"]
    assert await client.runs(RunFilter(state="waiting")) == []
    looked_at: list[int] = []
    await client.runs(RunFilter(text="no run has this"), told=looked_at.append)
    assert looked_at == [1_000]


@pytest.mark.parametrize("number", ["-1", "9999999999999", "true", '"7"', "[]", "1e999"])
async def test_an_address_with_an_odd_number_counts_from_the_beginning(number: str) -> None:
    place = f'{{"part": "", "after": "run-9-1", "in_vain": {number}}}'
    page = base64.urlsafe_b64encode(place.encode()).decode()
    server = await server_with(10)
    shown = await list_runs(cast("Any", server), RunFilter(text="deck"), page=page)
    assert ([run.task for run in shown.runs], shown.looked_at) == (["deck 0"], 9)


def page_of(place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


@pytest.mark.parametrize(
    "page",
    [
        "%",
        "bm8=",
        "e30=",
        "ä",
        base64.urlsafe_b64encode(b"[" * 5_000).decode(),
        base64.urlsafe_b64encode(b"[" * 20_000).decode(),
        base64.urlsafe_b64encode(b'{"a":' * 1_100).decode(),
        page_of({"part": "", "after": "", "in_vain": 0})[:-4] + "!" * 4,
        page_of({"part": None, "after": "", "in_vain": 0}),
        page_of({"part": True, "after": "", "in_vain": 0}),
        page_of({"part": "", "after": 1}),
        page_of({"part": "an!Vuaw==", "after": ""}),
        page_of([]),
    ],
)
async def test_an_address_that_is_no_part_of_the_list_is_refused(page: str) -> None:
    server = RunServer()
    with pytest.raises(UsageError, match="does not name a part of the list"):
        await list_runs(cast("Any", server), page=page)
    assert server.queries == []


@pytest.mark.parametrize("status", [RPCStatusCode.UNKNOWN, RPCStatusCode.INVALID_ARGUMENT])
@pytest.mark.parametrize("wanted", [RunFilter(), RunFilter(text="deck")])
@pytest.mark.parametrize("token", [b"junk", b"x" * 1_000, b"\0"])
async def test_a_part_that_the_server_refuses_is_refused_at_once(
    token: bytes, wanted: RunFilter, status: RPCStatusCode
) -> None:
    server = await server_with(3)
    server.refuses_with = status
    page = page_of({"part": base64.b64encode(token).decode(), "after": "", "in_vain": 0})
    with pytest.raises(UsageError, match="does not name a part of the list") as refused:
        await list_runs(cast("Any", server), wanted, page=page)
    assert refused.value.next_step == "Begin again with the first part."


HICCUPS = [
    (RPCStatusCode.UNKNOWN,),
    (RPCStatusCode.UNAVAILABLE,),
    (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNKNOWN, RPCStatusCode.DEADLINE_EXCEEDED),
    (RPCStatusCode.UNAVAILABLE,) * 4,
]


@pytest.mark.parametrize("hiccups", HICCUPS)
@pytest.mark.parametrize("wanted", [RunFilter(), RunFilter(text="deck")])
async def test_a_failure_that_passes_does_not_make_a_bad_address_one_that_is_tried_for_ever(
    hiccups: tuple[RPCStatusCode, ...], wanted: RunFilter
) -> None:
    server = await server_with(3)
    server.hiccups.extend(hiccups)
    page = page_of({"part": base64.b64encode(b"junk").decode(), "after": "", "in_vain": 0})
    refusal = ConnectionFailed if len(hiccups) == 4 else UsageError  # one more failure, and it is no wiser
    with pytest.raises(refusal):
        await list_runs(cast("Any", server), wanted, page=page)


@pytest.mark.parametrize("hiccups", HICCUPS)
async def test_a_failure_that_passes_does_not_make_a_good_address_a_bad_one(hiccups: tuple[RPCStatusCode, ...]) -> None:
    server = await server_with(60)
    first = await list_runs(cast("Any", server))
    server.hiccups.extend(hiccups)
    second = await list_runs(cast("Any", server), page=first.following or "")
    assert len(second.runs) == PAGE_RUNS
    assert not {one.run for one in first.runs} & {one.run for one in second.runs}


def test_a_filter_that_cannot_be_used_says_which_part() -> None:
    with pytest.raises(UsageError, match="since: 'soon' is no time"):
        read_filter({"since": "soon", "state": ""})


@pytest.mark.extension("evaluations")
async def test_runs_of_evaluations_are_left_out_and_counted_unless_they_are_wanted() -> None:
    server = await server_with(3)
    experiment = "eval-decks-0123456789ab"
    for name in ("mendly-r1", "mendly-r2", "mendly-r2-judge"):
        memo = RunMemo(worker="boss", task="deck")
        await server.put(f"{experiment}-{name}", "Completed", memo, began=NOW, ended=NOW, parent=experiment)
    # A workflow of somebody else starts runs, too.
    await server.put("run-3", "Completed", RunMemo(worker="boss"), began=NOW, ended=NOW, parent="mine")
    client = cast("Any", server)
    assert {one.run for one in (await list_runs(client)).runs} == {"run-0", "run-1", "run-2", "run-3"}
    assert await count_left_out(client, RunFilter()) == 3
    assert await count_left_out(client, RunFilter(state="failed")) == 0
    wanted = RunFilter(evaluations=True)
    parts = {one.run: one.part for one in (await list_runs(client, wanted)).runs if one.part is not None}
    assert {run: part.words for run, part in parts.items()} == {
        f"{experiment}-mendly-r1": "case mendly",
        f"{experiment}-mendly-r2": "case mendly, repeat 2",
        f"{experiment}-mendly-r2-judge": "judge of case mendly, repeat 2",
    }
    assert await count_left_out(client, wanted) == 0


@pytest.fixture
async def server() -> RunServer:
    """More runs than the server lists in one answer."""
    server = RunServer()
    for number in range(1_200):
        await server.put(
            f"run-{number}", "Completed", RunMemo(worker="w"), began=LISTED_AT, ended=LISTED_AT + timedelta(0, number)
        )
    return server


async def test_all_parts_together_are_the_list(server: RunServer) -> None:
    parts = [part async for part in every_part(cast("Any", server), "", first=100)]
    assert [(part.token, len(part.found)) for part in parts] == [(b"", 100), (b"100", 1_000), (b"1100", 100)]
    found = [info.execution.workflow_id for part in parts for info in part.found]
    assert found == [f"run-{number}" for number in range(1_199, -1, -1)]


async def test_a_part_is_asked_for_when_somebody_wants_it(server: RunServer) -> None:
    parts = aiter(every_part(cast("Any", server), ""))
    await anext(parts)
    assert len(server.queries) == 1


def test_an_attribute_that_a_workflow_has_not_is_none() -> None:
    info = WorkflowExecutionInfo()
    info.search_attributes.indexed_fields["n"].data = b"7"
    info.search_attributes.indexed_fields["empty"].data = b""
    assert [attribute_of(info, name) for name in ("n", "empty", "other")] == [7, None, None]
