"""A question on the terminal: what is sent when a person agrees."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal import ask as asking
from llm_do_temporal.cli.terminal import prompts as prompting
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey
from llm_do_temporal.cli.terminal.lines import Interrupt
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Verdict

CHANGED = {"path": "/a.txt", "content": "better"}


class Desk:
    """Takes decisions; nobody answers."""

    def __init__(self) -> None:
        self.taken: list[Decision] = []

    async def decide(self, run: str, decision: Decision) -> None:
        assert run == "run-1"
        self.taken.append(decision)


@pytest.mark.parametrize(
    ("args", "sent"), [(None, (DecisionKind.APPROVE, None)), (CHANGED, (DecisionKind.MODIFY, CHANGED))]
)
async def test_agreeing_is_about_the_arguments_that_were_shown(
    monkeypatch: pytest.MonkeyPatch, pending: Question, args: dict[str, Any] | None, sent: tuple[Any, Any]
) -> None:
    async def typed(prompt: str) -> str:
        return "a" if prompt else ""

    monkeypatch.setattr(asking, "forget_typed", lambda: None)
    monkeypatch.setattr(prompting, "read_line", typed)
    if args is not None:
        vote = Verdict(decision=DecisionKind.MODIFY, args=args, by="ann", at=pending.asked_at, door="update")
        pending = replace(pending, votes=(vote,))
    desk, shown = Desk(), Console(file=StringIO(), width=100, height=50)
    asker = Asker(
        cast("LlmDoClient", desk), shown, Interrupt(), LeaveKey("b", ""), lambda question: len(question.votes)
    )
    assert await asker.ask(pending)
    (decision,) = desk.taken
    assert (decision.decision, decision.args) == sent
