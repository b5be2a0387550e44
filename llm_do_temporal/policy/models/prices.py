"""Prices of models that a workshop states: of servers of its own, and of contracts that no price list has.

Pure. Prices in US dollars come from a list that Pydantic AI brings along, where a workshop states none.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from llm_do_temporal.policy.values import Value

FREE = "free"
"""Text that stands for a price of nothing."""
_TOKENS = 1_000_000
"""Tokens for which a price is stated."""


def _read_amount(value: Any) -> Any:
    """Return a number, or a number's text, as a Decimal; any other value as it is. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"'{str(value)[:40]}' is not a number of US dollars, like 0.25") from error


Dollars = Annotated[
    Decimal,
    Field(ge=0, le=1_000_000, allow_inf_nan=False),
    BeforeValidator(_read_amount, json_schema_input_type=float | str),
]
"""US dollars for a million tokens."""


class Price(Value):
    """Price of a model, in US dollars for a million tokens; the text `free` is short for nothing."""

    input: Dollars
    """Tokens that the model is told."""
    output: Dollars
    """Tokens that the model writes."""
    cache_read: Dollars | None = Field(default=None, exclude_if=lambda value: value is None)
    """Tokens that the server had in its cache; None: the price of `input`."""
    cache_write: Dollars | None = Field(default=None, exclude_if=lambda value: value is None)
    """Tokens that the server put into its cache; None: the price of `input`."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if value == FREE:
            return {"input": Decimal(0), "output": Decimal(0)}
        if isinstance(value, str | int | float):
            raise ValueError("a price is `free`, or has keys: {input: 0.15, output: 0.60}, for a million tokens")
        return value

    def cost_of(self, *, told: int, written: int, cache_read: int = 0, cache_write: int = 0) -> Decimal:
        """Return the US dollars for a turn; `told` counts the tokens that were read from a cache, or put there, too."""
        plain = max(told - cache_read - cache_write, 0)
        dear = (
            plain * self.input
            + cache_read * (self.input if self.cache_read is None else self.cache_read)
            + cache_write * (self.input if self.cache_write is None else self.cache_write)
            + written * self.output
        )
        return dear / _TOKENS


NOTHING_TO_PAY = Price(input=Decimal(0), output=Decimal(0))
"""Price of models that are scripts."""
