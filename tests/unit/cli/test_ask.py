"""A question on the terminal: what is sent when a person agrees, and what must be read before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from typing import IO, Any, cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.terminal import ask as asking
from llm_do_temporal.cli.terminal.ask import Asker, LeaveKey, Parting
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion
from llm_do_temporal.cli.terminal.prompts import Interrupt
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.question_document import Background, precedents_of
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Verdict
from llm_do_temporal.messages.runs import RunMemo

CHANGED = {"path": "/a.txt", "content": "better"}
LONG = {"path": "/a.txt", "content": "line\n" * 99 + "the end"}
HEIGHT = 24


class Desk:
    """Takes decisions; nobody answers."""

    def __init__(self) -> None:
        self.taken: list[Decision] = []
        self.screen = StringIO()

    async def decide(self, run: str, decision: Decision) -> None:
        assert run == "run-1"
        self.taken.append(decision)

    async def ask(self, question: Question, *, skips: bool = False) -> Parting:
        console = Console(file=self.screen, width=100, height=HEIGHT)
        key = LeaveKey("b", "[b]ack", skips=skips)
        votes_of: Callable[[Question], int] = lambda asked: len(asked.votes)  # noqa: E731 - one line
        asker = Asker(cast("LlmDoClient", self), console, Interrupt(), key, votes_of)
        return await asker.ask(question, [question], others=2)


@pytest.fixture(autouse=True)
def little_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what surrounds a question, only the task and the calls before are known."""

    async def background(client: object, question: Question, known: Sequence[Question]) -> Background:
        return Background(RunMemo(worker="clerk", task="Sort"), None, precedents_of(question, known))

    monkeypatch.setattr(asking, "read_background", background)


@pytest.mark.parametrize(
    ("args", "sent"), [(None, (DecisionKind.APPROVE, None)), (CHANGED, (DecisionKind.MODIFY, CHANGED))]
)
async def test_agreeing_is_about_the_arguments_that_were_shown(
    typed: Callable[..., None], pending: Question, args: dict[str, Any] | None, sent: tuple[Any, Any]
) -> None:
    if args is not None:
        vote = Verdict(decision=DecisionKind.MODIFY, args=args, by="ann", at=pending.asked_at, door="update")
        pending = replace(pending, votes=(vote,))
    desk = Desk()
    typed("a")
    assert await desk.ask(pending) is Parting.SETTLED
    (decision,) = desk.taken
    assert (decision.decision, decision.args) == sent


@pytest.mark.parametrize("letter", ["a", "n", "s", "k"])
async def test_nobody_agrees_to_what_the_screen_had_no_room_for(
    typed: Callable[..., None], pending: Question, letter: str
) -> None:
    """The first letter shows all of it, page by page; the next one counts."""
    desk = Desk()
    typed(letter, *[""] * 4, "a")
    await desk.ask(replace(pending, request=pending.request.model_copy(update={"args": LONG})))
    shown, _, rest = desk.screen.getvalue().partition("here is all of it, then answer")
    assert len(shown.splitlines()) <= HEIGHT
    assert "2 more wait" in shown.splitlines()[0]
    assert "task: Sort" in shown
    assert "the end" not in shown
    assert "the end" in rest
    assert [one.decision for one in desk.taken] == [DecisionKind.APPROVE]


@pytest.mark.parametrize(("letters", "is_noted"), [(["b"], False), (["v", *[""] * 4, "b"], True)])
async def test_only_what_was_read_is_what_this_terminal_has_shown(
    typed: Callable[..., None],
    pending: Question,
    monkeypatch: pytest.MonkeyPatch,
    letters: list[str],
    is_noted: bool,
) -> None:
    """A later `approve RUN` takes what was shown last: a call whose end was on no screen is not among that."""
    noted: list[list[str]] = []

    def note(run: str, shown: Sequence[ShownQuestion], *, on: IO[str]) -> None:
        noted.append([one.id for one in shown])

    monkeypatch.setattr(asking, "note_shown", note)
    typed(*letters)
    assert await Desk().ask(replace(pending, request=pending.request.model_copy(update={"args": LONG}))) is Parting.LEFT
    assert noted == [[], [pending.id]] if is_noted else noted == [[]]


async def test_what_is_wrong_is_rejected_without_reading_on(typed: Callable[..., None], pending: Question) -> None:
    desk = Desk()
    typed("r", "too long")
    await desk.ask(replace(pending, request=pending.request.model_copy(update={"args": LONG})))
    assert [(one.decision, one.note) for one in desk.taken] == [(DecisionKind.REJECT, "too long")]


@pytest.mark.parametrize(
    ("letter", "skips", "parting"),
    [("j", True, Parting.SKIPPED), ("b", True, Parting.LEFT), ("b", False, Parting.LEFT)],
)
async def test_a_question_is_left_for_the_list_or_for_the_next_one(
    typed: Callable[..., None], pending: Question, letter: str, skips: bool, parting: Parting
) -> None:
    desk = Desk()
    typed("?", letter)
    assert await desk.ask(pending, skips=skips) is parting
    assert desk.taken == []
    assert ("go to the next question" in desk.screen.getvalue()) is skips


@pytest.mark.parametrize("line", ["abc", "approve all of it", "a1", "rm", "aa"])
async def test_more_than_a_letter_is_no_answer(typed: Callable[..., None], pending: Question, line: str) -> None:
    desk = Desk()
    typed(line, "b")
    await desk.ask(pending)
    assert "is not an answer" in desk.screen.getvalue()
    assert desk.taken == []


async def test_a_letter_that_means_nothing_decides_nothing(typed: Callable[..., None], pending: Question) -> None:
    desk = Desk()
    typed("j", "y", "", "b")
    await desk.ask(pending)
    assert desk.screen.getvalue().count("is not an answer") == 2
    assert desk.taken == []
