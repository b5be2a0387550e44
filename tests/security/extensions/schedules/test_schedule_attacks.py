"""Hostile schedules: names that are not what they look like, paths that lead out, links swapped later, foreign ones."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Schedule, ScheduleActionStartWorkflow

from llm_do_temporal.client.record.facts import read_facts
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.errors import AttachmentRefusal, LlmDoError, UsageError
from llm_do_temporal.extensions.schedules.schedules import Schedules, input_files
from llm_do_temporal.messages.activities import ReadInputsInput
from llm_do_temporal.messages.base import RUN_WORKFLOW
from llm_do_temporal.messages.runs import InputFiles, StartRunInput
from llm_do_temporal.messages.sizes import MAX_INLINE_BYTES, MAX_READ_ITEMS
from llm_do_temporal.policy.files.attachments import AttachmentPolicy
from llm_do_temporal.sandbox.input_files import InputReader, measure
from llm_do_temporal.testing import scripted
from tests.support.extensions.schedules.scheduled import YEARLY, made, put, reads, triggered
from tests.support.runs.place import Place

SECRET = "seven-secret-words"
NAMES = [
    "../other",
    "a/b",
    "..",
    ".",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\0b",
    "\x1b[2Ja",
    "a\u202eb",
    "a\u200bb",
    "a\u2028b",
    "\ufeffa",
    "a\ud800b",
    "a\u3164",
    "-rf",
    " a",
    "a ",
    "\u00a0a",
    "a" * 10_000,
]
"""Names of which a run would be called what it is not."""
LEADING_OUT = [
    "../secret.txt",
    "/etc/passwd",
    "inbox/../../secret.txt",
    ".llm-do/tokens.json",
    "inbox/.LLM-DO/x",
    ".env",
    "inbox/.git/config",
    "",
    ".",
    "a\0b",
    "a\ud800b",
    "/",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "C:\\secret.txt",
    "inbox/..\\..\\secret.txt",
]
"""Paths that no run that begins by itself may read, or that are none."""


def reader_of(place: Place) -> None:
    place.worker("writer", scripted(*["Read it."] * 5), toolsets={"filesystem": {}})


@pytest.fixture
def secret(place: Place) -> Path:
    """A file beside the workshop, and one that is hidden in it."""
    path = place.folder.parent / "secret.txt"
    path.write_text(SECRET)
    put(place, ".env", SECRET)
    put(place, "inbox/.git/config", SECRET)
    put(place, "inbox/good.txt", "good")
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_no_schedule_is_called_what_it_is_not(place: Place, name: str) -> None:
    schedules = Schedules(place.client)
    with pytest.raises(UsageError, match="is no name of a schedule") as refused:
        await schedules.create(name, StartRunInput(worker="writer"), YEARLY)
    assert len(refused.value.message) < 400
    assert not set("\n\r\x1b\u202e\u200b") & set(refused.value.message)
    for action in (schedules.one, schedules.delete, schedules.trigger, schedules.pause):
        with pytest.raises(UsageError, match="there is no schedule"):
            await action(name)


@pytest.mark.parametrize("path", LEADING_OUT, ids=ascii)
async def test_no_start_by_hand_reads_what_leads_out_or_is_hidden(place: Place, secret: Path, path: str) -> None:
    for files in (InputFiles(attach=(path,)), InputFiles(each_line=path or ".")):
        asked = ReadInputsInput(files=files, policy=AttachmentPolicy(), worker="writer")
        with pytest.raises(AttachmentRefusal) as refused:
            InputReader(place.folder, asked, measure).read()
        assert SECRET not in str(refused.value)
        assert str(secret.parent) not in str(refused.value)


async def test_a_run_that_was_started_by_hand_with_such_a_path_fails_and_tells_nothing(
    place: Place, secret: Path
) -> None:
    reader_of(place)
    for files in ({"attach": ["../secret.txt"]}, {"each": ["../*.txt"]}, {"each_line": "../secret.txt"}):
        run = await place.start_raw({"worker": "writer", "prompt": "go", "reads": files})
        with pytest.raises(LlmDoError) as failed:
            await place.client.result(run)
        assert SECRET not in str(failed.value)
        assert str(secret.parent) not in str(failed.value)


@pytest.mark.parametrize(
    "typed", ["../secret.txt", "/etc/passwd", "inbox/../../secret.txt", ".env", ".llm-do/x", "..", "."]
)
def test_what_leads_out_is_refused_when_the_schedule_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    workshop = tmp_path / "workshop"
    (workshop / "inbox").mkdir(parents=True)
    monkeypatch.chdir(workshop)
    with pytest.raises(UsageError):
        input_files(workshop, attach=[Path(typed)])
    with pytest.raises(UsageError):
        input_files(workshop, each=[typed])


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: (path.unlink(), path.symlink_to(target))[1]


def _folder_link(path: Path) -> None:
    path.unlink()
    path.parent.rename(path.parent.with_name("kept"))
    outside = path.parent.parent.parent / "outside"
    outside.mkdir()
    (outside / path.name).write_text(SECRET)
    path.parent.symlink_to(outside)


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


SWAPS = {
    "a link out": _link("../../secret.txt"),
    "an absolute link out": _link("/etc/passwd"),
    "a link to what is hidden": _link("../.env"),
    "a link to the state": _link("../.llm-do/llm-do.db"),
    "a link to itself": _link("news.txt"),
    "a device": _link("/dev/zero"),
    "a folder that is a link out": _folder_link,
    "a pipe": _fifo,
}
"""What becomes of `inbox/news.txt` after the schedule was made."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("swap", SWAPS)
async def test_what_is_swapped_after_the_schedule_was_made_is_judged_again(
    place: Place, secret: Path, swap: str
) -> None:
    reader_of(place)
    put(place, "inbox/news.txt")
    name = await made(place, reads=reads(place, "inbox/news.txt"))
    SWAPS[swap](place.folder / "inbox/news.txt")
    run = await triggered(place, name)
    with pytest.raises(AttachmentRefusal, match=r"inbox/news\.txt") as refused:
        await place.client.result(run)
    assert SECRET not in str(refused.value)
    assert str(secret.parent) not in str(refused.value)
    await Schedules(place.client).delete(name)


async def test_a_pattern_takes_nothing_that_is_hidden_and_nothing_through_a_link_out(
    place: Place, secret: Path
) -> None:
    reader_of(place)
    name = await made(place, reads=reads(place, each=("**/*",)))
    (place.folder / "inbox/out.txt").symlink_to(secret)
    (place.folder / "inbox/etc").symlink_to("/etc")
    (place.folder / "inbox/hidden.txt").symlink_to(place.folder / ".env")
    (place.folder / "inbox/loop").symlink_to(place.folder)
    run = await triggered(place, name)
    await place.client.result(run)
    facts = await read_facts(place.client.temporal, await read_run(place.client.temporal, run))
    given = {one.name for one in facts.items if one.attachments}
    assert "inbox/good.txt" in given
    assert not [one for one in given if "out" in one or "etc" in one or "hidden" in one or "/." in f"/{one}"]
    await Schedules(place.client).delete(name)


@pytest.mark.thorough
async def test_a_pattern_that_matches_a_hundred_thousand_files_fails_at_once(place: Place) -> None:
    reader_of(place)
    put(place, "inbox/0.txt")
    source = folder = place.folder / "inbox"
    for number in range(100_000):
        file = folder / f"{number:06d}.txt"
        if number % 30_000:
            os.link(source, file)  # quicker than as many files
        else:
            source = file
            put(place, f"inbox/{file.name}")
    name = await made(place, reads=reads(place, each=("inbox/*",)))
    run = await triggered(place, name)
    with pytest.raises(UsageError, match=f"matches more than {MAX_READ_ITEMS:,} files"):
        await place.client.result(run)
    await Schedules(place.client).delete(name)


@pytest.mark.parametrize("pattern", ["**/" * 400 + "*", "*" * 1_001, "[" * 900, "a/**/" * 190 + "b"], ids=len)
async def test_no_pattern_makes_the_search_slow_or_more_than_a_failure(place: Place, pattern: str) -> None:
    reader_of(place)
    for level in range(12):
        put(place, "/".join(["a"] * (level + 1)) + "/b")
    run = await place.start_raw({"worker": "writer", "reads": {"each": [pattern]}})
    (outcome,) = await asyncio.gather(place.client.result(run), return_exceptions=True)
    assert len(str(outcome)) < 4_000


@pytest.mark.parametrize(
    "given",
    [
        {"attach": ["a"] * 2_000},
        {"each": ["*"] * 200},
        {"attach": "a"},
        {"attach": [None]},
        {"concurrency": 0},
        {"concurrency": 10**9},
        {"each_line": 7},
        {"unknown": 1},
        [],
        "files",
    ],
    ids=lambda given: repr(given)[:30],
)
async def test_malformed_files_end_the_run_with_a_message(place: Place, given: object) -> None:
    reader_of(place)
    run = await place.start_raw({"worker": "writer", "reads": given})
    with pytest.raises(UsageError, match="malformed start"):
        await place.client.result(run)


async def test_a_giant_prompt_is_refused_before_anything_is_made(place: Place) -> None:
    with pytest.raises(UsageError, match="bytes together"):
        await made(place, prompt="x" * (MAX_INLINE_BYTES + 1))


@pytest.mark.parametrize("workflow", ["Other", "LlmDoWorker", "llmdorun", "LlmDoRun "])
async def test_schedules_of_other_programs_are_neither_shown_nor_touched(place: Place, workflow: str) -> None:
    theirs = f"theirs-{uuid4().hex[:8]}"
    action = ScheduleActionStartWorkflow(workflow, id=theirs, task_queue="nobody")
    handle = await place.client.temporal.create_schedule(theirs, Schedule(action=action, spec=YEARLY.spec))
    schedules, then = Schedules(place.client), datetime(2026, 1, 1, tzinfo=UTC)
    for action_of in (schedules.one, schedules.pause, schedules.resume, schedules.trigger, schedules.delete):
        with pytest.raises(UsageError, match="there is no schedule"):
            await action_of(theirs)
    with pytest.raises(UsageError, match="there is no schedule"):
        await schedules.backfill(theirs, then, then.replace(day=3))
    with pytest.raises(UsageError, match="already a schedule"):
        await schedules.create(theirs, StartRunInput(worker="writer"), YEARLY)
    described = await handle.describe()
    assert (described.schedule.state.paused, described.info.num_actions) == (False, 0)
    await handle.delete()


STARTS = [
    [],
    [None],
    ["x"],
    [{"worker": "w" * 100_000}],
    [{"worker": "a", "reads": {"each": ["\u202e" * 50]}}],
    [1, 2],
    [{"worker": {"a": 1}}],
]


@pytest.mark.parametrize("args", STARTS, ids=lambda args: repr(args)[:30])
async def test_a_schedule_with_whatever_start_is_listed_and_deleted_like_any_other(
    place: Place, args: list[object]
) -> None:
    name = f"odd-{uuid4().hex[:8]}"
    action = ScheduleActionStartWorkflow(RUN_WORKFLOW, args=args, id=name, task_queue="nobody")
    await place.client.temporal.create_schedule(name, Schedule(action=action, spec=YEARLY.spec))
    schedules = Schedules(place.client)
    while name not in [one.name for one in await schedules.all()]:
        pass
    assert (await schedules.one(name)).name == name
    await schedules.delete(name)
