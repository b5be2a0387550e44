"""Question that asks for a review, on the terminal: its counts and tree instead of its arguments."""

from __future__ import annotations

from rich.text import Text

from llm_do_temporal.cli.terminal.pictures.question import FittedQuestion
from llm_do_temporal.cli.terminal.pictures.review import change_lines, overview_lines
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.reviews.review import Review
from llm_do_temporal.errors import LlmDoError

EXPLAINED = """\
  a  accept every change that is no conflict, as the review proposes it
  w  walk through the changes: accept, refuse, edit or remark on each part
  r  reject all of it, with a reason that the model is told
  v  show all changed lines
  x  stop the whole run, after one more question"""
"""Letters that answer a review, and what they do."""


async def read_review(client: LlmDoClient, question: Question, prompter: Prompter) -> Review | None:
    """Return the review that a question asks for; None where it asks for none, or, told why, it cannot be read."""
    if question.request.review is None:
        return None
    try:
        return next((one for one in await client.reviews(question.run) if one.question.id == question.id), None)
    except LlmDoError as error:
        prompter.tell(f"the changes cannot be shown: {error.message}\n{error.next_step or ''}")
        return None


def fit_review(review: Review, width: int, height: int, *, others: int = 0) -> FittedQuestion:
    """Return head and tree of a review in at most `height` lines; its changed lines are unread after that."""
    lines = overview_lines(review, width, height - 1)
    more = [Text(f"  {others:,} more {'question waits' if others == 1 else 'questions wait'}")] if others else []
    return FittedQuestion([*lines, *more], len(review.changes))


def review_text(review: Review, width: int) -> str:
    """Return the whole review with all changed lines, as plain text. Blocks: every file is read."""
    lines = overview_lines(review, width)
    for change in review.changes:
        lines += [Text(), *change_lines(change, review.diff(change), width)]
    return "\n".join(line.plain.rstrip() for line in lines)
