"""The list of runs on the terminal: by their tasks, with a column for people only where there are several."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from llm_do_temporal.cli import session
from llm_do_temporal.cli.commands import runs
from llm_do_temporal.cli.commands.runs import list_runs, runs_table
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.session import Session
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.runs import RunMemo
from tests.support.runs.run_server import RunServer

BEGAN = datetime.now(UTC) - timedelta(hours=2)
DONE = RunSummary(
    run="clerk-1",
    worker="clerk",
    status="completed",
    pending=0,
    started_at=BEGAN,
    ended_at=BEGAN + timedelta(minutes=3),
    task="Sort the mail",
    started_by="ada",
)


def test_a_run_is_named_by_its_task() -> None:
    header, (row,) = runs_table([DONE])
    assert header == ["TASK", "RUN", "WORKER", "STATUS", "APPROVALS", "STARTED", "TOOK"]
    assert row == ["Sort the mail", "clerk-1", "clerk", "completed", "", "2h ago", "3m"]


def test_runs_of_several_people_say_whose_they_are() -> None:
    waiting = replace(DONE, run="clerk-2", task="", status="waiting", pending=2, ended_at=None, started_by="bob")
    header, (first, second) = runs_table([DONE, waiting])
    assert header[-1] == "BY"
    assert (first[-1], second[-1]) == ("ada", "bob")
    assert second[:6] == ["-", "clerk-2", "clerk", "waiting", "2", "2h ago"]
    assert second[6] == ""


def test_a_run_has_cost_a_price_or_none_is_known() -> None:
    runs = [replace(DONE, run=f"clerk-{number}") for number in range(4)]
    spent = {"clerk-0": Usage(cost_usd=Decimal("0.25")), "clerk-1": Usage(), "clerk-2": Usage(unpriced=("mine",))}
    header, rows = runs_table(runs, spent)
    assert header[-1] == "COST"
    assert [row[-1] for row in rows] == ["$0.2500", "-", "unpriced", "?"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"state": "complete"}, "did you mean 'completed'"),
        ({"since": "yesterday"}, "since: 'yesterday' is no time"),
        ({"since": "0001-01-01"}, "since: '0001-01-01' is not in the years 1970 to 9998"),
        ({"until": "9999-12-31"}, "until: '9999-12-31' is not in the years 1970 to 9998"),
        ({"until": "9999999999d"}, "until: '9999999999d' is too long; a time is at most 10000 days"),
        ({"limit": 0}, "--limit 0 is not a number above zero"),
        ({"view": "mine"}, "there is no view 'mine'; there are decks, broken"),
    ],
)
async def test_a_list_that_cannot_be_made_says_why_before_it_asks_a_server(
    tmp_path: Path, flags: dict[str, str], words: str
) -> None:
    (tmp_path / "workshop.yaml").write_text("views: {decks: {text: deck}, broken: {state: failed, since: 7d}}\n")
    with pytest.raises(UsageError, match=words):
        await list_runs(**flags, location=Location(workshop=tmp_path))  # pyright: ignore[reportArgumentType]


async def test_a_workshop_without_views_says_so(tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("name: plain\n")
    with pytest.raises(UsageError, match="there is no view 'mine'; workshop\\.yaml has no"):
        await list_runs(view="mine", location=Location(workshop=tmp_path))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> RunServer:
    """A server that the commands are connected to."""
    server = RunServer()

    @asynccontextmanager
    async def opened(_location: Location, _use: str) -> AsyncGenerator[Session]:
        yield Session(LlmDoClient(cast("Any", server)), None, "127.0.0.1:1", embedded=False)

    monkeypatch.setattr(session, "opened", opened)
    return server


async def test_runs_are_listed_with_their_costs_in_one_go(
    server: RunServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def read_one(_accounts: Accounts, branch: Branch) -> Spent:
        return Spent(total=Usage(cost_usd=Decimal("0.25" if branch.workflow_id == "run-0" else "0.5")))

    monkeypatch.setattr(Accounts, "read_one", read_one)
    for number in range(2):
        await server.put(f"run-{number}", "Completed", RunMemo(worker="clerk"), began=BEGAN, ended=BEGAN)
    assert await list_runs(cost=True, as_json=True, location=Location()) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(run["run"], run["cost_usd"]) for run in listed] == [("run-0", 0.25), ("run-1", 0.5)]
    assert len(server.queries) == 1


@pytest.mark.thorough
async def test_a_long_search_says_how_far_it_is(
    server: RunServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1_100):
        await server.put(f"run-{number}", "Completed", RunMemo(worker="clerk"), began=BEGAN, ended=BEGAN)

    monkeypatch.setattr(runs, "_SAID_EVERY", 1_000)
    assert await list_runs(text="nothing", location=Location()) == 0
    assert capsys.readouterr().err == "looked at 1,000 runs so far\nno run is like that: text nothing\n"
    assert await list_runs(state="completed", limit=1_050, location=Location()) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.extension("evaluations")
async def test_runs_of_evaluations_are_left_out_with_a_line_that_says_so(
    server: RunServer, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = "eval-decks-0123456789ab"
    memo = RunMemo(worker="clerk")
    for case in ("acme", "mendly"):
        await server.put(f"{experiment}-{case}-r1", "Completed", memo, began=BEGAN, ended=BEGAN, parent=experiment)
    rest = "of evaluations; `list --evaluations` has them, `eval list` the experiments\n"
    assert await list_runs(location=Location()) == 0
    assert capsys.readouterr() == ("", f"not in this list: 2 runs {rest}")
    await server.put("mine", "Completed", RunMemo(worker="clerk", fork_of="first"), began=BEGAN, ended=BEGAN)
    assert await list_runs(text="e", location=Location()) == 0
    shown = capsys.readouterr()
    assert shown.err == f"not in this list: up to 2 runs like that {rest}"
    header, row = shown.out.splitlines()
    assert (header.split()[-2:], row.split()[-1]) == (["FORK", "OF"], "first")
    assert await list_runs(state="failed", location=Location()) == 0
    assert capsys.readouterr().err == "no run is like that: state failed\n"
    assert await list_runs(evaluations=True, location=Location()) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert sorted(line.rpartition("  ")[2].strip() for line in shown.out.splitlines()) == [
        "CASE",
        "case acme",
        "case mendly",
        "first",
    ]
    assert await list_runs(evaluations=True, as_json=True, location=Location()) == 0
    listed = json.loads(capsys.readouterr().out)
    cases = [run["case"] for run in listed if "case" in run]
    assert cases[0] == {"experiment": experiment, "case": "acme", "repeat": 1, "is_judge": False}
