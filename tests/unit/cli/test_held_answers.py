"""Answers that are held on the terminal: offered for undo while that is possible, told of on leaving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from io import StringIO
from typing import cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.holds import Holds
from llm_do_temporal.cli.terminal import ask as asking
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.prompts import Interrupt
from llm_do_temporal.client import decisions
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import FrozenQuestion
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Approval, Decision, HeldDecision, UndoInput, Verdict

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
        self.released: list[str] = []
        self.asked: Question | None = None

    async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
        """See LlmDoClient."""
        assert self.asked is not None
        self.taken.append(decision)
        vote = Verdict(decision=decision.decision, args={}, by=decision.by, at=later(0), door="update")
        held = HeldDecision(vote=vote, until=later(decision.hold)) if decision.hold else None
        verdict = None if decision.hold else vote
        asked = self.asked
        return Approval(id=asked.id, asked_at=asked.asked_at, request=asked.request, held=held, verdict=verdict)

    async def undo(self, run: str, undo: UndoInput) -> Approval | None:
        """See LlmDoClient."""
        return self._take(undo, self.undone)

    async def let_take_effect(self, run: str, undo: UndoInput) -> Approval | None:
        """See LlmDoClient."""
        return self._take(undo, self.released)

    def _take(self, undo: UndoInput, taken: list[str]) -> None:
        if undo.id in self.late:
            raise DecisionRefused(f"{undo.id} has taken effect")
        taken.append(undo.id)


@pytest.mark.parametrize("late", ["a1", ""])
async def test_a_question_is_known_until_its_answer_is_taken_back(late: str) -> None:
    known: list[set[tuple[str, str]]] = []

    class Lister(Desk):
        async def undo(self, run: str, undo: UndoInput) -> Approval | None:
            known.append(holds.names)
            return await super().undo(run, undo)

    holds = Holds(Lister(late), 10)
    holds.note([FIRST], later(9.5))
    await holds.undo(list[str]().append)
    assert known == [{("r1", "a1")}]
    assert holds.newest is None


async def test_the_newest_answer_is_taken_back_first() -> None:
    desk, told = Desk(), list[str]()
    holds = Holds(desk, 10)
    assert holds.offer == ""
    assert holds.note([FIRST], later(9.5)) == "takes effect in 10 s; u takes it back"
    holds.note([SECOND], later(9.5))
    assert holds.offer == "[u]ndo a2, [t]ake effect now (10 s)"
    assert holds.names == {("r1", "a1"), ("r1", "a2")}
    assert await holds.undo(told.append) == {("r1", "a2")}
    assert holds.offer.startswith("[u]ndo a1,")
    await holds.let_go(told.append)
    assert (desk.undone, desk.released) == (["a2"], ["a1"])
    assert await holds.undo(told.append) == set()
    assert [line.partition(":")[0] for line in told] == [
        "a2 of r1 waits again",
        "a1",
        "nothing can be taken back any more",
    ]


async def test_an_answer_about_many_is_taken_back_one_by_one_and_each_is_told() -> None:
    holds, told = Holds(Desk("a2"), 10), list[str]()
    holds.note([FIRST, SECOND, THIRD], later())
    assert holds.offer.startswith("[u]ndo all 3,")
    assert await holds.undo(told.append) == {("r1", "a1"), ("r1", "a3")}
    assert "a2 of r1 stands: a2 has taken effect" in told


@pytest.mark.parametrize(
    ("late", "told"),
    [
        ((), ["all 3: in effect"]),
        (("a2",), ["a2 has taken effect", "all 3: 2 of 3 in effect"]),
        (("a1", "a2", "a3"), [f"a{number} has taken effect" for number in (1, 2, 3)]),
    ],
)
async def test_only_answers_that_took_effect_are_said_to_be_in_effect(late: tuple[str, ...], told: list[str]) -> None:
    holds, said = Holds(Desk(*late), 10), list[str]()
    holds.note([FIRST, SECOND, THIRD], later())
    await holds.let_go(said.append)
    assert said == told


async def test_a_refusal_is_all_that_is_said_about_one_answer() -> None:
    holds, said = Holds(Desk("a1"), 10), list[str]()
    holds.note([FIRST], later())
    await holds.let_go(said.append)
    assert said == ["a1 has taken effect"]


def test_what_has_taken_effect_is_not_offered() -> None:
    holds = Holds(Desk(), 10)
    holds.note([FIRST], later(-1))
    assert (holds.newest, holds.offer, holds.names) == (None, "", set())
    assert holds.farewell(str) == []


def test_who_leaves_is_told_how_to_take_it_back_and_need_not_wait() -> None:
    holds = Holds(Desk(), 10)
    holds.note([FIRST], later(9.5))
    (line,) = holds.farewell(lambda words: f"llm-do-temporal {words}")
    assert line == "a1 of r1 takes effect in 10 s; `llm-do-temporal undo r1 a1` takes it back"
    holds.note([FrozenQuestion("r1", f"a{number}", "") for number in range(2, 12)], later())
    assert holds.farewell(str)[-1] == "6 more take effect then"
    assert len(holds.farewell(str)) == 6


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that surrounds a question is known."""

    async def nothing(client: object, question: Question, known: Sequence[Question]) -> None:
        return None

    monkeypatch.setattr(asking, "read_background", nothing)


@pytest.mark.parametrize("seconds", [10, 0])
async def test_the_next_question_offers_to_take_the_last_answer_back(
    typed: Callable[..., None], pending: Question, seconds: int
) -> None:
    desk, screen, votes_of = Desk(), StringIO(), len
    holds = Holds(desk, seconds)
    console = Console(file=screen, width=100, height=24)
    asker = Asker(
        cast("LlmDoClient", desk),
        console,
        Interrupt(),
        LeaveKey("b", "[b]ack"),
        lambda asked: votes_of(asked.votes),
        holds=holds,
    )
    following = replace(pending, id="a9")
    desk.asked = pending
    typed("a")
    assert await asker.ask(pending, [pending]) is Parting.SETTLED
    assert [one.hold for one in desk.taken] == [seconds]
    typed("u", "b")
    parting = await asker.ask(following, [following])
    shown = screen.getvalue()
    name = (pending.run, pending.id)
    if seconds:
        assert parting is Parting.UNDONE
        assert f"{pending.id} approved: takes effect in 10 s; u takes it back" in shown
        assert f"[u]ndo {pending.id}, [t]ake effect now" in shown
        assert asker.reopened == {name}
        assert name not in asker.answered
    else:
        assert parting is Parting.LEFT
        assert "[u]ndo" not in shown
        assert "'u' is not an answer" in shown
        assert name in asker.answered
