"""`approvals`: how many questions are listed, and how it says in words what is not."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.cli import session
from llm_do_temporal.cli.commands.approvals import approvals
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import OpenQuestions
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.run_filter import RunFilter


@dataclass
class Asked:
    """A client with so many questions in the runs that it looks at, and more runs."""

    questions: list[Question]
    further_runs: int = 0
    is_working: bool = False
    limits: list[int | None] = field(default_factory=list[int | None])

    async def approvals(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        return [replace(one, run=run) for one in self.questions]

    async def all_approvals(self, *, limit: int | None = None) -> OpenQuestions:
        """See LlmDoClient."""
        self.limits.append(limit)
        shown = self.questions[:limit]
        return OpenQuestions(shown, [], len(self.questions) - len(shown), self.further_runs)

    async def runs(self, wanted: RunFilter, *, limit: int) -> list[None]:
        """See LlmDoClient."""
        assert (wanted.state, limit) == ("open", 1)
        return [None] * self.is_working

    async def status(self, run: str) -> Any:
        """See LlmDoClient."""
        return SimpleNamespace(ended_at=None if self.is_working else run)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, pending: Question) -> Asked:
    """Sixty questions of one run."""
    client = Asked([replace(pending, id=f"a{number}") for number in range(60)])

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=client)

    monkeypatch.setattr(session, "opened", opened)
    return client


async def test_fifty_of_all_runs_are_listed_and_the_rest_is_counted(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    await approvals()
    told = capsys.readouterr()
    assert asked.limits == [50]
    assert "a49" in told.out
    assert "a50" not in told.out
    assert "not shown: 10 more questions; `llm-do-temporal approvals --limit N` shows more" in told.err


@pytest.mark.parametrize(
    ("questions", "runs", "words"),
    [
        (51, 0, ["not shown: 1 more question"]),
        (50, 1, ["not shown: what 1 more run asks"]),
        (52, 1_234, ["not shown: 2 more questions and what 1,234 more runs ask"]),
        (0, 2, ["not shown: what 2 more runs ask"]),
        (50, 0, []),
        (0, 0, []),
    ],
)
async def test_questions_and_runs_that_are_not_shown_are_counted_apart(
    asked: Asked, capsys: pytest.CaptureFixture[str], questions: int, runs: int, words: list[str]
) -> None:
    asked.questions, asked.further_runs = asked.questions[:questions], runs
    await approvals()
    told = capsys.readouterr().err
    assert [line.partition(";")[0] for line in told.splitlines() if "not shown" in line] == words
    assert ("nothing waits for approval" in told) is (questions == runs == 0)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (None, "runs go on, and may ask: `llm-do-temporal approvals watch` shows what comes"),
        ("job", "the run goes on, and may ask: `llm-do-temporal approvals watch job` shows what comes"),
    ],
)
async def test_where_nothing_waits_yet_it_says_that_runs_go_on(
    asked: Asked, capsys: pytest.CaptureFixture[str], run: str | None, words: str
) -> None:
    asked.questions = []
    await approvals(run)
    assert capsys.readouterr().err.splitlines() == ["nothing waits for approval"]
    asked.is_working = True
    await approvals(run)
    assert capsys.readouterr().err.splitlines() == ["nothing waits for approval", words]


async def test_json_has_everything_unless_a_limit_is_given(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    await approvals(as_json=True)
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 60
    assert told.err == ""
    await approvals(as_json=True, limit=7)
    told = capsys.readouterr()
    assert len(json.loads(told.out)) == 7
    assert "not shown: 53 more questions" in told.err
    assert asked.limits == [None, 7]


@pytest.mark.usefixtures("asked")
async def test_of_one_run_everything_is_listed_unless_a_limit_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    await approvals("job")
    told = capsys.readouterr()
    assert "a59" in told.out
    assert "not shown" not in told.err
    await approvals("job", limit=2)
    told = capsys.readouterr()
    assert "a1 " in told.out
    assert "a2 " not in told.out
    assert "not shown: 58 more questions; `llm-do-temporal approvals job --limit N` shows more" in told.err


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.usefixtures("asked")
async def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(UsageError, match=f"--limit {limit} is not a number above zero"):
        await approvals(limit=limit)
