"""Answers that are held on the terminal: offered for undo while that is possible, taken back one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from io import StringIO

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal import ask
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.prompts import Interrupt
from llm_do_temporal.client import decisions
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import Approval, Decision, Verdict

FIRST, SECOND, THIRD = (FrozenQuestion("r1", f"a{number}", "") for number in (1, 2, 3))


NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock(datetime):
    """A clock that stands still: the seconds that are left are told in words."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See datetime."""
        return NOW


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass while a test looks at what is left."""
    monkeypatch.setattr(decisions, "datetime", Clock)


def later(seconds: float = 60) -> datetime:
    return NOW + timedelta(seconds=seconds)


class Desk(LlmDoClient):
    """Takes decisions and gives them back; `late` names those that have taken effect meanwhile."""

    def __init__(self, *late: str) -> None:
        self.late = late
        self.taken: list[Decision] = []
        self.undone: list[str] = []
        self.asked: Question | None = None

    async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
        """See LlmDoClient."""
        if decision.decision is None:
            if decision.id in self.late:
                raise DecisionRefused(f"{decision.id} has taken effect")
            self.undone.append(decision.id or "")
            return None
        assert self.asked is not None
        self.taken.append(decision)
        vote = Verdict(decision=decision.decision, args={}, by=decision.by, at=later(0), door="update")
        held = vote.model_copy(update={"effective_at": later(decision.hold)}) if decision.hold else None
        verdict = None if decision.hold else vote
        asked = self.asked
        return Approval(id=asked.id, asked_at=asked.asked_at, request=asked.request, held=held, verdict=verdict)

    async def questions(self, run: str) -> list[Question]:
        """See LlmDoClient."""
        raise UsageError("nothing is known of it")


def asker_of(desk: Desk, seconds: int = 10, screen: StringIO | None = None) -> Asker:
    """Person at a terminal, whose answers are held."""
    console, votes_of = Console(file=screen or StringIO(), width=100, height=24), len
    key = LeaveKey("b", "[b]ack")
    return Asker(desk, console, Interrupt(), key, lambda asked: votes_of(asked.votes), hold_seconds=seconds)


async def test_the_newest_answer_is_taken_back_first() -> None:
    desk, told = Desk(), list[str]()
    asker = asker_of(desk)
    asker.answered = {("r1", "a1"), ("r1", "a2")}
    assert asker.undo_offer == ""
    assert asker.hold([FIRST], later(9.5)) == "takes effect in 10 s; u takes it back"
    asker.hold([SECOND], later(9.5))
    assert asker.undo_offer == "[u]ndo a2 (10 s)"
    await asker.take_back(told.append)
    assert (asker.undo_offer, asker.answered) == ("[u]ndo a1 (10 s)", {("r1", "a1")})
    await asker.take_back(told.append)
    assert (desk.undone, asker.undo_offer, asker.answered) == (["a2", "a1"], "", set())
    assert told == ["a2 of r1 waits again", "a1 of r1 waits again"]


async def test_an_answer_about_many_is_taken_back_one_by_one_and_each_is_told() -> None:
    asker, told = asker_of(Desk("a2")), list[str]()
    asker.answered = {("r1", "a1"), ("r1", "a2"), ("r1", "a3")}
    asker.hold([FIRST, SECOND, THIRD], later())
    assert asker.undo_offer.startswith("[u]ndo all 3 ")
    await asker.take_back(told.append)
    assert asker.answered == {("r1", "a2")}
    assert "a2 of r1 stands: a2 has taken effect" in told


def test_what_has_taken_effect_is_not_offered() -> None:
    asker = asker_of(Desk())
    asker.hold([FIRST], later(-1))
    assert asker.undo_offer == ""


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that surrounds a question is known."""

    async def nothing(client: object, question: Question, known: Sequence[Question]) -> None:
        return None

    monkeypatch.setattr(ask, "read_background", nothing)


@pytest.mark.parametrize("seconds", [10, 0])
async def test_the_next_question_offers_to_take_the_last_answer_back(
    typed: Callable[..., None], pending: Question, seconds: int
) -> None:
    desk, screen = Desk(), StringIO()
    asker = asker_of(desk, seconds, screen)
    following = replace(pending, id="a9")
    desk.asked = pending
    typed("a")
    assert await asker.ask(pending, [pending]) is Parting.SETTLED
    assert [one.hold for one in desk.taken] == [seconds]
    typed("u", "b")
    parting = await asker.ask(following, [following])
    shown = screen.getvalue()
    name = (pending.run, pending.id)
    assert parting is Parting.LEFT
    if seconds:
        assert f"{pending.id} approved: takes effect in 10 s; u takes it back" in shown
        assert f"[u]ndo {pending.id} (10 s)" in shown
        assert f"{pending.id} of {pending.run} waits again" in shown
        assert name not in asker.answered
    else:
        assert "[u]ndo" not in shown
        assert "'u' is not an answer" in shown
        assert name in asker.answered
