"""`python -m benchmarks.evaluations`: how often equal versions are called different, and different ones are found.

Prints two tables and exits 1 where equal versions are called different more often than in 5 of 100 comparisons, by more
than chance explains. `--comparisons` is their number for each line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from benchmarks.evaluations.simulation import (
    PASSED,
    POINTS,
    SCORE_POINTS,
    Tally,
    Version,
    compared,
    covered,
    middle_for,
)
from llm_do_temporal.extensions.evaluations.policy.figures import LEVEL, share_interval

CASES = (20, 50, 200)
REPEATS = (1, 3)
METRICS = ("passes", "again", "score")
QUALITY = 3.5
SEED = 18


def equal_lines(comparisons: int, cases: Sequence[int]) -> Iterator[tuple[str, Tally]]:
    """Yield lines about equal versions, each with the counts behind it."""
    version = Version(middle_for(PASSED), QUALITY)
    for count in cases:
        tally = compared(count, 1, (version, version), seed=SEED, comparisons=comparisons, metrics=METRICS)
        inside = covered(count, seed=SEED + 1, comparisons=comparisons)
        coverage = f"{100 * inside / comparisons:.1f} %"
        yield f"| {count} | {_share(tally, tally.different)} | {coverage} |", tally


def power_lines(comparisons: int, cases: Sequence[int]) -> Iterator[tuple[str, Tally]]:
    """Yield lines about a real difference of 10 points, each with the counts behind it."""
    versions = (
        Version(middle_for(PASSED), QUALITY),
        Version(middle_for(PASSED + POINTS), QUALITY + SCORE_POINTS),
    )
    for count in cases:
        for repeats in REPEATS:
            passes = compared(count, repeats, versions, seed=SEED + 2, comparisons=comparisons)
            scores = compared(count, repeats, versions, seed=SEED + 3, comparisons=comparisons, metrics=("score",))
            wrong = 100 * (passes.wrong + scores.wrong) / (2 * comparisons)
            found = f"{_share(passes, passes.right)} | {_share(scores, scores.right)}"
            yield f"| {count} | {repeats} | {found} | {wrong:.1f} % |", passes


def _share(tally: Tally, count: int) -> str:
    low, high = tally.interval(count)
    return f"{100 * count / tally.comparisons:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 where equal versions are called different too often."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluations")
    parser.add_argument("--comparisons", type=int, default=1_000)
    comparisons: int = parser.parse_args(arguments).comparisons
    failed = False
    print(f"Equal versions, three metrics, {comparisons} comparisons a line:\n")
    print("| cases | any metric is called different | 95 % interval contains the truth |\n|---|---|---|")
    for line, tally in equal_lines(comparisons, CASES):
        print(line, flush=True)
        low = share_interval(tally.different / comparisons, comparisons)
        failed |= low is not None and low[0] > LEVEL
    print(f"\nA real difference of 10 points, one metric, {comparisons} comparisons a line:\n")
    print("| cases | repeats | found in pass and fail | found in a score | called worse |\n|---|---|---|---|---|")
    for line, _tally in power_lines(comparisons, CASES):
        print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
