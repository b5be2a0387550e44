"""The place of a batch of 500 decks. The command does not exist yet; the measurement comes with it."""

from __future__ import annotations

from benchmarks.running import run_alone
from benchmarks.table import Row


async def measure(quick: bool) -> list[Row]:
    """Says that there is nothing to measure."""
    return [Row("a batch of 500 decks", {"ours": "not built"})]


if __name__ == "__main__":
    run_alone(measure)
