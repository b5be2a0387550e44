"""Plan of a fork before it starts: what is reused, what runs, and what that may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_do_temporal.cli.terminal.run_picture import dollars
from llm_do_temporal.cli.text import name_line, visible_line

if TYPE_CHECKING:
    from llm_do_temporal.client.forks.fork import ForkPlan
    from llm_do_temporal.policy.reuse.estimate import ForkEstimate, Range

_SHOWN_PATHS = 10


def plan_lines(plan: ForkPlan) -> list[str]:
    """Return the plan for people."""
    known = plan.estimate
    turns = "turn" if known.turns == 1 else "turns"
    lines = [f"fork of {visible_line(plan.run)}: reuses {_counts(known.reused)} of {known.turns} {turns}"]
    if known.workers:
        lines.append(f"  runs: {_paths(known.workers)}")
    if known.maybe:
        lines.append(f"  perhaps: {_paths(known.maybe)}")
    if known.unfinished:
        lines.append(
            f"  goes on where the run had no more turns, nobody knows for how long: {_paths(known.unfinished)}"
        )
    if known.is_free:
        return [*lines, "  asks no model anything"]
    told = f"{_counts(known.input_tokens)} tokens in, {_counts(known.output_tokens)} out"
    lines.append(f"  new turns {_counts(known.new)}, {told}, {_cost(known)}")
    if known.questions.high:
        lines.append(f"  questions {_counts(known.questions)}, besides those that nobody has asked yet")
    return lines


def plan_json(plan: ForkPlan) -> dict[str, Any]:
    """Return the plan as an object."""
    known = plan.estimate.model_dump(mode="json", exclude={"cost_low", "cost_high"})
    low, high = plan.estimate.cost_low, plan.estimate.cost_high
    cost = {"low": None if low is None else float(low), "high": None if high is None else float(high)}
    return {"fork_of": plan.run, **known, "cost_usd": cost, "warnings": list(plan.warnings)}


def _counts(amount: Range) -> str:
    return f"{amount.low:,}" if amount.low == amount.high else f"{amount.low:,} to {amount.high:,}"


def _cost(known: ForkEstimate) -> str:
    if known.cost_low is None or known.cost_high is None:
        return "at a price that is not known"
    low, high = dollars(known.cost_low), dollars(known.cost_high)
    return low if low == high else f"{low} to {high}"


def _paths(paths: tuple[str, ...]) -> str:
    shown = ", ".join(name_line(path) for path in paths[:_SHOWN_PATHS])
    return f"{shown} and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else shown
