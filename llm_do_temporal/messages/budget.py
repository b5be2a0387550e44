"""Budgets: usage of models, waits of questions, the limits of one invocation, and signals between it and the desk."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_empty, is_none
from llm_do_temporal.policy.budget import NOTHING, Amounts

REPORT_SPENDING_SIGNAL = "report_spending"
"""Signal from an invocation to the desk; carries a Report."""
GRANT_SPENDING_SIGNAL = "grant_spending"
"""Signal from the desk to an invocation; carries an Action."""


class Saved(Message):
    """Amounts that another run has spent, and a fork of it has not."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    """US dollars for the turns whose price is known; None if there was no such turn."""

    def plus(self, other: Saved | None) -> Saved:
        """Return the sum of both; None: nothing more."""
        if other is None:
            return self
        return Saved(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
        )


class Usage(Message):
    """Requests, tool calls, tokens and money that were spent; adds up over a tree."""

    requests: int = 0
    tool_calls: int = 0
    """Calls that models asked for, whatever became of them; giving a structured result is none."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    """US dollars for the turns whose price is known; None if there was no such turn."""
    unpriced: tuple[str, ...] = ()
    """Models of the turns whose price is not known."""
    costs: dict[str, Decimal] = Field(default_factory=dict, exclude_if=is_empty)
    """US dollars by model, of those that cost something."""
    estimated: int = 0
    """Turns whose tokens the provider did not say, or not believably: they are estimated, and counted."""
    saved: Saved | None = Field(default=None, exclude_if=is_none)
    """Amounts that a fork has reused instead of spending them; None: none."""

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            unpriced=tuple(sorted({*self.unpriced, *other.unpriced})),
            costs=_sums(self.costs, other.costs),
            estimated=self.estimated + other.estimated,
            saved=other.saved if self.saved is None else self.saved.plus(other.saved),
        )

    @property
    def tokens_line(self) -> str:
        """The tokens, for people."""
        said = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out"
        turns = "turn" if self.estimated == 1 else "turns"
        return f"{said} ({self.estimated} {turns} estimated)" if self.estimated else said


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """Return the sum of the amounts that are known; None if neither is."""
    return other if one is None else one if other is None else one + other


def _sums(some: Mapping[str, Decimal], others: Mapping[str, Decimal]) -> dict[str, Decimal]:
    return {name: some.get(name, NOTHING) + others.get(name, NOTHING) for name in sorted({*some, *others})}


class Waits(Message):
    """Questions that were decided, by people or because time was up, and the time that they waited."""

    questions: int = 0
    seconds: int = 0
    """Seconds that all of them waited, together."""
    longest: int = 0
    """Seconds that the one waited that waited longest."""

    def plus(self, other: Waits) -> Waits:
        """Return the sum of both."""
        return Waits(
            questions=self.questions + other.questions,
            seconds=self.seconds + other.seconds,
            longest=max(self.longest, other.longest),
        )


class Spending(Message):
    """State of an invocation's limits; a continued workflow goes on from it."""

    spent: Amounts = Amounts()
    """Amounts that the invocation spent itself, its calls of other workers among them."""
    holds: Amounts = Amounts()
    """Amounts granted and not spent. While a turn is under way, with what it holds of tokens and money."""
    grants: int = 0
    """Grants received."""
    in_turn: bool = False
    """Whether a turn was begun and has not ended."""
    recalled: bool = False
    """Whether others are short: nothing is kept that is not needed at once."""
    turn: Amounts | None = None
    """Tokens and cost of its largest turn."""
    times: dict[str, int] = Field(default_factory=dict)
    """Seconds that a person agreed to instead of a limit on time, by account."""
    unpriced: tuple[str, ...] = ()
    """Models of its own turns whose price is not known."""
    tree_cost: Decimal | None = None
    """US dollars for all turns with a known price, those below included; None: there was none."""
    tree_unpriced: tuple[str, ...] = ()
    """Models without a known price, those below included."""
    tree_costs: dict[str, Decimal] = Field(default_factory=dict, exclude_if=is_empty)
    """US dollars by model, those below included."""
