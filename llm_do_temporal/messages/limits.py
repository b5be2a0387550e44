"""Limits on the wire: how an invocation stands, and the names of the signals between invocations and the desk."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field

from llm_do_temporal.messages.base import Message
from llm_do_temporal.policy.budget.limits import Amounts

REPORT_SPENDING_SIGNAL = "report_spending"
"""From an invocation to the desk; carries a Report."""
GRANT_SPENDING_SIGNAL = "grant_spending"
"""From the desk to an invocation; carries an Action."""


class Spending(Message):
    """How an invocation stands; a continued workflow goes on from it."""

    spent: Amounts = Amounts()
    """By itself, its calls of other workers among them."""
    holds: Amounts = Amounts()
    """Granted and not spent. While a turn is under way, with what it holds of tokens and money."""
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
