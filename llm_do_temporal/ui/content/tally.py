"""Number of answers that a person has given in one go, as an address carries it: `3.1.0`. Pure.

A fourth number, where it is there, counts the calls that were agreed to, not carried out and asked about again.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_do_temporal.messages.approvals import DecisionKind

TALLY = "tally"
"""Field of an address with the numbers of approved, changed and rejected calls."""
_KINDS = {
    DecisionKind.APPROVE: "approved",
    DecisionKind.MODIFY: "changed and approved",
    DecisionKind.REJECT: "rejected",
}
_WORDS = (*_KINDS.values(), "not carried out and asked again")
_MOST_DIGITS = 6


def with_one_more(tally: str, kind: DecisionKind) -> str:
    """Return the tally after one more decision of this kind; one that cannot be read counts as empty."""
    counts = _counts(tally)
    counts[list(_KINDS).index(kind)] += 1
    return _written(counts)


def with_one_less(tally: str, kind: DecisionKind) -> str:
    """Return the tally after a decision of this kind was taken back."""
    counts, place = _counts(tally), list(_KINDS).index(kind)
    counts[place] = max(counts[place] - 1, 0)
    return _written(counts)


def with_asked_again(tally: str, kind: DecisionKind) -> str:
    """Return the tally once the call of a decision of this kind is asked about again, which was not carried out."""
    counts, place = _counts(tally), list(_KINDS).index(kind)
    if counts[place]:
        counts[place], counts[-1] = counts[place] - 1, counts[-1] + 1
    return _written(counts)


def answered(query: Mapping[str, str]) -> str:
    """Return in words what the tally in an address says; empty without one."""
    counts = _counts(query.get(TALLY, ""))
    told = [f"{count} {word}" for count, word in zip(counts, _WORDS, strict=True) if count]
    total = sum(counts)
    return f"{total} {'question' if total == 1 else 'questions'} answered: {', '.join(told)}" if total else ""


def _counts(tally: str) -> list[int]:
    numbers = tally.split(".")
    is_known = len(numbers) in (len(_KINDS), len(_WORDS))
    if not is_known or not all(one.isascii() and one.isdecimal() and len(one) <= _MOST_DIGITS for one in numbers):
        return [0] * len(_WORDS)
    return [int(one) for one in (*numbers, "0")][: len(_WORDS)]


def _written(counts: list[int]) -> str:
    return ".".join(map(str, counts if counts[-1] else counts[:-1]))
