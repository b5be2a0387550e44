"""`approvals RUN ID`: one question whole, with what is around it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.cli import session
from llm_do_temporal.cli.commands.approvals import approvals
from llm_do_temporal.cli.terminal.pictures import surroundings
from llm_do_temporal.client.client import Question
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import DecisionKind, Verdict
from llm_do_temporal.messages.runs import RunMemo
from llm_do_temporal.ui.content.background import Background, Words

REJECTED = Verdict(
    decision=DecisionKind.REJECT, args={}, by="ann", at=datetime(2026, 1, 2, tzinfo=UTC), door="update", note="no"
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, pending: Question) -> Sequence[Question]:
    """Return the questions of the run: one open, one rejected, one withdrawn."""
    known = [pending, replace(pending, id="a2", verdict=REJECTED), replace(pending, id="a3", withdrawn=True)]

    async def questions(run: str) -> list[Question]:
        assert run == "run-1"
        return known

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=SimpleNamespace(questions=questions))

    async def background(client: object, question: Question) -> Background:
        words = Words("I sorted it.", 0, "")
        return Background(RunMemo(worker="clerk", task="Sort the mail", started_by="ada"), [], words)

    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(surroundings, "read_background", background)
    return known


async def test_the_whole_of_it_stands_below_its_surroundings(
    asked: Sequence[Question], capsys: pytest.CaptureFixture[str]
) -> None:
    assert await approvals("run-1", "a1") == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1:] == [
        "  task: Sort the mail, started by ada",
        "  said: I sorted it.",
        "  like it: 1 rejected (write_file)",
        *[line for line in told.out.splitlines() if line.startswith("    a2 rejected by ann")],
        "write_file /a.txt (8 bytes)",
        "sandbox.write needs approval",
        "  path: /a.txt",
        "  content (a new file):",
        "    one",
        "    two",
        "",
    ]
    assert "answer with: llm-do-temporal approve run-1 a1" in told.err


@pytest.mark.parametrize(
    ("approval", "state"),
    [("a2", "reject by ann, 2026-01-02 00:00:00 UTC: no"), ("a3", "nobody needs an answer any more")],
)
async def test_a_settled_question_says_so(
    asked: Sequence[Question], capsys: pytest.CaptureFixture[str], approval: str, state: str
) -> None:
    await approvals("run-1", approval)
    assert capsys.readouterr().err.strip() == state


async def test_the_object_is_that_of_the_list(asked: Sequence[Question], capsys: pytest.CaptureFixture[str]) -> None:
    await approvals("run-1", "a2", as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(asked[1].as_json()))


async def test_a_question_that_nobody_asked_is_an_error(asked: Sequence[Question]) -> None:
    with pytest.raises(UsageError, match="'a9'; it has asked a1, a2, a3"):
        await approvals("run-1", "a9")
