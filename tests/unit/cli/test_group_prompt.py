"""A group at the prompt: which of its questions are decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal import ask as asking
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey
from llm_do_temporal.cli.terminal.prompts import Interrupt
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import Fate, FrozenQuestion, QuestionOutcome
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.open_questions import InboxEntry, QuestionGroup
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.approvals import Decision, RequestApprovalInput
from llm_do_temporal.policy.groups import CallGroup
from llm_do_temporal.policy.identity import IDENTITY_VERSION

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NAMES = [("decks", "a1"), ("decks", "a2"), ("notes", "a2")]


def entry(run: str, approval: str) -> InboxEntry:
    facts: dict[str, Any] = {"run": run, "id": approval, "run_worker": "boss", "started_by": "ann", "worker": "boss"}
    facts |= {"path": "main", "tool": "write_file", "summary": f"write {approval}", "asked_at": NOW, "deadline": None}
    facts |= {"votes": 0, "quorum": 1, "approvers": (), "digest": approval}
    facts["group"] = CallGroup(key="key", title="write_file *.md", cells={"path": f"/{run}/{approval}.md"})
    return InboxEntry(**facts)


def whole(pending: Question, name: str) -> RequestApprovalInput:
    args = {"content": f"all of {name}"}
    return pending.request.model_copy(update={"identity_version": IDENTITY_VERSION, "args": args})


class Desk:
    """Takes all decisions."""

    def __init__(self, pending: Question) -> None:
        self.pending = pending
        self.decided: list[tuple[tuple[str, str], str]] = []
        self.screen = StringIO()

    async def decide_many(self, questions: Sequence[FrozenQuestion], decision: Decision) -> list[QuestionOutcome]:
        self.decided += [((one.run, one.id), f"{decision.decision} {decision.note}".strip()) for one in questions]
        return [QuestionOutcome(one, Fate.TAKEN, "") for one in questions]

    async def approvals(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        if run == "notes":
            raise UsageError("it has ended")
        return [replace(self.pending, run=run, id=name, request=whole(self.pending, name)) for name in ("a1", "a2")]

    async def ask(self) -> set[tuple[str, str]]:
        console = Console(file=self.screen, width=120, height=40)
        key = LeaveKey("b", "[b]ack")
        asker = Asker(cast("LlmDoClient", self), console, Interrupt(), key, lambda asked: 0, lambda key: 3)
        await asker.ask_group("key")
        return asker.answered


@pytest.fixture(autouse=True)
def three_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three questions of two runs wait."""

    async def read_group(client: object, key: str) -> QuestionGroup:
        return QuestionGroup(key, "write_file *.md", tuple(entry(*name) for name in NAMES))

    monkeypatch.setattr(asking, "read_group", read_group)


@pytest.mark.parametrize(
    ("lines", "decided"),
    [
        (("a",), NAMES),
        (("a1", "a"), NAMES[1:]),
        (("A1", "a1", "a"), NAMES),  # the second time takes it back
        (("notes a2", "a"), NAMES[:2]),
        (("a2", "decks a2", "a"), [NAMES[0], NAMES[2]]),  # of two runs: says so, and waits for a longer name
        (("a9", "approve", "b"), []),
        (("a1", "decks a2", "notes a2", "a", "b"), []),  # nothing is left to decide
        (("r", "", "b"), []),
    ],
)
async def test_a_group_is_approved_without_those_that_are_left_out(
    typed: Callable[..., None], pending: Question, lines: tuple[str, ...], decided: list[tuple[str, str]]
) -> None:
    desk = Desk(pending)
    typed(*lines)
    assert await desk.ask() == set(decided)
    assert desk.decided == [(name, "approve") for name in decided]


async def test_the_prompt_says_how_many_are_decided_and_which_are_not(
    typed: Callable[..., None], pending: Question
) -> None:
    desk = Desk(pending)
    typed("a2", "decks a1", "r", "too many")
    await desk.ask()
    told = desk.screen.getvalue()
    assert "several runs ask a2: type decks a2 or notes a2" in told
    assert "[a]pprove these 2  [r]eject these 2 (without a1)" in told
    assert desk.decided == [(name, "reject too many") for name in NAMES[1:]]


async def test_all_of_each_call_is_read_in_one_go(
    monkeypatch: pytest.MonkeyPatch, typed: Callable[..., None], pending: Question
) -> None:
    """But for those that are another call by now, or of a run that has ended."""

    async def read_group(client: object, key: str) -> QuestionGroup:
        first = replace(entry("decks", "a1"), digest=whole(pending, "a1").digest)
        return QuestionGroup(key, "write_file *.md", (first, entry("decks", "a2"), entry("notes", "a2")))

    desk = Desk(pending)
    typed("v", "b")
    monkeypatch.setattr(asking, "read_group", read_group)
    await desk.ask()
    told = desk.screen.getvalue()
    assert "content (a new file): all of a1" in told
    assert "a2 of run decks is not asked any more" in told
    assert "a2 of run notes is not asked any more" in told
