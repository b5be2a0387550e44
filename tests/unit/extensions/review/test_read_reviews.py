"""Reviews as a client sees them: changes, contents on demand, decisions about what was shown."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.errors import DecisionRefused, EffectFailed, UsageError
from llm_do_temporal.extensions.review.client import (
    MAX_SHOWN_BYTES,
    Preview,
    Review,
    ReviewChoice,
    decide_review,
    reviews_of,
)
from llm_do_temporal.extensions.review.policy.review import LineComment, ReviewAnswer, Section
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.layers.layer import folder_node, link_node
from tests.support.extensions.review.reviewed import (
    EDITED_NOVEL,
    NOVEL,
    ReviewedRun,
    Side,
    made_manifest,
    made_review,
    made_reviews,
)
from tests.support.workshops.layered import MemoryBlobs

PNG = b"\x89PNG\r\n\x1a\n\0picture"


class CountedBlobs(MemoryBlobs):
    """Blob store that counts the blobs that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read(self, sha256: str) -> bytes:
        self.reads += 1
        return super().read(sha256)


@pytest.fixture
def blobs() -> CountedBlobs:
    return CountedBlobs()


@pytest.fixture
def review(blobs: CountedBlobs) -> Review:
    sides: dict[str, tuple[Side, Side]] = {
        "README.md": ("old\n", "new\n"),
        "src/novel.txt": (NOVEL, EDITED_NOVEL),
        "src/new/one.txt": (None, "1\n"),
        "src/new/two.txt": (None, "2\n"),
        "src/new": (None, folder_node()),
        "gone.txt": ("bye\n", None),
    }
    return made_review(blobs, sides)


@pytest.mark.thorough
def test_ten_thousand_changes_are_one_blob_and_files_are_read_when_somebody_looks(blobs: CountedBlobs) -> None:
    sides: dict[str, tuple[Side, Side]] = {f"src/{n % 100}/{n}.txt": (None, f"{n}\n") for n in range(10_000)}

    review = made_review(blobs, sides)
    tree = review.tree()

    assert (len(review.changes), tree.total, blobs.reads) == (10_000, 10_000, 1)
    assert len(review.as_json(lines=False)["changes"]) == 10_000
    assert blobs.reads == 1
    assert review.diff(review.change("src/7/7.txt")).added == 1
    assert blobs.reads == 2


def test_the_tree_has_every_change_in_its_folder(review: Review) -> None:
    tree = review.tree()

    assert [one.path for one in tree.changes] == ["README.md", "gone.txt"]
    (src,) = tree.folders
    assert ([one.path for one in src.changes], [one.path for one in src.folders]) == (
        ["src/new", "src/novel.txt"],
        ["src/new"],
    )
    assert [one.path for one in src.folders[0].changes] == ["src/new/one.txt", "src/new/two.txt"]


@pytest.mark.thorough
def test_a_path_deeper_than_any_stack_is_one_row(blobs: CountedBlobs) -> None:
    deep = "a/" * 1_700
    stairs = {f"{'b/' * depth}x": (None, "") for depth in range(1, 1_050)}
    review = made_review(blobs, {f"{deep}x": (None, "1"), **stairs})

    rows = list(review.tree().rows())

    assert [(depth, one.path) for depth, one in rows[:2]] == [(0, deep[:-1]), (1, f"{deep}x")]
    assert (rows[-1][0], len(rows)) == (1, 2 + 2 * 1_049)
    assert max(depth for depth, _ in rows) == 1_049


def test_sections_are_reviews_of_their_own_that_share_one_blob(blobs: CountedBlobs) -> None:
    sides: dict[str, tuple[Side, Side]] = {"a.txt": (None, "a"), ".github/workflows/ci.yml": (None, "on: push")}

    found = made_reviews(blobs, made_manifest(blobs, sides))

    assert [(one.section, [each.path for each in one.changes]) for one in found] == [
        (Section.ORDINARY, ["a.txt"]),
        (Section.AUTOMATION, [".github/workflows/ci.yml"]),
    ]
    assert blobs.reads == 1


@pytest.mark.parametrize(
    ("base", "now", "preview", "is_divisible"),
    [
        ("a\n", "b\n", Preview.TEXT, True),
        (None, "b\n", Preview.TEXT, False),
        ("a\n", None, Preview.TEXT, False),
        # A picture is one by its bytes: the name says otherwise.
        (None, PNG, Preview.IMAGE, False),
        (None, b"%PDF-1.7\n\0", Preview.PDF, False),
        (b"\0\1", b"\0\2", Preview.BINARY, False),
        (None, link_node("b.txt"), Preview.LINK, False),
        (None, folder_node(), Preview.FOLDER, False),
        ("a\n", link_node("b.txt"), Preview.LINK, False),
    ],
)
def test_changes_are_shown_by_what_their_bytes_are(
    blobs: CountedBlobs, base: Side, now: Side, preview: Preview, is_divisible: bool
) -> None:
    review = made_review(blobs, {"file.txt": (base, now)})

    diff = review.diff(review.change("file.txt"))

    assert (diff.preview, diff.is_divisible, diff.problem) == (preview, is_divisible, "")
    assert bool(diff.hunks) is (preview is Preview.TEXT)


@pytest.mark.parametrize("before", ["name;Käse\n".encode("utf-16"), "Käse\n".encode("cp1252"), b"\0"])
def test_a_text_in_the_place_of_what_is_none_is_shown_whole(blobs: CountedBlobs, before: bytes) -> None:
    review = made_review(blobs, {"file.csv": (before, "name;rm\n")})
    diff = review.diff(review.change("file.csv"))
    assert [line for hunk in diff.hunks for line in hunk.lines] == ["+name;rm\n"]
    assert not diff.is_divisible
    assert "is no text in UTF-8" in diff.problem


def test_bytes_that_cannot_be_shown_are_told(blobs: CountedBlobs) -> None:
    review = made_review(blobs, {"big.txt": (None, "x" * (MAX_SHOWN_BYTES + 1)), "lost.txt": ("a", "b")})
    assert "larger than" in review.diff(review.change("big.txt")).problem
    lost = review.change("lost.txt").change.now
    assert lost is not None
    del blobs.blobs[lost.sha256]
    assert "not in the blob store" in review.diff(review.change("lost.txt")).problem


def test_a_blob_that_is_no_review_is_told(review: Review, blobs: CountedBlobs) -> None:
    blobs.blobs[review.shown.manifest] = b'{"layer": 1}'
    with pytest.raises(EffectFailed, match="is no review"):
        reviews_of([review.question], blobs)


def test_json_has_hunks_with_their_ids(review: Review) -> None:
    told = review.as_json()

    novel = next(one for one in told["changes"] if one["path"] == "src/novel.txt")
    assert [len(one["id"]) for one in novel["hunks"]] == [32, 32]
    assert novel["is_divisible"]
    assert (told["section"], told["counts"]["total"], told["is_open"]) == ("ordinary", 6, True)


async def test_accepting_all_approves_the_question_as_it_was_shown(review: Review) -> None:
    desk = ReviewedRun(review)
    await decide_review(desk, review, ReviewChoice(review).with_all().answer(), by="ann")
    (decision,) = desk.taken
    assert (decision.decision, decision.args, decision.by) == (DecisionKind.APPROVE, None, "ann")
    assert (decision.id, decision.digest) == ("a1", review.question.request.digest)


async def test_accepting_a_part_sends_exactly_that(review: Review) -> None:
    desk, novel = ReviewedRun(review), review.change("src/novel.txt")
    first, second = (hunk.id for hunk in review.diff(novel).hunks)
    choice = ReviewChoice(review).with_folder("src/new", accepted=True)
    choice = choice.with_hunks(novel, [first], [first, second])
    choice = choice.with_comment(LineComment(path="gone.txt", text="why?"))

    await decide_review(desk, review, choice.answer())

    (decision,) = desk.taken
    assert decision.decision is DecisionKind.MODIFY
    answer = ReviewAnswer.model_validate(decision.args)
    assert answer.accept == ("src/new/",)
    assert answer.hunks == {"src/novel.txt": (first,)}
    assert sorted(answer.paths(review.layer)) == ["src/new", "src/new/one.txt", "src/new/two.txt"]
    assert ReviewChoice.of(review, answer) == choice


def test_all_hunks_of_a_file_are_the_file_and_none_is_nothing_of_it(review: Review) -> None:
    novel = review.change("src/novel.txt")
    ids = [hunk.id for hunk in review.diff(novel).hunks]
    assert ReviewChoice(review).with_hunks(novel, ids, ids).state(novel) == "accepted"
    assert ReviewChoice(review).with_hunks(novel, [], ids).state(novel) == "not accepted"


def test_all_but_one_names_folders_and_no_file_of_the_one_that_is_split(review: Review) -> None:
    choice = ReviewChoice(review).with_all().with_change(review.change("src/novel.txt"), accepted=False)
    assert choice.answer().accept == ("README.md", "gone.txt", "src/new/")


def test_a_conflict_is_accepted_by_its_name_alone(blobs: CountedBlobs) -> None:
    review = made_review(blobs, {"a.txt": ("1", "2"), "b.txt": ("1", "3")}, conflicts={"a.txt": "changed meanwhile"})
    choice = ReviewChoice(review).with_all()
    assert choice.answer().accept == ("/",)
    assert choice.state(review.change("a.txt")) == "not accepted"
    assert choice.with_change(review.change("a.txt"), accepted=True).answer().accept == ("/", "a.txt")


async def test_a_file_with_the_name_of_all_changes_is_accepted_alone(blobs: CountedBlobs) -> None:
    review = made_review(blobs, {"*": ("1", "2"), "a.txt": ("1", "3"), "b.txt": ("1", "4")})
    desk = ReviewedRun(review)
    choice = ReviewChoice(review).with_change(review.change("*"), accepted=True)
    await decide_review(desk, review, choice.answer())
    answer = ReviewAnswer.model_validate(desk.taken[0].args)
    assert answer.paths(review.layer) == ["*"]
    every = ReviewChoice(review).with_all().answer()
    assert sorted(every.paths(review.layer)) == ["*", "a.txt", "b.txt"]


def test_an_answer_that_accepts_something_else_is_not_sendable(
    blobs: CountedBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = made_review(blobs, {"a.txt": ("1", "3"), "b.txt": ("1", "4")})
    choice = ReviewChoice(review).with_change(review.change("a.txt"), accepted=True)

    def everything(_: ReviewChoice) -> tuple[str, ...]:
        return ("/",)

    monkeypatch.setattr(ReviewChoice, "_accept", everything)
    with pytest.raises(DecisionRefused, match="other changes than were chosen"):
        choice.answer()


def test_a_folder_accepts_no_conflict_and_names_none(blobs: CountedBlobs) -> None:
    files = {"z.txt": ("1", "2"), "d/a.txt": ("1", "2"), "d/b.txt": ("1", "3"), "e/c.txt": ("1", "4")}
    review = made_review(blobs, files, conflicts={"d/a.txt": "changed meanwhile", "e/c.txt": "changed meanwhile"})
    choice = ReviewChoice(review).with_folder("d", accepted=True)
    assert choice.answer().accept == ("d/b.txt",)
    choice = choice.with_change(review.change("d/a.txt"), accepted=True)
    assert choice.answer().accept == ("d/a.txt", "d/")
    assert ReviewChoice.of(review, choice.answer()) == choice
    assert choice.with_folder("d", accepted=False).answer().accept == ()
    with pytest.raises(DecisionRefused, match="by somebody else"):
        choice.with_folder("e", accepted=True)


def test_a_renamed_file_is_accepted_with_both_paths(blobs: CountedBlobs) -> None:
    review = made_review(blobs, {"old.txt": ("same", None), "new.txt": (None, "same"), "x.txt": (None, "x")})
    choice = ReviewChoice(review).with_change(review.change("old.txt"), accepted=True)
    assert choice.answer().accept == ("new.txt", "old.txt")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"changes": "b" * 64}, "about other changes"),
        ({"accept": ["nowhere.txt"]}, "'nowhere.txt' is not among the changes"),
        ({"hunks": {"src/novel.txt": ["0123456789abcdef"]}}, "there is no part '0123456789abcdef'"),
        ({"hunks": {"gone.txt": ["0123456789abcdef"]}}, "there is no part"),
        ({"edits": {"nowhere.txt": "a" * 64}}, "'nowhere.txt' is not among the changes"),
        ({"comments": [{"path": "nowhere.txt", "text": "?"}]}, "'nowhere.txt' is not among the changes"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_before_it_is_sent(
    review: Review, answer: dict[str, Any], words: str
) -> None:
    desk = ReviewedRun(review)
    with pytest.raises(DecisionRefused, match=words):
        await decide_review(desk, review, ReviewAnswer.model_validate({"changes": review.layer.digest(), **answer}))
    assert desk.taken == []


async def test_a_review_is_rejected_with_a_reason(review: Review) -> None:
    desk = ReviewedRun(review)
    with pytest.raises(UsageError, match="with a reason"):
        await decide_review(desk, review, None, note=" ")
    await decide_review(desk, review, None, note="not now")
    assert [(one.decision, one.note) for one in desk.taken] == [(DecisionKind.REJECT, "not now")]


async def test_an_edited_text_is_accepted_as_it_was_edited(review: Review, blobs: CountedBlobs) -> None:
    desk, readme = ReviewedRun(review), review.change("README.md")
    choice = ReviewChoice(review).with_edit(readme, review.contents.keep("mine\n"))
    await decide_review(desk, review, choice.answer())
    answer = ReviewAnswer.model_validate(desk.taken[0].args)
    assert blobs.blobs[answer.edits["README.md"]] == b"mine\n"
    assert choice.state(readme) == "edited"
    with pytest.raises(DecisionRefused, match="no file that could be edited"):
        choice.with_edit(review.change("gone.txt"), "a" * 64)
    with pytest.raises(DecisionRefused, match="no text that could be edited"):
        review.contents.text(folder_node(), "src/new")
