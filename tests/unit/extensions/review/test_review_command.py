"""`review`: what it shows, and the answers that its options stand for."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.cli import groups, session
from llm_do_temporal.cli.app import app
from llm_do_temporal.cli.terminal.last_shown import ShownQuestion
from llm_do_temporal.client.open_questions import InboxEntry, alone
from llm_do_temporal.errors import DecisionRefused, LlmDoError, UsageError
from llm_do_temporal.extensions.review import commands
from llm_do_temporal.extensions.review.client import Review, read_patch
from llm_do_temporal.extensions.review.commands import ReviewOptions
from llm_do_temporal.extensions.review.messages import CheckResult
from llm_do_temporal.extensions.review.policy.review import LineComment, ReviewAnswer
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.policy.layers.layer import folder_node, link_node
from tests.support.extensions.review.reviewed import (
    EDITED_NOVEL,
    NOON,
    NOVEL,
    ReviewedRun,
    Side,
    made_manifest,
    made_review,
    made_reviews,
    made_verdict,
)
from tests.support.workshops.layered import MemoryBlobs

SIDES: dict[str, tuple[Side, Side]] = {
    "README.md": ("old\n", "new\n"),
    "src/novel.txt": (NOVEL, EDITED_NOVEL),
    "src/new.txt": (None, "1\n"),
    "gone.txt": ("bye\n", None),
}
HOSTILE = "evil\x1b[2J\u202etxt"


@pytest.fixture
def review() -> Review:
    return made_review(MemoryBlobs(), SIDES)


Play = Callable[..., ReviewedRun]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Return the way to run the command about reviews, without a server."""
    show(monkeypatch)
    monkeypatch.setattr(commands, "login_name", lambda: "ann")

    def run(reviews: list[Review], *arguments: str) -> ReviewedRun:
        client = ReviewedRun(*reviews)

        @asynccontextmanager
        async def opened(*_: object) -> AsyncGenerator[Any]:
            yield SimpleNamespace(client=client, workshop=None)

        monkeypatch.setattr(session, "opened", opened)
        done: object = app(["review", "run-1", *arguments], exit_on_error=False, result_action="return_value")
        assert done == 0
        return client

    return run


def show(monkeypatch: pytest.MonkeyPatch, *questions: ShownQuestion) -> None:
    """Let the terminal have shown these questions of the run, and no others."""

    def shown(run: str) -> list[ShownQuestion]:
        return list(questions)

    monkeypatch.setattr(commands, "last_shown", shown)


def hunks(review: Review, path: str = "src/novel.txt") -> list[str]:
    return [hunk.id for hunk in review.diff(review.change(path)).hunks]


def test_without_options_it_shows_counts_tree_and_the_way_to_go_on(
    review: Review, play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    play([review])
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "review 1 of run run-1, a1: ordinary files",
        "  4 changes: 1 added, 2 modified, 1 deleted",
        "  src/",
        "    + new.txt  2 bytes",
        "    ~ novel.txt  311 → 327 bytes",
        "  ~ README.md  4 bytes",
        "  - gone.txt  4 bytes",
    ]
    assert "review run-1 --diff" in shown.err


def test_the_diff_has_each_hunk_with_its_id(review: Review, play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play([review], "src/", "--diff")
    shown = capsys.readouterr().out
    assert (
        [line.split()[-1] for line in shown.splitlines() if "@@" in line]
        == [
            "@@",  # of a new file there are no parts
            *(one[:8] for one in hunks(review)),
        ]
    )
    assert "    -line 30\n    +line thirty\n    +and more\n" in shown
    assert "README.md" not in shown


def test_a_check_that_failed_is_shown_with_the_end_of_its_output(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    check = CheckResult(command="make test", exit_code=2, output="x\n" * 50 + "1 failed\x1b[2J\n")
    play([made_review(MemoryBlobs(), SIDES, check=check)])
    shown = capsys.readouterr().out
    assert "  check failed with exit code 2: make test\n" in shown
    assert "    | 1 failed\\x1b[2J\n" in shown


@pytest.mark.parametrize("option", [[], ["--diff"], ["--json"]])
def test_no_name_and_no_line_controls_the_terminal(
    option: list[str], play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    sides: dict[str, tuple[Side, Side]] = {
        f"{HOSTILE}/{HOSTILE}.py": (f"a{HOSTILE}\r\n", f"b{HOSTILE}\r\x85\u2028\n"),
        f"{HOSTILE}.lnk": (None, link_node(HOSTILE)),
        f"{HOSTILE}\n+ fake.txt": ("a", None),
    }
    play([made_review(MemoryBlobs(), sides, conflicts={f"{HOSTILE}.lnk": HOSTILE})], *option)
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert "evil" in text
    assert not {"\x1b", "\u202e", "\r", "\x85", "\u2028"} & set(text)
    assert not any(line.startswith("+ fake.txt") for line in text.splitlines())


def test_json_has_the_whole_review(review: Review, play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play([review], "--json", "src/novel.txt")
    (told,) = json.loads(capsys.readouterr().out)
    assert told["digest"] == review.question.request.digest
    (novel,) = told["changes"]
    assert [one["id"] for one in novel["hunks"]] == hunks(review)


def test_all_but_a_hunk_is_accepted_by_its_id(review: Review, play: Play) -> None:
    first, second = hunks(review)
    client = play([review], "--id", "a1", "--all", "--reject", f"src/novel.txt:{first[:6]}", "--reject", "gone.txt")
    assert client.answer.accept == ("README.md", "src/new.txt")
    assert client.answer.hunks == {"src/novel.txt": (second,)}
    assert client.taken[0].by == "ann"


def test_what_is_named_is_accepted_and_nothing_else(review: Review, play: Play) -> None:
    first, _ = hunks(review)
    client = play(
        [review], "--id", "a1", "--accept", "./README.md", f"src/novel.txt:{first}", "--keep-rest",
        "--comment", "src/novel.txt:5:why: a word?", "--comment", "gone.txt:keep it",
    )  # fmt: skip
    answer = client.answer
    assert (answer.accept, answer.hunks, answer.rest) == (("README.md",), {"src/novel.txt": (first,)}, "keep")
    assert answer.comments == (
        LineComment(path="src/novel.txt", line=5, text="why: a word?"),
        LineComment(path="gone.txt", text="keep it"),
    )


def test_a_folder_stands_for_all_below_it(review: Review, play: Play) -> None:
    assert play([review], "--id", "a1", "--accept", "src/").answer.accept == ("src/",)


def test_accepting_all_approves_and_rejecting_all_tells_the_reason(review: Review, play: Play) -> None:
    assert [one.decision for one in play([review], "--id", "a1", "--all").taken] == [DecisionKind.APPROVE]
    (rejected,) = play([review], "--id", "a1", "--reject-all", "not today").taken
    assert (rejected.decision, rejected.note) == (DecisionKind.REJECT, "not today")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["--all", "--reject-all", "no"], UsageError, "give it alone"),
        (["--reject-all", " "], UsageError, "needs a reason"),
        (["--reject", "README.md"], UsageError, "left out of what is accepted"),
        (["--keep-rest"], UsageError, "nothing about what is accepted"),
        (["--all", "--diff"], UsageError, "look first, then answer"),
        (["--all"], UsageError, "has not shown the review 'a1'"),
        (["--all", "--digest", "0123456789abcdef" * 2], UsageError, "no such review"),
        (["--diff", "--digest", "0123456789abcdef" * 2], UsageError, "no such review"),
        (["--all", "--digest", "8"], UsageError, "--digest needs at least 32 digits, and has 1"),
        (["--diff", "--digest", "0123456789abcdef"], UsageError, "at least 32 digits, and has 16"),
        (["--id", "a7"], UsageError, r"has no such review; it has a1 \(ordinary\)"),
        (["--section", "links"], UsageError, "has no such review"),
        (["--id", "a1", "--accept", "nowhere"], DecisionRefused, "'nowhere' is not among the changes"),
        (["--id", "a1", "--accept", "src"], DecisionRefused, "'src' is a folder"),
        (["--id", "a1", "--accept", "docs/"], DecisionRefused, "'docs/' has no changes"),
        (["--id", "a1", "--accept", "src/novel.txt:1"], DecisionRefused, "names no single hunk"),
        (["--id", "a1", "--accept", "src/new.txt:abcd"], DecisionRefused, "cannot be accepted in parts"),
        (["--id", "a1", "--comment", "nowhere:3:x"], DecisionRefused, "begins with no path"),
        (["--id", "a1", "--comment", "README.md:3: "], UsageError, "is empty"),
        (["--id", "a1", "--edit", "README.md"], UsageError, "no terminal to edit files in"),
        (
            ["--id", "a1", "--all", "--accept", "README.md"],
            UsageError,
            "all changes are accepted, and 'README.md' is named",
        ),
        (["--id", "a1", "--all", "--accept", "src/"], UsageError, "all changes are accepted, and 'src/' is named"),
        (["--id", "a1", "--all", "--reject", "/"], UsageError, "accepts nothing, and says no reason"),
        (["--id", "a1", "--accept", "README.md", "--reject", "./README.md"], UsageError, "accepted, and rejected"),
        (
            ["--id", "a1", "--accept", "src/new.txt", "gone.txt", "--reject", "src/"],
            UsageError,
            "accepted, and rejected",
        ),
        (["--id", "a1", "--accept", "src/", "gone.txt", "--reject", "src/"], UsageError, "accepted, and rejected"),
        (["--id", "a1", "--all", "--edit", "README.md", "--reject", "README.md"], UsageError, "accepted, and rejected"),
        (["--diff", "nowhere"], UsageError, "'nowhere' is not among the changes"),
        (["--why"], UsageError, "name their paths"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_decided(
    review: Review, play: Play, arguments: list[str], error: type[LlmDoError], says: str
) -> None:
    with pytest.raises(error, match=says):
        play([review], *arguments)


def test_parts_of_a_file_contradict_its_whole_its_edit_and_its_rejection(review: Review, play: Play) -> None:
    part = f"src/novel.txt:{hunks(review)[0]}"
    for arguments, says in (
        (["--accept", part, "src/novel.txt"], "accepted in part and as a whole"),
        (["--accept", part, "--edit", "src/novel.txt"], "accepted in part and as edited"),
        (["--accept", part, "gone.txt", "--reject", "src/novel.txt"], "accepted, and rejected"),
        (["--accept", part, "gone.txt", "--reject", part], "accepted, and rejected"),
        (["--all", "--accept", part], "named besides"),
    ):
        with pytest.raises(UsageError, match=says):
            play([review], "--id", "a1", *arguments)


def test_beside_all_changes_a_conflict_is_accepted_by_its_name(play: Play) -> None:
    review = made_review(MemoryBlobs(), SIDES, conflicts={"gone.txt": "changed meanwhile"})
    assert play([review], "--id", "a1", "--all", "--accept", "gone.txt").answer.accept == ("/", "gone.txt")


@pytest.mark.parametrize(
    ("options", "accept", "words"),
    [
        (["--all", "--reject", "made"], ("gone/",), "accepts 2 of 4 changes; 2 not accepted"),
        (["--all", "--reject", "gone", "made/x"], ("made",), "accepts 1 of 4 changes; 3 not accepted"),
        (["--all", "--reject", "gone/o"], ("made/",), "accepts 2 of 4 changes; 2 not accepted"),
        (["--accept", "gone"], ("gone/",), "accepts 2 of 4 changes; 2 not accepted"),
        (["--accept", "made/x"], ("made/",), "accepts 2 of 4 changes; 2 not accepted"),
    ],
)
def test_a_folder_that_is_rejected_keeps_out_what_is_in_it_and_one_that_goes_takes_it_along(
    play: Play, capsys: pytest.CaptureFixture[str], options: list[str], accept: tuple[str, ...], words: str
) -> None:
    sides: dict[str, tuple[Side, Side]] = {
        "made": (None, folder_node()),
        "made/x": (None, "x"),
        "gone": (folder_node(), None),
        "gone/o": ("o", None),
    }
    client = play([made_review(MemoryBlobs(), sides)], "--id", "a1", *options)
    assert client.answer.accept == accept
    assert words in capsys.readouterr().err


def test_of_several_reviews_one_has_to_be_named(play: Play) -> None:
    sides: dict[str, tuple[Side, Side]] = {"a.txt": (None, "a"), ".github/workflows/ci.yml": (None, "on: push")}
    blobs = MemoryBlobs()
    found = made_reviews(blobs, made_manifest(blobs, sides))
    with pytest.raises(UsageError, match=r"2 reviews .* wait: a1 \(ordinary\), a2 \(automation\)"):
        play(found, "--all")
    assert play(found, "--id", "a2", "--all").taken[0].id == "a2"


def test_an_answer_is_about_what_this_terminal_has_shown(
    review: Review, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = review.question.request.digest
    show(monkeypatch, ShownQuestion("a1", digest))
    assert play([review], "--all").taken[0].digest == digest
    show(monkeypatch, ShownQuestion("a1", "f" * 64))
    with pytest.raises(UsageError, match="not the one that this terminal has shown"):
        play([review], "--all")
    assert play([review], "--all", "--digest", digest[:32]).taken


def test_a_review_that_was_decided_is_shown_and_takes_no_answer(
    review: Review, play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    decided = replace(review, question=replace(review.question, verdict=made_verdict()))
    play([decided])
    shown = capsys.readouterr()
    assert "  rejected by bob\n" in shown.out
    assert "no answer is needed any more" in shown.err
    with pytest.raises(UsageError, match="no such review of run 'run-1' waits"):
        play([decided], "--id", "a1", "--all")


def test_all_questions_of_a_run_are_decided_without_its_reviews(
    review: Review, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def read_run(client: object, run: str) -> SimpleNamespace:
        asked = review.question.request
        told = (run, "editor", "ada", "a1", "editor", "main", asked.tool, "review 1", NOON, None, 0, 1, ())
        return SimpleNamespace(groups=[alone(InboxEntry(*told, digest=asked.digest))])

    @asynccontextmanager
    async def opened(*_: object) -> AsyncGenerator[Any]:
        yield SimpleNamespace(client=ReviewedRun(review))

    monkeypatch.setattr(groups, "read_run", read_run)
    monkeypatch.setattr(groups, "opened", opened)
    assert app(["approve", "run-1", "--all", "--yes"], exit_on_error=False, result_action="return_value") == 0
    said = capsys.readouterr().err
    assert "reviews are answered one by one: llm-do-temporal review run-1" in said
    assert "nothing of it waits" in said


def test_the_answer_that_was_given_is_told(review: Review, play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ReviewAnswer(changes=review.layer.digest(), accept=("README.md",), rest="keep")
    given = made_verdict(DecisionKind.MODIFY).model_copy(update={"args": answer.model_dump(mode="json")})
    play([replace(review, question=replace(review.question, verdict=given))])
    words = "it accepts 1 of 4 changes; 3 not accepted, which stay in the layer"
    assert f"  answered by bob: {words}\n" in capsys.readouterr().out


def test_a_choice_of_before_is_told_where_people_are_asked_again(
    review: Review, play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ReviewAnswer(changes=review.layer.digest(), accept=("README.md",)).model_dump(mode="json")
    request = review.question.request.model_copy(update={"args": answer, "reason": "does not pass the check"})
    play([replace(review, question=replace(review.question, request=request))])
    shown = capsys.readouterr().out
    assert "  does not pass the check\n" in shown
    assert "  as it is asked now, approving accepts 1 of 4 changes; 3 not accepted, which go back" in shown


def test_a_run_without_a_review_is_told(play: Play) -> None:
    with pytest.raises(UsageError, match="has asked for no review"):
        play([])


@pytest.mark.thorough
def test_ten_thousand_changes_are_listed(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    sides: dict[str, tuple[Side, Side]] = {f"src/{n % 100}/{n}.txt": (None, f"{n}\n") for n in range(10_000)}
    play([made_review(MemoryBlobs(), sides)])
    assert len(capsys.readouterr().out.splitlines()) == 2 + 101 + 10_000


def test_the_patch_of_an_open_review_is_one_that_git_takes(review: Review, tmp_path: Path) -> None:
    for path, (base, _) in SIDES.items():
        if base is not None:
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(str(base))
    patch = asyncio.run(read_patch(ReviewedRun(review), "run-1"))

    subprocess.run(["git", "apply"], input=patch.encode(), cwd=tmp_path, check=True)

    found = {str(one.relative_to(tmp_path)): one.read_text() for one in tmp_path.rglob("*") if one.is_file()}
    assert found == {path: now for path, (_, now) in SIDES.items() if now is not None}


def test_a_file_called_like_a_part_of_another_is_named_as_a_path(play: Play) -> None:
    part = hunks(made_review(MemoryBlobs(), SIDES))[0]
    sides: dict[str, tuple[Side, Side]] = {**SIDES, f"src/novel.txt:{part}": (None, "evil")}
    review = made_review(MemoryBlobs(), sides)
    with pytest.raises(DecisionRefused, match="is a changed file, and may mean a part of"):
        play([review], "--id", "a1", "--accept", f"src/novel.txt:{part}")
    with pytest.raises(DecisionRefused, match="may be about"):
        play([review], "--id", "a1", "--all", "--comment", f"src/novel.txt:{part}: why?")
    desk = play([review], "--id", "a1", "--accept", f"./src/novel.txt:{part}")
    assert ReviewAnswer.model_validate(desk.taken[0].args).paths(review.layer) == [f"src/novel.txt:{part}"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ReviewOptions(reject=("a.py",)), "--reject says what is left out of what is accepted"),
        (ReviewOptions(all=True, reject_all="no"), "--reject-all accepts nothing"),
        (ReviewOptions(reject_all=" "), "--reject-all needs a reason"),
    ],
)
def test_options_that_do_not_go_together_are_a_mistake(options: ReviewOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        options.check(None)
