"""Folders in reviews: what is accepted and rejected with one, and answers that make exactly what was chosen."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.extensions.review.client import Review, ReviewChoice
from llm_do_temporal.extensions.review.policy.review import ReviewAnswer, joined
from llm_do_temporal.extensions.review.terminal import choice_words
from llm_do_temporal.policy.layers.layer import folder_node
from tests.support.extensions.review.reviewed import Side, made_review
from tests.support.workshops.layered import MemoryBlobs

FOLDER = folder_node()
SIDES: dict[str, tuple[Side, Side]] = {
    "made": (None, FOLDER),
    "made/deep": (None, FOLDER),
    "made/deep/y": (None, "y"),
    "made/x": (None, "x"),
    "gone": (FOLDER, None),
    "gone/o1": ("1", None),
    "gone/o2": ("2", None),
    "from": (FOLDER, None),
    "from/m": ("moved", None),
    "to": (None, FOLDER),
    "to/m": (None, "moved"),
    "turned": (FOLDER, "a file"),
    "turned/in": ("within", None),
    "opened": ("a file", FOLDER),
    "opened/in": (None, "in"),
    "modes": (FOLDER, folder_node(0o700)),
    "modes/f": ("f", "g"),
    "plain": ("p", "q"),
}
ALL = {path for path in SIDES if path != "from/m"}


@pytest.fixture
def review() -> Review:
    return made_review(MemoryBlobs(), SIDES)


def made(choice: ReviewChoice) -> set[str]:
    """Return the paths that the answer makes in the end, of renamed files the new one."""
    review = choice.review
    paths = joined(review.layer, choice.answer().paths(review.layer))
    return {review.change(path).path for path in paths}


@pytest.mark.parametrize(
    ("names", "left_out"),
    [
        (["made"], {"made", "made/deep", "made/deep/y", "made/x"}),
        (["made/"], {"made", "made/deep", "made/deep/y", "made/x"}),
        (["made/deep"], {"made/deep", "made/deep/y"}),
        (["made/deep/y"], {"made/deep/y"}),
        (["gone"], {"gone", "gone/o1", "gone/o2"}),
        (["gone/o1"], {"gone", "gone/o1"}),
        (["from"], {"from", "to/m"}),
        (["from/"], {"from", "to/m"}),
        (["to"], {"from", "to", "to/m"}),
        (["to/m"], {"from", "to/m"}),
        (["from/m"], {"from", "to/m"}),
        (["turned"], {"turned", "turned/in"}),
        (["turned/in"], {"turned", "turned/in"}),
        (["opened"], {"opened", "opened/in"}),
        (["modes"], {"modes", "modes/f"}),
        (["modes/f"], {"modes/f"}),
        (["made/x", "gone/o2", "made/deep"], {"made/x", "gone/o2", "gone", "made/deep", "made/deep/y"}),
    ],
)
def test_what_is_rejected_is_not_made_by_anything_that_needs_it(
    review: Review, names: list[str], left_out: set[str]
) -> None:
    every = ReviewChoice(review).with_all()
    for order in (names, names[::-1]):
        assert ALL - made(every.with_names(order, accepted=False)) == left_out
        one_by_one = every
        for name in order:
            one_by_one = one_by_one.with_names([name], accepted=False)
        assert ALL - made(one_by_one) == left_out


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("gone", {"gone", "gone/o1", "gone/o2"}),
        ("gone/o1", {"gone/o1"}),
        ("made", {"made"}),
        ("made/deep/y", {"made", "made/deep", "made/deep/y"}),
        ("from", {"from", "to", "to/m"}),
        ("from/m", {"to", "to/m"}),
        ("turned", {"turned", "turned/in"}),
        ("opened/in", {"opened", "opened/in"}),
        ("modes", {"modes"}),
    ],
)
def test_what_is_accepted_is_counted_with_all_that_it_needs(review: Review, name: str, taken: set[str]) -> None:
    choice = ReviewChoice(review).with_names([name], accepted=True)
    assert made(choice) == taken
    assert f"accepts {len(taken)} of {len(review.changes)} changes" in choice_words(choice)
    assert ReviewChoice.of(review, choice.answer()) == choice


def test_a_folder_that_goes_takes_no_conflict_along(review: Review) -> None:
    review = made_review(MemoryBlobs(), SIDES, conflicts={"gone/o1": "somebody else has changed it"})
    choice = ReviewChoice(review).with_names(["gone"], accepted=True)
    assert {path for path in choice.whole if review.by_path[path].conflict} == set()
    with pytest.raises(DecisionRefused, match="cannot be made without 'gone/o1'"):
        choice.answer()
    assert made(choice.with_names(["gone/o1"], accepted=True)) == {"gone", "gone/o1", "gone/o2"}


@pytest.mark.parametrize("path", ["made/x", "gone", "to/m", "opened/in"])
def test_a_choice_that_takes_something_along_is_a_draft_and_no_answer(review: Review, path: str) -> None:
    choice = ReviewChoice(review).with_ticked(review.change(path), ticked=True)
    assert ReviewChoice.of(review, choice.draft()) == choice
    with pytest.raises(DecisionRefused, match="cannot be made without"):
        choice.answer()


def test_an_answer_of_a_program_is_told_with_what_it_makes(review: Review) -> None:
    answer = ReviewAnswer(changes=review.layer.digest(), accept=("gone",))
    told = choice_words(ReviewChoice.of(review, answer).with_taken_along())
    assert told.startswith("accepts 3 of ")


def test_an_edited_file_is_made_in_its_folder_and_in_no_other_place(review: Review) -> None:
    blob = review.contents.keep("mine\n")
    choice = ReviewChoice(review).with_edit(review.change("to/m"), blob)
    assert (choice.whole, choice.edits) == ({"to", "from/m"}, {"to/m": blob})
    assert choice.answer().edits == {"to/m": blob}
    moved = ReviewChoice(review).with_all().with_edit(review.change("to/m"), blob)
    assert moved.state(review.change("from")) == "accepted"
    assert "to" not in moved.with_names(["to"], accepted=False).whole
    assert not moved.with_names(["to"], accepted=False).edits
