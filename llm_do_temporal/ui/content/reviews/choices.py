"""Choices in a review as the forms of its page carry them: nothing is kept between two requests. Pure.

A form has all that was chosen before as an answer, and boxes for the files that it shows; boxes win.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError
from starlette.datastructures import FormData

from llm_do_temporal.client.reviews.choice import ReviewChoice, listed
from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.layers.answer import LineComment, ReviewAnswer


def first_choice(review: Review) -> ReviewChoice:
    """Return the choice that a page begins with: what was decided, else what approving would agree to. Raises
    UsageError, DecisionRefused."""
    question = review.question
    decided = question.verdict or (question.held and question.held.vote)
    if decided and decided.decision is DecisionKind.REJECT:
        return ReviewChoice(review)
    answer = ReviewAnswer.model_validate(decided.args) if decided else review.answer
    return ReviewChoice.of(review, answer).with_taken_along()


def sent_choice(review: Review, form: FormData) -> ReviewChoice:
    """Return the choice of a sent form. Raises UsageError for what is no such form, DecisionRefused for a stale one."""
    if form.get("changes") != review.shown.section.digest:
        raise DecisionRefused("the form is about other changes than this question", next_step="Look at it again.")
    try:
        answer = ReviewAnswer.model_validate_json(str(form.get("draft", "")))
    except ValidationError:
        raise UsageError("the form does not say what was chosen before; load the page again") from None
    choice = ReviewChoice.of(review, answer)
    taken = set(form.getlist("take"))
    known, ticked = _parts(form, "part-shown"), _parts(form, "part")
    shown = [change_at(review, str(number)) for number in form.getlist("shown")]
    for number, change in zip(form.getlist("shown"), shown, strict=True):
        choice = _boxed(choice, change, number in taken, known.get(str(number), []), ticked.get(str(number), []))
    comments = [one for one in choice.comments if all(one.path != change.path for change in shown)]
    comments += _comments(review, form)
    return replace(choice, comments=tuple(comments), rest="keep" if "keep" in form else "drop")


def change_at(review: Review, number: str) -> ReviewChange:
    """Return the change that a form or an address names by its place in the review. Raises UsageError."""
    return review.changes[number_of(review, number)]


def number_of(review: Review, number: str) -> int:
    """Return the place of a change in the review that a form or an address names. Raises UsageError."""
    if number.isascii() and number.isdigit() and len(number) < 9 and int(number) < len(review.changes):
        return int(number)
    raise UsageError(f"the review has no change '{number[:20]}'; load the page again")


def all_of(choice: ReviewChoice) -> ReviewChoice:
    """Return the choice with everything accepted that is no conflict; edits stay."""
    for path in choice.parts:
        choice = choice.with_ticked(choice.review.change(path), ticked=True)
    return choice.with_all()


def none_of(choice: ReviewChoice) -> ReviewChoice:
    """Return the choice with nothing accepted; comments stay."""
    return replace(choice, whole=frozenset[str](), parts={}, edits={})


def check_whole(choice: ReviewChoice) -> None:
    """Raise DecisionRefused where a choice takes along what nobody has chosen, such as the folder of a new file."""
    if not (choice.whole or choice.parts or choice.edits):
        raise DecisionRefused(
            "nothing is chosen", next_step="Tick what is accepted, ask for changes, or reject all with a reason."
        )
    if along := choice.taken_along:
        raise DecisionRefused(
            f"what is ticked cannot be made without {listed(along)}",
            next_step="Tick these, too, or untick the others.",
        )


def comments_as_text(choice: ReviewChoice) -> str:
    """Return the comments line by line, for a rejection, which has no answer that could hold them."""
    return "\n".join(f"{one.path}{f':{one.line}' if one.line else ''}: {one.text}" for one in choice.comments)


def _boxed(
    choice: ReviewChoice, change: ReviewChange, taken: bool, known: list[str], ticked: list[str]
) -> ReviewChoice:
    state = choice.state(change)
    if not taken:
        return choice if state == "not accepted" else choice.with_ticked(change, ticked=False)
    if state == "edited":
        return choice
    if known:
        return choice.with_hunks(change, ticked, known)
    # A file whose parts are not on the page stays as it was chosen.
    return choice if state in ("accepted", "in part") else choice.with_ticked(change, ticked=True)


def _parts(form: FormData, name: str) -> dict[str, list[str]]:
    """Return the ids of hunks that a form names, by the number of their file."""
    found: dict[str, list[str]] = {}
    for value in form.getlist(name):
        number, _, hunk = str(value).partition(" ")
        found.setdefault(number, []).append(hunk)
    return found


def _comments(review: Review, form: FormData) -> list[LineComment]:
    found: list[LineComment] = []
    fields = (form.getlist(name) for name in ("comment-on", "comment-line", "comment-text"))
    for number, line, text in zip(*fields, strict=False):
        words = str(text).replace("\r\n", "\n").strip()
        if not words:
            continue
        path, at = change_at(review, str(number)).path, str(line).strip()
        if at and not (at.isascii() and at.isdigit() and 0 < len(at) < 9 and int(at)):
            raise UsageError(f"the line of a comment on '{path}' is a number from 1, or nothing for the whole file")
        try:
            found.append(LineComment(path=path, line=int(at) if at else None, text=words))
        except ValidationError:
            raise UsageError(f"a comment on '{path}' has {len(words)} characters; at most 4,000 fit") from None
    return found
