"""A model whose price is known, and the cost of one of its turns."""

from __future__ import annotations

from decimal import Decimal

MILLION = 1_000_000
PRICED_MODEL = "openai-chat:gpt-4o"
TURN_COST = Decimal(900 * 2.5 + 100 * 10) / MILLION
"""900 tokens in and 100 out at the prices of gpt-4o, in US dollars."""
