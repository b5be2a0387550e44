"""Decisions of this terminal that are held before they take effect, and taking the newest of them back.

Used by the prompts that go from question to question. Leaving them keeps nobody waiting: the desk lets a decision take
effect by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import FrozenQuestion, seconds_until, undo_each
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.login import login_name

_NAMED = 5
"""Most decisions for which the command that takes them back is told on leaving."""


@dataclass(frozen=True)
class HeldAnswer:
    """Answer of a person, about one question or about many, that has not taken effect."""

    questions: tuple[FrozenQuestion, ...]
    until: datetime

    @property
    def name(self) -> str:
        """The question by its id, or the number of them."""
        return visible_line(self.questions[0].id) if len(self.questions) == 1 else f"all {len(self.questions):,}"

    @property
    def seconds(self) -> int:
        """Whole seconds that are left; 0 once its time is over."""
        return seconds_until(self.until)


class Holds:
    """Answers that were given here and have not taken effect."""

    def __init__(self, client: LlmDoClient, seconds: int) -> None:
        """Answers are to be held for so many `seconds`; 0: they take effect at once."""
        self.seconds = seconds
        self._client = client
        self._answers: list[HeldAnswer] = []

    @property
    def newest(self) -> HeldAnswer | None:
        """The newest answer that has not taken effect; None without one."""
        self._answers = [one for one in self._answers if one.seconds]
        return self._answers[-1] if self._answers else None

    @property
    def names(self) -> set[tuple[str, str]]:
        """Run and id of each question whose answer here has not taken effect."""
        return {(question.run, question.id) for one in self._answers if one.seconds for question in one.questions}

    @property
    def offer(self) -> str:
        """The letters that are answers now, for a menu; empty without any."""
        held = self.newest
        return "" if held is None else f"[u]ndo {held.name}, [t]ake effect now ({held.seconds} s)"

    def note(self, questions: Sequence[FrozenQuestion], until: datetime) -> str:
        """Note an answer, and return in words when it takes effect."""
        self._answers.append(HeldAnswer(tuple(questions), until))
        return f"takes effect in {self._answers[-1].seconds} s; u takes it back"

    async def undo(self, tell: Callable[[str], None]) -> set[tuple[str, str]]:
        """Take the newest answer back, and return run and id of each question that is open again."""
        held = self.newest
        if held is None:
            tell("nothing can be taken back any more")
            return set()
        try:
            outcomes = await undo_each(self._client, held.questions, login_name())
        finally:
            # Not before: who lists questions meanwhile still knows what they were.
            self._answers = [one for one in self._answers if one is not held]
        for one in outcomes:
            state = "waits again" if one.is_open else "stands"
            words = f": {visible_line(one.words, 300)}" if one.words else ""
            tell(f"{one.question.id} of {one.question.run} {state}{words}")
        return {(one.question.run, one.question.id) for one in outcomes if one.is_open}

    async def let_go(self, tell: Callable[[str], None]) -> None:
        """Let the newest answer take effect at once."""
        held = self.newest
        if held is None:
            return
        self._answers.remove(held)
        in_effect = 0
        for question in held.questions:
            try:
                await self._client.let_take_effect(question.run, question.undo(login_name()))
            except (DecisionRefused, UsageError) as refused:
                tell(refused.message)
            else:
                in_effect += 1
        if in_effect == len(held.questions):
            tell(f"{held.name}: in effect")
        elif in_effect:
            tell(f"{held.name}: {in_effect} of {len(held.questions)} in effect")

    def farewell(self, command: Callable[[str], str]) -> list[str]:
        """Return what a person who leaves is told: what has yet to take effect, and the commands that take it back."""
        lines = [
            f"{visible_line(one.id)} of {visible_line(one.run)} takes effect in {held.seconds} s; "
            f"`{command(f'undo {one.run} {one.id}')}` takes it back"
            for held in self._answers
            if held.seconds
            for one in held.questions
        ]
        left = len(lines) - _NAMED
        return [*lines[:_NAMED], f"{left:,} more take effect then"] if left > 0 else lines
