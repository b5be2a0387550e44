"""Parts of a review as people and programs name them: what contradicts itself is refused. Pure."""

from __future__ import annotations

from collections.abc import Collection

from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.errors import UsageError


def check_parts(
    choice: ReviewChoice,
    *,
    everything: bool,
    accept: Collection[str],
    in_part: Collection[str] = (),
    edited: Collection[str] = (),
) -> None:
    """Raise UsageError where the parts that a choice was made of contradict each other, or it accepts nothing.

    `everything` says whether all changes were accepted first. `accept` has the names of what is accepted as a whole,
    with `/` at the end of a folder's; `in_part` and `edited` have paths.
    """
    review = choice.review
    for path in in_part:
        if path in accept or path in edited:
            other = "as a whole" if path in accept else "as edited"
            raise UsageError(f"'{path}' is accepted in part and {other}", next_step="Choose one of the two.")
    for name in accept if everything else ():
        if name.endswith("/") or not review.change(name).conflict:
            raise UsageError(
                f"all changes are accepted, and '{name}' is named besides",
                next_step="Accept all, or only what is named; beside all, name conflicts, and what is rejected.",
            )
    for name in (*accept, *in_part, *edited):
        if all(choice.state(one) == "not accepted" for one in review.named(name, accepted=True)):
            raise UsageError(
                f"'{name}' is accepted, and rejected by its own name, its folder's, or that of what it needs",
                next_step="Choose one of the two.",
            )
    if not (choice.whole or choice.parts or choice.edits or choice.comments):
        raise UsageError("it accepts nothing, and says no reason", next_step="Reject all of it, with a reason.")
