"""The form in which a person agrees to further calls of a kind: the kinds to choose from, and the grant as sent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from starlette.datastructures import FormData

from llm_do_temporal.client import OfferedKind, Question, offered_kinds
from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.kinds.grants import DEFAULT_TIMES, KindGrant
from llm_do_temporal.ui.content.questions import text_of

SPANS = {"10m": "10 minutes", "1h": "1 hour", "8h": "8 hours", "3d": "3 days"}
"""Times to choose from, with their words."""


def kinds_for(question: Question, questions: Sequence[Question]) -> list[OfferedKind]:
    """Return the kinds to choose from; none for a question that is settled, or whose call others have changed.

    `questions` are those of its run.
    """
    if not question.is_open or question.args != question.request.args:
        return []
    return offered_kinds(question, questions)


def grant_of(form: FormData, question: Question) -> KindGrant | None:
    """Return the grant that a sent form asks for; None: it asks for none. Raises UsageError."""
    chosen = text_of(form, "kind")
    if not chosen:
        return None
    named = [offer for offer in kinds_for(question, ()) if offer.kind.sentence == chosen]
    if not named:
        raise UsageError("none of the kinds that fit this call was chosen; look at the question again")
    times, span = text_of(form, "times") or str(DEFAULT_TIMES), text_of(form, "span")
    try:
        return KindGrant.model_validate({"kind": named[0].kind, "times": times, "seconds": span})
    except ValidationError as error:
        raise UsageError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
