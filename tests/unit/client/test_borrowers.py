"""Borrowers of a run: who holds copies of its answers, however the server lists them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from llm_do_temporal.client.maintenance import borrowers as module
from llm_do_temporal.client.maintenance.borrowers import Borrower, Borrowers, borrowers_of, read_borrowers
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.experiments.source import ForkSource
from llm_do_temporal.messages.runs import RunMemo, StartRunInput
from tests.support.runs.run_server import RunServer

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def started(run: str, of: str) -> tuple[str, Borrower]:
    return run, Borrower(run, of, is_open=False)


def test_borrowers_of_borrowers_come_after_those_they_borrow_from() -> None:
    listed = dict([started("a", "c"), started("b", "run"), started("c", "run"), started("d", "a"), started("e", "x")])
    assert [one.run for one in borrowers_of("run", listed)] == ["b", "c", "a", "d"]


def test_a_memo_that_says_nonsense_makes_no_circle() -> None:
    listed = dict([started("run", "run"), started("a", "run"), started("b", "b"), started("run", "a")])
    assert [one.run for one in borrowers_of("run", listed)] == ["a"]


def test_a_run_that_starts_with_a_record_says_whose_it_is() -> None:
    fork = ForkSource(run="run", index="0" * 64)
    assert RunMemo.of(StartRunInput(worker="w", fork=fork)).fork_of == "run"
    assert "fork_of" not in RunMemo.of(StartRunInput(worker="w")).model_dump()


async def test_the_memos_of_the_newest_executions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    server = RunServer()
    await server.put("open", "Running", RunMemo(worker="w", fork_of="run"), began=NOW)
    await server.put("ended", "Failed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    await server.put("other", "Completed", RunMemo(worker="w"), began=NOW, ended=NOW)
    await server.put("sealed", "Completed", RunMemo(worker="w", fork_of="run"), began=NOW, ended=NOW)
    read = module.read_begun

    async def without_its_key(info: Any, converter: Any) -> RunMemo:
        if info.execution.workflow_id == "sealed":
            raise KeyMismatch("no key", key="old")
        return await read(info, converter)

    monkeypatch.setattr(module, "read_begun", without_its_key)
    found = await read_borrowers(cast("Any", server), "run")
    assert found == Borrowers((Borrower("ended", "run", False), Borrower("open", "run", True)), locked=1)
    assert "ExecutionStatus != 'ContinuedAsNew'" in server.queries[0]
