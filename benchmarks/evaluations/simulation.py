"""Made-up versions of a worker over made-up cases, and what comparing them says.

A case is easy or hard for both versions: that is why pairs are compared. The chance to pass follows from it through a
logistic curve, a score from 1 to 5 through a sum. Versions are equal where their chances are, not where their answers
are: every answer is a new draw, as answers of models are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from llm_do_temporal.extensions.evaluations.policy.figures import compare_cases, mean_interval, share_interval
from llm_do_temporal.extensions.evaluations.policy.scores import CaseFacts, CaseResult, CaseScore, CaseScores

SPREAD = 1.5
"""Standard deviation of the difficulty of cases, on the scale of the logistic curve."""
PASSED = 0.7
"""Share of its cases that a version passes."""
POINTS = 0.1
"""Real difference of two versions: 10 points of pass and fail."""
SCORE_POINTS = 0.4
"""Real difference of two versions in a score from 1 to 5: 10 points of its range."""
DIFFERENT = ("better", "worse")


@dataclass(frozen=True)
class Version:
    """Version of a worker, by its chances."""

    passing: float
    """Middle of its logistic curve, for a case of middle difficulty."""
    quality: float
    """Its score for a case of middle difficulty."""


@dataclass
class Tally:
    """Counts of what comparisons said."""

    comparisons: int = 0
    different: int = 0
    """Comparisons in which any metric was called better or worse."""
    right: int = 0
    """Comparisons in which the first metric was called better."""
    wrong: int = 0
    """Comparisons in which any metric was called worse."""
    too_few: int = 0
    """Comparisons in which every metric had too few cases."""

    def interval(self, count: int) -> tuple[float, float]:
        """Return the 95 % interval of a share of the comparisons."""
        return share_interval(count / self.comparisons, self.comparisons) or (0.0, 1.0)


def middle_for(passed: float) -> float:
    """Return the middle of the logistic curve at which this share of all cases is passed."""
    low, high = -10.0, 10.0
    grid = [SPREAD * NormalDist().inv_cdf((number + 0.5) / 400) for number in range(400)]
    while high - low > 1e-6:
        middle = (low + high) / 2
        share = sum(_logistic(middle + difficulty) for difficulty in grid) / len(grid)
        low, high = (middle, high) if share < passed else (low, middle)
    return low


def compared(
    cases: int,
    repeats: int,
    versions: tuple[Version, Version],
    *,
    seed: int,
    comparisons: int,
    metrics: Sequence[str] = ("passes",),
) -> Tally:
    """Return what so many comparisons of two versions said; `metrics` are of `passes`, `again` and `score`."""
    tally = Tally()
    for number in range(comparisons):
        chance = random.Random(f"{seed} {number}")
        difficulties = _drawn(cases, chance)
        one, other = ([*_answers(version, difficulties, repeats, metrics, chance)] for version in versions)
        found = compare_cases(one, other, intervals=False).metrics
        verdicts = [metric.verdict for metric in found]
        tally.comparisons += 1
        tally.different += any(verdict in DIFFERENT for verdict in verdicts)
        tally.right += verdicts[0] == "better"
        tally.wrong += "worse" in verdicts
        tally.too_few += all(verdict == "too_few" for verdict in verdicts)
    return tally


def covered(cases: int, *, seed: int, comparisons: int) -> int:
    """Return in how many comparisons the interval of a difference of scores contains the real one, which is 0."""
    count = 0
    for number in range(comparisons):
        chance = random.Random(f"{seed} {number}")
        # Scores of a judge, whole numbers from 1 to 5, of equal versions.
        pairs = [(_score(3.5, case, chance), _score(3.5, case, chance)) for case in _drawn(cases, chance)]
        low, high = mean_interval([other - one for one, other in pairs]) or (0.0, 0.0)
        count += low <= 0 <= high
    return count


def _drawn(cases: int, chance: random.Random) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(cases)]


def _answers(
    version: Version, difficulties: Sequence[float], repeats: int, metrics: Sequence[str], chance: random.Random
) -> Sequence[CaseResult]:
    return [
        CaseResult(
            case=str(number),
            repeat=repeat,
            run="",
            facts=CaseFacts(),
            scores=CaseScores(
                scores=tuple(CaseScore(name=name, value=_value(name, version, difficulty, chance)) for name in metrics)
            ),
        )
        for number, difficulty in enumerate(difficulties)
        for repeat in range(1, repeats + 1)
    ]


def _value(name: str, version: Version, difficulty: float, chance: random.Random) -> bool | float:
    if name == "score":
        return _score(version.quality, difficulty, chance)
    return chance.random() < _logistic(version.passing + SPREAD * difficulty)


def _score(quality: float, difficulty: float, chance: random.Random) -> float:
    return float(min(5, max(1, round(quality + 0.8 * difficulty + chance.gauss(0, 0.7)))))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
