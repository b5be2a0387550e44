"""The question that was answered just before, which an address names, and the way back to a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.requests import Request

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.errors import LlmDoError

ANSWERED_LAST = "did"
"""Field of an address with the run and the id, `RUN/a1`, of the question that was answered before this one."""


async def answered_last(request: Request, known: Mapping[str, Sequence[Question]]) -> Question | None:
    """Return the question that the address says was answered last, as it stands now; None without one.

    `known` has the questions of runs that were read already.
    """
    run, _, approval = request.query_params.get(ANSWERED_LAST, "").rpartition("/")
    if not run:
        return None
    client: LlmDoClient = request.app.state.client
    try:
        questions = known[run] if run in known else await client.questions(run)
    except LlmDoError:
        return None
    return next((one for one in questions if one.id == approval), None)


def own_address(text: str) -> str | None:
    """Return the address of a page of ours that a form names; None for any other."""
    if not text.isascii() or not text.isprintable() or "\\" in text or not text.startswith("/"):
        return None
    parts = urlsplit(text)
    is_ours = not parts.scheme and not parts.netloc and not text.startswith("//")
    return text if is_ours and (parts.path == "/" or parts.path.startswith("/runs/")) else None
