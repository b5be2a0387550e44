"""What the questions of reviews are about."""

from __future__ import annotations

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.extensions.review.messages import shown_review
from llm_do_temporal.extensions.review.policy.review import Section


def section(question: Question) -> Section:
    """Return the section that a review asks about."""
    shown = shown_review(question.request)
    assert shown is not None
    return shown.section.section


def digest(question: Question) -> str:
    """Return the digest of the changes that a review asks about."""
    shown = shown_review(question.request)
    assert shown is not None
    return shown.section.digest
