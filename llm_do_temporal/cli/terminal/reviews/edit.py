"""Editing of a reviewed file in a person's editor."""

from __future__ import annotations

import asyncio
import re

from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.errors import DecisionRefused

_ENDING = re.compile(r".*(\.[A-Za-z0-9]{1,10})", re.DOTALL)
"""Ending of a name that an editor knows a language by. Nothing else of a model's name gets onto a command line."""


async def edited_text(review: Review, change: ReviewChange, prompter: Prompter) -> str | None:
    """Return the text of a changed file as the person leaves it; None, told why, where nothing was edited."""
    try:
        text = await asyncio.to_thread(text_before, review, change)
    except DecisionRefused as refused:
        prompter.tell(refused.message)
        return None
    ending = _ENDING.fullmatch(change.path)
    edited = await prompter.edited_file(text, "changed" + (ending[1] if ending else ".txt"))
    if edited == text:
        prompter.tell("nothing was edited")
        return None
    return edited


def text_before(review: Review, change: ReviewChange) -> str:
    """Return the text of a file as it was proposed. Raises DecisionRefused where there is none to edit."""
    if change.change.now is None:
        raise DecisionRefused(f"'{change.path}' was deleted; there is nothing to edit")
    return review.contents.text(change.change.now, change.path)
