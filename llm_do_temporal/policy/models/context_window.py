"""Context window: the newest part of a long conversation that fits a model."""

from __future__ import annotations

from collections.abc import Sequence

CHARACTERS_PER_TOKEN = 4
"""Characters per token: a rough measure for European languages and code, as each model counts differently."""


def first_kept(sizes: Sequence[int], max_tokens: int | None) -> int:
    """Return how many of the oldest parts of a conversation are left out.

    `sizes` are the characters of its parts, oldest first. Where all of them have more than `max_tokens`, the oldest are
    left out until half of that is reached, and no more until it has grown past it again: so the rest begins with the
    same words for many turns, which makes it cheap. The newest part always stays.
    """
    if max_tokens is None:
        return 0
    most = max_tokens * CHARACTERS_PER_TOKEN
    first = kept = 0
    for place, size in enumerate(sizes):
        kept += size
        if kept > most:
            while kept > most // 2 and first < place:
                kept -= sizes[first]
                first += 1
    return first
