"""Options of `review` that answer it, and the choice that they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from llm_do_temporal.cli.options import check_digest
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.redaction.hidden_characters import shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_do_temporal.client.reviews.choice import ReviewChoice
    from llm_do_temporal.client.reviews.review import Review, ReviewChange

_ANSWER = Group("Answer", sort_key=1)
_FEWEST_DIGITS = 4
"""Shortest beginning of a hunk's id that may stand for the whole of it."""
_LINE = re.compile(r"([1-9][0-9]{0,8}):(.*)", re.DOTALL)
_Several = Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)]


@Parameter(name="*", group=_ANSWER)
@dataclass(frozen=True, kw_only=True)
class ReviewOptions:
    """Answer to a review as it was typed. All of it is one answer: what it does not accept is not accepted."""

    all: Annotated[
        bool, Parameter(name="--all", help="Accept every change that is no conflict, but those named with --reject.")
    ] = False
    accept: Annotated[
        _Several, Parameter(help="Accept these: PATH, FOLDER/ with all below it, or PATH:HUNK for a part of a file.")
    ] = ()
    reject: Annotated[
        _Several, Parameter(help="With --all or --accept: but not these: PATH, a folder with all in it, or PATH:HUNK.")
    ] = ()
    edit: Annotated[_Several, Parameter(help="Edit these files in $EDITOR; each is accepted as you leave it.")] = ()
    comment: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(), help="Remark that the model is told: PATH:TEXT, or PATH:LINE:TEXT with a line's number."
        ),
    ] = ()
    keep_rest: Annotated[
        bool,
        Parameter(name="--keep-rest", help="What is not accepted stays in the layer, instead of going back."),
    ] = False
    reject_all: Annotated[
        str | None, Parameter(name="--reject-all", help="Accept nothing, with this reason for the model.")
    ] = None

    @property
    def accepts(self) -> bool:
        """Whether it may accept something, or sends remarks."""
        return bool(self.all or self.accept or self.reject or self.edit or self.comment or self.keep_rest)

    @property
    def answers(self) -> bool:
        """Whether the review is to be answered at all."""
        return self.accepts or self.reject_all is not None

    def check(self, digest: str | None) -> None:
        """Raise UsageError for options that do not go together, or a digest of what is asked that is too short."""
        check_digest(digest)
        if self.reject_all is not None and self.accepts:
            raise UsageError("--reject-all accepts nothing and sends no remarks; give it alone")
        if self.reject_all is not None and not self.reject_all.strip():
            raise UsageError("--reject-all needs a reason, which the model is told")
        if self.reject and not (self.all or self.accept):
            raise UsageError(
                "--reject says what is left out of what is accepted",
                next_step="Add --all for everything else, or --accept PATH.",
            )
        if self.keep_rest and not (self.all or self.accept or self.edit or self.comment):
            raise UsageError("--keep-rest says nothing about what is accepted", next_step="Add --accept or --comment.")


def chosen_parts(review: Review, options: ReviewOptions) -> ReviewChoice:
    """Return the choice that the options name, but for edits. Blocks; raises DecisionRefused."""
    from llm_do_temporal.client.reviews.choice import ReviewChoice, check_parts

    accept, reject = _names(review, options.accept), _names(review, options.reject)
    edited = [review.meant(name) for name in options.edit]
    choice = ReviewChoice(review, rest="keep" if options.keep_rest else "drop")
    choice = (choice.with_all() if options.all else choice).with_names(accept.whole, accepted=True)
    for change, digits in accept.hunks:
        choice = _with_hunk(choice, change, digits, accepted=True)
    choice = choice.with_changes(edited, accepted=True).with_names(reject.whole, accepted=False)
    for change, digits in reject.hunks:
        choice = _with_hunk(choice, change, digits, accepted=False)
    for text in options.comment:
        choice = _with_comment(choice, text)
    in_part = [change.path for change, _ in accept.hunks]
    check_parts(
        choice,
        everything=options.all,
        accept=[*accept.whole, *(in_part if options.all else ())],
        in_part=() if options.all else in_part,
        edited=[change.path for change in edited],
    )
    return choice


@dataclass(frozen=True)
class _Names:
    """Names of one option."""

    whole: list[str]
    """Paths, and folders with `/`."""
    hunks: list[tuple[ReviewChange, str]]
    """Parts of files, each as the beginning of a hunk's id."""


def _names(review: Review, names: Sequence[str]) -> _Names:
    """Return what names stand for, as they were typed. Raises DecisionRefused."""
    found = _Names([], [])
    for name in names:
        head, colon, hunk = name.rpartition(":")
        is_part = bool(colon and not name.endswith("/") and review.names.meant(head))
        if is_part and not review.names.meant(name):
            found.hunks.append((review.meant(head), hunk))
        elif is_part and not name.startswith("./"):
            raise DecisionRefused(
                f"'{name}' is a changed file, and may mean a part of '{head}'",
                next_step=f"Write './{name}' for the file; for the part answer in the terminal or on the page.",
            )
        else:
            found.whole.append(review.exact_name(name))
    return found


def _with_hunk(choice: ReviewChoice, change: ReviewChange, digits: str, *, accepted: bool) -> ReviewChoice:
    diff = choice.review.diff(change)
    known = [hunk.id for hunk in diff.hunks] if diff.is_divisible else []
    if not known:
        raise DecisionRefused(f"'{change.path}' cannot be accepted in parts; it is accepted as a whole, or not at all")
    found = [one for one in known if one.startswith(digits)] if len(digits) >= _FEWEST_DIGITS else []
    if len(found) != 1:
        raise DecisionRefused(
            f"'{digits[:80]}' names no single hunk of '{change.path}'",
            next_step=f"It has: {', '.join(known[:20])}.",
        )
    before = known if choice.state(change) == "accepted" else choice.parts.get(change.path, ())
    ids = {*before, found[0]} if accepted else {*before} - {found[0]}
    return choice.with_hunks(change, ids, known)


def _with_comment(choice: ReviewChoice, text: str) -> ReviewChoice:
    from pydantic import ValidationError

    from llm_do_temporal.extensions.review.policy.answer import LineComment

    heads = [text[: colon.start()] for colon in re.finditer(":", text)]
    found = {path: head for head in heads for path in choice.review.names.meant(head)}
    if not found:
        raise DecisionRefused(
            f"--comment '{text[:80]}' begins with no path among the changes",
            next_step="Write it like --comment 'src/a.py:12: why twice?'.",
        )
    if len(found) > 1:
        raise DecisionRefused(
            f"--comment '{text[:80]}' may be about {' or '.join(map(shown_name, sorted(found)[:3]))}",
            next_step="Comment on it in the terminal or on the page.",
        )
    ((path, head),) = found.items()
    words = text[len(head) + 1 :]
    numbered = _LINE.fullmatch(words)
    line, said = (int(numbered[1]), numbered[2]) if numbered else (None, words)
    try:
        return choice.with_comment(LineComment(path=path, line=line, text=said.strip()))
    except ValidationError:
        raise UsageError(f"the remark on '{shown_name(path)}' is empty, or has more than 4,000 characters") from None


def with_edited(choice: ReviewChoice, change: ReviewChange, text: str) -> ReviewChoice:
    """Return the choice with a file as a person has edited it. Blocks: the text goes into the blob store."""
    return choice.with_edit(change, choice.review.contents.keep(text))
