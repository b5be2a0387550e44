"""Runs that work on a layer: nothing is real before a review, and then exactly what was accepted."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import ReviewChoice, read_origin, read_patch
from llm_do_temporal.errors import SandboxRefusal, UsageError
from llm_do_temporal.extensions.review.messages import shown_review
from llm_do_temporal.extensions.review.policy.review import LineComment
from llm_do_temporal.testing import call, scripted
from tests.support.extensions.review.reviewed import digest
from tests.support.people.signed_in import page_with, signed_in_browser
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.fixtures import Typed
from tests.support.runs.garbage import blobs_of, collect_garbage
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from tests.support.servers.session import FORGETFUL, session_server

REVIEWED: dict[str, Any] = {"toolsets": FILESYSTEM, "review": "changes"}


def last_words(messages: list[ModelMessage]) -> str:
    """Return the newest text that a model was told by nobody but the product."""
    newest = messages[-1]
    assert isinstance(newest, ModelRequest)
    return "\n".join(str(part.content) for part in newest.parts if isinstance(part, UserPromptPart))


async def test_nothing_is_written_before_the_review_and_all_of_it_after(place: Place) -> None:
    (place.folder / "old.txt").write_text("one\n")
    main = scripted(
        [write_call("/a.txt"), write_call("/sub/b.txt")],
        call("edit_file", path="/old.txt", old_text="one", new_text="two"),
        call("read_file", path="/old.txt"),
        "Done.",
    )
    place.worker("main", main, **REVIEWED)
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert not (place.folder / "a.txt").exists()
    assert (place.folder / "old.txt").read_text() == "one\n"
    assert "two" in tool_results(main, "read_file")[0]
    assert question.request.tool == "submit_changes"
    assert question.request.summary == "review 1: 4 changes (3 added, 1 modified)"
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    assert (place.folder / "a.txt").read_text() == (place.folder / "sub" / "b.txt").read_text() == "hi"
    assert (place.folder / "old.txt").read_text() == "two\n"
    await place.replay()


async def test_what_was_not_accepted_goes_back_to_the_model_and_the_next_review_has_only_that(place: Place) -> None:
    told: list[str] = []

    def again(messages: list[ModelMessage]) -> Any:
        told.append(last_words(messages))
        return write_call("/b.txt", "better")

    place.worker("main", scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.", again, "Better."), **REVIEWED)
    run = await place.start("main")
    (question,) = await place.pending(run)
    comment = {"path": "b.txt", "line": 1, "text": "say more"}
    args = {"changes": digest(question), "accept": ["a.txt"], "comments": [comment]}
    await place.decide(run, "modify", args=args, by="ada")
    (second,) = await place.pending(run)

    assert "/b.txt:1: say more" in told[0]
    assert (place.folder / "a.txt").read_text() == "hi"
    assert not (place.folder / "b.txt").exists()
    assert second.request.summary == "review 2: 1 change (1 added)"
    await place.decide(run, id=second.id)
    assert (await place.client.result(run)).output == "Better."
    assert (place.folder / "b.txt").read_text() == "better"
    await place.replay()


async def test_a_rejection_gives_the_reason_and_nothing_is_written(place: Place) -> None:
    told: list[str] = []

    def end(messages: list[ModelMessage]) -> str:
        told.append(last_words(messages))
        return "Pity."

    place.worker("main", scripted(write_call(), "Done.", end), **REVIEWED)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="not like this", by="ada")

    assert (await place.client.result(run)).output == "Pity."
    assert "not like this" in told[0]
    assert not (place.folder / "a.txt").exists()


async def test_changes_that_are_kept_are_reviewed_again(place: Place) -> None:
    main = scripted(write_call("/a.txt"), "Done.", write_call("/b.txt"), "Both.")
    place.worker("main", main, **REVIEWED)
    run = await place.start("main")
    (question,) = await place.pending(run)
    args: dict[str, Any] = {"changes": digest(question), "accept": [], "rest": "keep"}
    await place.decide(run, "modify", args=args)
    (second,) = await place.pending(run)

    assert second.request.summary == "review 2: 2 changes (2 added)"
    await place.decide(run, id=second.id)
    await place.client.result(run)
    assert (place.folder / "a.txt").exists()
    assert (place.folder / "b.txt").exists()


async def test_a_worker_asks_for_a_review_and_goes_on_over_what_was_made(place: Place) -> None:
    main = scripted(write_call("/a.txt"), call("submit_changes"), write_call("/b.txt"), "Done.")
    place.worker("main", main, **REVIEWED)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run)
    (second,) = await place.pending(run)

    assert (place.folder / "a.txt").exists()
    assert tool_results(main, "submit_changes") == ["Everything was accepted and is made: 1 changed path."]
    await place.decide(run, id=second.id)
    await place.client.result(run)
    assert (place.folder / "b.txt").exists()


async def test_a_child_sees_its_callers_layer_and_hands_its_changes_back(place: Place) -> None:
    child = scripted(call("read_file", path="/a.txt"), write_call("/child.txt", "made"), "Written.")
    place.worker("child", child, toolsets=FILESYSTEM)
    main = scripted(write_call("/a.txt"), call("child", input="go"), call("read_file", path="/child.txt"), "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")}, review="changes")
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert "hi" in tool_results(child, "read_file")[0]
    assert "made" in tool_results(main, "read_file")[0]
    assert question.request.path == "main"
    assert not (place.folder / "child.txt").exists()
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "child.txt").read_text() == "made"
    await place.replay()


async def test_siblings_that_change_the_same_file_are_told_to_their_caller(place: Place) -> None:
    for name in ("left", "right"):
        place.worker(
            name, scripted(write_call("/same.txt", name), write_call(f"/{name}.txt"), "Ok."), toolsets=FILESYSTEM
        )
    main = scripted([call("left", input="go"), call("right", input="go")], "Done.")
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("left", "right")}, review="changes")
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    (question,) = await place.pending(run)

    notes = [*tool_results(main, "left"), *tool_results(main, "right")]
    assert sum("/same.txt" in note for note in notes) == 1
    assert question.request.summary == "review 1: 3 changes (3 added)"
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "left.txt").exists()
    assert (place.folder / "right.txt").exists()


async def test_a_file_that_somebody_else_has_changed_is_a_conflict_and_is_not_overwritten_unseen(place: Place) -> None:
    (place.folder / "a.txt").write_text("one\n")
    main = scripted(write_call("/a.txt", "mine\n"), write_call("/b.txt"), "Done.")
    place.worker("main", main, **REVIEWED)
    run = await place.start("main")
    (question,) = await place.pending(run)
    (place.folder / "a.txt").write_text("theirs\n")
    await place.decide(run)
    (second,) = await place.pending(run)

    assert not (place.folder / "b.txt").exists()
    shown = shown_review(second.request)
    assert shown is not None
    assert shown.section.conflicts == ("a.txt",)
    args = {"changes": digest(second), "accept": ["*", "a.txt"]}
    await place.decide(run, "modify", id=second.id, args=args)
    await place.client.result(run)
    assert (place.folder / "a.txt").read_text() == "mine\n"
    assert question.id != second.id


async def test_strict_mode_refuses_the_first_change_already(place: Place) -> None:
    main = scripted(write_call(), "Pity.")
    place.worker("main", main, **REVIEWED)

    assert (await place.run("main", mode="strict")).output == "Pity."
    assert "Strict mode" in tool_results(main, "write_file")[0]
    assert not (place.folder / "a.txt").exists()


async def test_approve_all_makes_the_changes_at_the_end(place: Place) -> None:
    place.worker("main", scripted(write_call(), "Done."), **REVIEWED)
    await place.run("main", mode="approve_all")
    assert (place.folder / "a.txt").read_text() == "hi"


@pytest.mark.thorough
async def test_a_review_that_made_nothing_is_told_from_the_one_that_did(place: Place, typed: Typed) -> None:
    place.write("a.txt", "one\n")
    main = scripted(write_call("/a.txt", "mine\n"), write_call("/b.txt"), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM, review="changes")
    run = await place.start("main")
    await place.pending_is(run, "a1")
    assert "changed since" not in (await typed("review", run))[1]
    place.write("a.txt", "theirs\n")
    shown = (await typed("review", run))[1]
    assert "1 path has changed since this was asked: whoever accepts anything is asked again" in shown
    (told,) = json.loads((await typed("review", run, "--json"))[1])
    moved = {one["path"]: one["changed_since"] for one in told["changes"]}
    assert (moved["b.txt"], bool(moved["a.txt"])) == (None, True)
    ada = await signed_in_browser(place)
    await page_with(ada, f"/runs/{run}/approvals/a1", "1 path has changed since this was asked.")

    await place.decide(run, id="a1")
    await place.pending_is(run, "a2")
    first, second = await place.client.questions(run)
    assert (first.again, second.request.again) == ("a2", "a1")
    args = {"changes": digest(second), "accept": ["*", "a.txt"]}
    await place.decide(run, "modify", id="a2", args=args)
    await place.client.result(run)

    nothing, made = [line for line in (await typed("logs", run))[1].splitlines() if "  completed: commit" in line]
    why = "nothing was made, for others have changed files meanwhile: a.txt: it was changed on both sides"
    assert nothing.endswith(f"completed: commit 2 changes: {why}")
    assert made.endswith("completed: commit 2 changes")
    lines = (await typed("show", run))[1].splitlines()
    assert ["; not carried out, asked again" in one for one in lines if one.startswith(("  a1  ", "  a2  "))] == [
        True,
        False,
    ]
    assert lines[lines.index("files") + 1 :][:2] == [
        "  changed  /a.txt  5 bytes, by main",
        "  made     /b.txt  2 bytes, by main",
    ]
    written = json.loads((await typed("show", run, "--json"))[1])["files"]["written"]
    assert [(one["path"], one["created"]) for one in written] == [("/a.txt", False), ("/b.txt", True)]
    page = await page_with(ada, f"/runs/{run}", "Not carried out", "a2 asks again", "/b.txt")
    assert page.text.count("Not carried out") == 1
    await place.replay()


AT_ONCE = timedelta(0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """A server that deletes at once."""
    async with session_server(FORGETFUL) as environment:
        yield environment


async def listed(place: Place, run: str) -> bool:
    """Whether the server lists the run: lists are a moment late, after a start and after a removal."""
    query = f"WorkflowId = '{run}'"
    return [one async for one in place.client.temporal.list_workflows(query)] != []


@pytest.mark.extension("maintenance")
async def test_changes_outlive_the_removal_of_blobs_while_a_run_waits_and_go_with_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_do_temporal.extensions.maintenance import removal as deleting
    from llm_do_temporal.extensions.maintenance.removal import delete_run, discard_leftovers

    monkeypatch.setattr(deleting, "SETTLE_SECONDS", 0)
    (place.folder / "old.txt").write_text("the text of before")
    # More than what travels beside a manifest.
    calls = [write_call(f"/{number}.txt", f"text {number}") for number in range(20)]
    place.worker("main", scripted([*calls, write_call("/old.txt", "new")], "Done."), **REVIEWED)
    run = await place.start("main")
    (question,) = await place.pending(run)
    shown = shown_review(question.request)
    assert shown is not None

    while not await listed(place, run):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)
    await collect_garbage(place, AT_ONCE)
    blobs = blobs_of(place)
    assert b"the text of before" in [blobs.read(one.sha256) for one in blobs.stored()]
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "19.txt").read_text() == "text 19"
    assert (place.folder / "old.txt").read_text() == "new"

    commits = place.folder / ".llm-do/commits"
    temporal = place.client.temporal
    assert await discard_leftovers(temporal, place.folder, older_than=AT_ONCE) == 0
    assert len(list(commits.iterdir())) == 1
    await place.replay()
    place.started.remove(run)
    await delete_run(temporal, run, blobs)
    assert b"the text of before" not in [blobs.read(one.sha256) for one in blobs.stored()]
    while await listed(place, run):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.05)
    assert await discard_leftovers(temporal, place.folder, older_than=AT_ONCE) == 1
    assert list(commits.iterdir()) == []


async def test_what_was_accepted_is_on_a_git_branch_and_the_files_stay_as_they_are(place: Place) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
        return subprocess.run(command, cwd=place.folder, capture_output=True, text=True, check=True).stdout

    (place.folder / "old.txt").write_text("one\n")
    git("init", "-q", "-b", "main")
    git("add", "old.txt")
    git("commit", "-q", "-m", "first")
    model = scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.", write_call("/c.txt"), "Both.")
    place.worker("main", model, **REVIEWED)
    run = await place.start("main", review_branch="review/api")
    (question,) = await place.pending(run)
    shown = shown_review(question.request)
    assert shown is not None
    assert shown.branch == "review/api"
    args = {"changes": shown.section.digest, "accept": ["a.txt"]}
    await place.decide(run, "modify", args=args, by="ada")
    (second,) = await place.pending(run)
    assert second.request.summary == "review 2: 1 change (1 added)"
    await place.decide(run, id=second.id, by="ada")
    await place.client.result(run)

    assert git("ls-tree", "--name-only", "review/api").split() == ["a.txt", "c.txt", "old.txt"]
    assert git("rev-list", "--count", "main..review/api").strip() == "2"
    assert "Reviewed-by: ada" in git("log", "-1", "--format=%B", "review/api")
    assert [path.name for path in place.folder.glob("*.txt")] == ["old.txt"]
    await place.replay()


async def test_a_run_for_a_branch_that_cannot_take_changes_ends_before_it_begins_to_work(place: Place) -> None:
    model = scripted("Done.")
    place.worker("main", model, **REVIEWED)
    run = await place.start("main", review_branch="review/api")
    with pytest.raises(SandboxRefusal, match="lie in no git work tree"):
        await place.client.result(run)
    assert model.requests == []


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
