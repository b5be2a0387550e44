"""Changes of runs that wait for a review: kept for as long as somebody may decide, and gone with the run."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.extensions.review.messages import shown_review
from llm_do_temporal.testing import scripted
from tests.support.runs.garbage import blobs_of, collect_garbage
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from tests.support.servers.session import FORGETFUL, session_server

REVIEWED: dict[str, Any] = {"toolsets": FILESYSTEM, "review": "changes"}
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
    from llm_do_temporal.extensions.maintenance import delete as deleting
    from llm_do_temporal.extensions.maintenance.delete import delete_run
    from llm_do_temporal.extensions.maintenance.gc import discard_leftovers

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
