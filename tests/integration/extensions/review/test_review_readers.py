"""Reviews of real runs as a client reads them: changes, the turn that made them, patches before and after."""

from __future__ import annotations

import pytest

from llm_do_temporal.client import ReviewChoice, read_origin, read_patch
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.review.policy.answer import LineComment
from llm_do_temporal.testing import scripted
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place


async def test_a_review_is_read_and_answered_in_part_and_both_its_patches_are_there(place: Place) -> None:
    main = scripted(write_call("/a.txt"), ["Now the other one.", write_call("/b.txt")], "Done.", "As you like.")
    place.worker("main", main, toolsets=FILESYSTEM, review="changes")
    run = await place.start("main")
    await place.pending(run)

    (review,) = await place.client.reviews(run)
    origins = [await read_origin(place.client, review, change) for change in review.changes]
    assert [(one.invocation, one.turn, one.words) for one in origins] == [
        ("main", 1, ""),
        ("main", 2, "Now the other one."),
    ]
    assert "+++ b/a.txt" in (proposed := await read_patch(place.client, run))
    assert "+++ b/b.txt" in proposed
    choice = ReviewChoice(review).with_change(review.change("b.txt"), accepted=True)
    choice = choice.with_comment(LineComment(path="a.txt", text="leave it out"))
    await place.client.decide_review(review, choice.answer(), by="ada")
    assert (await place.client.result(run)).output == "As you like."

    assert not (place.folder / "a.txt").exists()
    (decided,) = await place.client.reviews(run)
    assert not decided.question.is_open
    assert decided.answer == choice.answer()
    assert "+++ b/a.txt" not in (made := await read_patch(place.client, run))
    assert "+++ b/b.txt" in made
    await place.replay()


async def test_a_run_without_changes_has_no_patch(place: Place) -> None:
    place.worker("main", scripted("Done."), toolsets=FILESYSTEM, review="changes")
    run = await place.start("main")
    await place.client.result(run)
    assert await place.client.reviews(run) == []
    with pytest.raises(UsageError, match="no changes that wait for a review"):
        await read_patch(place.client, run)
