"""Score of a morning: which questions were answered rightly, read from the desks of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from benchmarks.approver.stories import Story, Wish
from llm_do_temporal.client import LlmDoClient, Question


@dataclass(frozen=True)
class Miss:
    """Call that was not answered rightly."""

    run: str
    wish: Wish
    words: str
    """Account of what became of it."""

    def __str__(self) -> str:
        args = {name: str(value)[:60] for name, value in self.wish.args.items()}
        return f"{self.run}: {self.wish.tool} {args}: {self.words}; right is {self.wish.answer}"


@dataclass(frozen=True)
class Score:
    """Answers of a morning, held against the right ones."""

    calls: int
    decided: int
    misses: list[Miss]
    times: list[datetime]
    """Times of all decisions, the first one first."""

    @property
    def right(self) -> int:
        """Number of calls that were answered rightly."""
        return self.calls - len(self.misses)


async def read_score(client: LlmDoClient, told: Sequence[Story]) -> Score:
    """Read what was decided so far."""
    asked = {story.run: await client.questions(story.run) for story in told}
    return score_of(asked, told)


def score_of(asked: dict[str, list[Question]], told: Iterable[Story]) -> Score:
    """Hold the questions of each run against its story."""
    misses: list[Miss] = []
    times: list[datetime] = []
    calls = 0
    for story in told:
        questions = asked[story.run]
        times += [one.verdict.at for one in questions if one.verdict is not None]
        for wish in story.wishes:
            calls += 1
            # A call that was asked about anew counts as it was answered last.
            last = next((one for one in reversed(questions) if _is_of(one, wish)), None)
            if words := _fault(last, wish):
                misses.append(Miss(story.run, wish, words))
    return Score(calls, len(times), misses, sorted(times))


def _is_of(question: Question, wish: Wish) -> bool:
    asked = question.request
    return asked.tool == wish.tool and all(asked.args.get(name) == value for name, value in wish.args.items())


def _fault(question: Question | None, wish: Wish) -> str:
    """Return in words how an answer differs from the right one; empty for the right one."""
    if question is None or question.verdict is None:
        return "not answered"
    verdict = question.verdict
    if verdict.decision != wish.answer:
        return f"{verdict.decision} by {verdict.by or 'somebody'}"
    given = verdict.args or {}
    wrong = [name for name, value in wish.changed.items() if str(given.get(name, "")).rstrip() != str(value).rstrip()]
    kept = [name for name in wish.args if name not in wish.changed and wish.changed]
    wrong += [name for name in kept if given.get(name) != wish.args[name]]
    return f"changed to another {' and '.join(wrong)}" if wrong else ""
