"""Answers that stopped before their end: the reasons, on the wire and in words."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

CutReason: TypeAlias = Literal["length", "content_filter"]
"""Reason why an answer has no end: a limit of its length (`max_tokens`, the context window), or a content filter."""
CUT = "llm_do_cut"
"""The only argument of a call in which its answer was cut: the reason."""
_WORDS: dict[str, str] = {
    "length": "the answer was cut off at its provider's limit",
    "content_filter": "the answer was cut off by its provider's content filter",
}


def cut_words(reason: Any) -> str:
    """Return a clause that says why an answer was cut."""
    return _WORDS.get(reason, "the answer was cut off") if isinstance(reason, str) else "the answer was cut off"


def cut_reason(finish_reason: str | None) -> CutReason | None:
    """Return the reason of a cut by the normalised finish reason of an answer; None: it was not cut."""
    if finish_reason == "length" or finish_reason == "content_filter":
        return finish_reason
    return None
