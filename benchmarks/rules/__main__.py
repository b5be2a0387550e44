"""`python -m benchmarks.rules`: rules learned from a month of 1,000 decisions, held against the month and the next one.

Prints a table and exits 1 where a learned rule lets a call through that its person would have refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.rules.month import DECISIONS, Decided, Month, month_of
from llm_do_temporal.extensions.rules.trial import RuleAdvice, advice_on
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.kinds.kind import covering


@dataclass(frozen=True)
class Outcome:
    """Calls of a month that rules answer."""

    saved: int
    wrong: int
    """Calls among them that their person would have refused."""
    asked: int

    @property
    def share(self) -> float:
        """Questions saved, of 100."""
        return 100 * self.saved / self.asked


@dataclass(frozen=True)
class SeedResult:
    """Outcomes of one seed."""

    seed: int
    advice: RuleAdvice
    month: Outcome
    following: Outcome
    naive: Outcome
    """Outcome of the next month, where whatever was approved twice frees its folder, two words or its tool."""
    unwanted: int
    """Calls of both months that their people did not want."""


async def result_of(seed: int, decisions: int = DECISIONS) -> SeedResult:
    """Learn from the first month of a seed, and hold the rules against both."""
    month, following = await month_of(seed, 0, decisions), await month_of(seed, 1, decisions)
    advice = advice_on([one.past for one in month.decided], ApprovalRules())
    return SeedResult(
        seed=seed,
        advice=advice,
        month=outcome_of(advice, month),
        following=outcome_of(advice, following),
        naive=_naive(month, following),
        unwanted=sum(not one.is_wanted for one in (*month.decided, *following.decided)),
    )


def outcome_of(advice: RuleAdvice, month: Month) -> Outcome:
    """Return what the learned entries do to the calls of a month."""
    entries = [one.entry for one in advice.entries]
    passed = [one for one in month.decided if covering(entries, one.past.question.request.call) is not None]
    return _outcome(passed, month)


def _naive(month: Month, following: Month) -> Outcome:
    approved = [_rough(one) for one in month.decided if one.past.answer == "approved"]
    known = {rough for rough in approved if approved.count(rough) > 1}
    return _outcome([one for one in following.decided if _rough(one) in known], following)


def _rough(one: Decided) -> tuple[str, ...]:
    wish = one.wish
    if "path" in wish.args:
        return wish.tool, str(wish.args["path"]).rpartition("/")[0]
    return (wish.tool, *str(wish.args["command"]).split()[:2]) if "command" in wish.args else (wish.tool,)


def _outcome(passed: Sequence[Decided], month: Month) -> Outcome:
    return Outcome(len(passed), sum(not one.is_wanted for one in passed), len(month.decided))


def table(results: Sequence[SeedResult]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| seed | rules | asks saved | wrong | next month saved | wrong | unwanted calls | naive saved, wrong |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.seed} | {len(one.advice.entries)} | {one.month.share:.0f} % | {one.month.wrong} "
        f"| {one.following.share:.0f} % | {one.following.wrong} | {one.unwanted} "
        f"| {one.naive.share:.0f} %, {one.naive.wrong} |"
        for one in results
    ]
    both = [one.month.share for one in results], [one.following.share for one in results]
    wrong = [sum(one.month.wrong for one in results), sum(one.following.wrong for one in results)]
    naive = median(one.naive.share for one in results), sum(one.naive.wrong for one in results)
    lines.append(
        f"| median, sum | {median(len(one.advice.entries) for one in results):.0f} | {median(both[0]):.0f} % "
        f"| {wrong[0]} | {median(both[1]):.0f} % | {wrong[1]} | {sum(one.unwanted for one in results)} "
        f"| {naive[0]:.0f} %, {naive[1]} |"
    )
    return "\n".join(lines)


async def _main(seeds: Sequence[int], decisions: int, *, show: bool) -> int:
    results = [await result_of(seed, decisions) for seed in seeds]
    print(table(results))
    if show:
        for learned in results[0].advice.entries:
            print(f"{learned.entry.kind.sentence}: {learned.entry.why}")
    return 1 if any(one.month.wrong or one.following.wrong for one in results) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds, from 1")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--decisions", type=int, default=DECISIONS, help="decisions of a month")
    parser.add_argument("--show", action="store_true", help="print the rules of the first seed")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    sys.exit(asyncio.run(_main(seeds, given.decisions, show=given.show)))
