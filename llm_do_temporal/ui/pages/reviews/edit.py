"""The page to edit a file of a review before it is accepted: its whole text, and the way back with it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.client.reviews.review import ReviewChange
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.ui.content.forms import MAX_ROWS, keeps_text, with_ends_of
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.reviews.choices import change_at
from llm_do_temporal.ui.pages.queue import inbox_address, kept_query
from llm_do_temporal.ui.pages.reviews.questions import OpenedReview

TEXT = "text"
"""Field with the text of the file."""


async def show_edit(
    request: Request, opened: OpenedReview, choice: ReviewChoice, number: str, *, part: int, note: str
) -> Response:
    """Show the text of a file, to be changed. Raises UsageError, DecisionRefused for one that cannot be edited here."""
    change = change_at(opened.review, number)
    text = await asyncio.to_thread(_text, opened, choice, change)
    return render(
        request,
        "review_edit.html",
        question=opened.review.question,
        digest=text_of(request.state.form, "digest"),
        changes=opened.review.shown.section.digest,
        draft=choice.draft().model_dump_json(),
        change=change,
        number=number,
        text=text,
        rows=min(text.count("\n") + 3, 2 * MAX_ROWS),
        is_edited=change.path in choice.edits,
        part_number=part,
        keeps=choice.rest == "keep",
        note=note,
        inbox=inbox_address(request),
        query=kept_query(request),
    )


async def kept_edit(opened: OpenedReview, choice: ReviewChoice, number: str, form: FormData) -> ReviewChoice:
    """Return the choice with the text that the form has for a file, which is kept. Raises like `show_edit`."""
    change = change_at(opened.review, number)
    before = await asyncio.to_thread(_text, opened, choice, change)
    text = with_ends_of(text_of(form, TEXT), before)
    if text == before:
        return choice
    edited = choice.with_edit(change, await asyncio.to_thread(opened.review.contents.keep, text))
    # The folder of a new file has a box of its own.
    return replace(edited, whole=edited.whole & choice.whole.union(change.change.paths))


async def dropped_edit(opened: OpenedReview, choice: ReviewChoice, number: str, _form: FormData) -> ReviewChoice:
    """Return the choice with a file accepted as the worker wrote it. Raises UsageError."""
    return choice.with_ticked(change_at(opened.review, number), ticked=True)


def _text(opened: OpenedReview, choice: ReviewChoice, change: ReviewChange) -> str:
    edited, now = choice.edits.get(change.path), change.change.now
    if now is None:
        raise DecisionRefused(f"'{change.path}' is gone in this change, so there is nothing to edit")
    contents = opened.review.contents
    text = contents.text(now, change.path) if edited is None else opened.blobs.read(edited).decode()
    if not keeps_text(text):
        raise DecisionRefused(
            f"'{change.path}' has hidden characters or mixed line ends, which a browser would change",
            next_step=f"Edit it in a terminal: `llm-do-temporal review {opened.review.question.run} --edit PATH`.",
        )
    return text
