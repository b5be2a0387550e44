"""Files of runs that begin by themselves: read anew each time, or kept when the schedule was made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from llm_do_temporal.client.batches import Attach
from llm_do_temporal.client.record.facts import read_facts
from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.errors import AttachmentRefusal, UsageError
from llm_do_temporal.extensions.schedules.schedules import Schedules, input_files
from llm_do_temporal.messages.runs import Batch, BatchItem, InputFiles
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import ScriptedModel, scripted
from tests.support.extensions.schedules.scheduled import made, put, reads, triggered
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place


def reader(place: Place, *turns: object, **keys: object) -> ScriptedModel:
    model = scripted(*(turns or ("Read it.",) * 20))  # pyright: ignore[reportArgumentType]
    place.worker("writer", model, **{"toolsets": {"filesystem": {}}, **keys})  # pyright: ignore[reportArgumentType]
    return model


def given(model: ScriptedModel) -> list[bytes]:
    """Return the bytes of the PDF files in the requests, without what all of these begin with."""
    return [file.data.removeprefix(b"%PDF-") for request in model.requests for file in request.attachments]


async def told(place: Place, run: str) -> tuple[list[str], list[str]]:
    """Return the names of a run's files, and those of its items, as its page tells them."""
    facts = await read_facts(place.client.temporal, await read_run(place.client.temporal, run))
    return [one.path for one in facts.attachments], [one.name for one in facts.items]


async def test_a_file_is_read_anew_by_each_run(place: Place) -> None:
    model = reader(place)
    put(place, "inbox/news.txt", "%PDF-first")
    name = await made(place, reads=reads(place, "inbox/news.txt"))
    assert (await Schedules(place.client).one(name)).reads == "inbox/news.txt"
    for text in ("first", "second"):
        put(place, "inbox/news.txt", f"%PDF-{text}")
        run = await triggered(place, name)
        assert (await place.client.result(run)).output == "Read it."
        assert await told(place, run) == (["news.txt"], [])
        while datetime.now(UTC) < datetime.fromisoformat(run.removeprefix(f"{name}-")) + timedelta(seconds=1):
            pass  # runs are called by the second at which they were due
        listed = await read_run(place.client.temporal, run)
        assert (listed.schedule, listed.task, listed.started_by) == (name, "go", "ada")
        while run not in [one.run for one in await Schedules(place.client).runs(name)]:
            pass  # lists lag behind
    assert given(model) == [b"first", b"second"]
    await Schedules(place.client).delete(name)


async def test_a_question_of_such_a_run_is_answered_and_its_tree_is_that_of_any_other(place: Place) -> None:
    reader(place, write_call("/a.txt"), "Done.")
    put(place, "news.txt")
    name = await made(place, reads=reads(place, "news.txt"))
    run = await triggered(place, name)
    await place.pending(run)
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    view = await place.client.view(run)
    assert [(node.path, node.turns) for node in view.ordered] == [("main", 2)]
    assert view.usage.requests == 2
    await Schedules(place.client).delete(name)


def _writes(data: bytes) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def _makes_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILT: dict[str, Callable[[Path], object]] = {
    "does not exist": Path.unlink,
    "is empty": _writes(b""),
    "is too large": _writes(b"x" * 200),
    "is a folder": _makes_folder,
}


async def test_a_run_whose_file_cannot_be_attached_fails_and_names_it(place: Place) -> None:
    reader(place, attachment_policy={"max_total_bytes": 100})
    for words, spoil in SPOILT.items():
        put(place, "news.txt")
        name = await made(place, reads=reads(place, "news.txt"))
        spoil(place.folder / "news.txt")
        run = await triggered(place, name)
        with pytest.raises(AttachmentRefusal, match=f"'news.txt' {words}"):
            await place.client.result(run)
        await Schedules(place.client).delete(name)


async def test_the_policy_of_the_worker_counts_as_it_is_when_the_run_begins(place: Place) -> None:
    reader(place)
    put(place, "news.txt")
    name = await made(place, reads=reads(place, "news.txt"))
    reader(place, attachment_policy={"allowed_suffixes": [".pdf"]})
    run = await triggered(place, name)
    with pytest.raises(AttachmentRefusal, match=r"'news.txt' has a suffix that worker 'writer' does not accept"):
        await place.client.result(run)
    await Schedules(place.client).delete(name)


async def test_items_are_the_files_that_match_when_the_run_begins(place: Place) -> None:
    model = reader(place)
    put(place, "news.txt", "%PDF-all")
    put(place, "inbox/a.txt", "%PDF-a")
    name = await made(place, reads=reads(place, "news.txt", each=("inbox/*.txt",)))
    put(place, "inbox/b.txt", "%PDF-b")
    put(place, "inbox/c.txt", "")
    put(place, "inbox/.hidden.txt")
    run = await triggered(place, name)
    result = await place.client.result(run)
    assert result.items is not None
    assert [(one.name, one.status, one.message) for one in result.items] == [
        ("inbox/a.txt", "completed", None),
        ("inbox/b.txt", "completed", None),
        ("inbox/c.txt", "failed", "the file 'inbox/c.txt' is empty; attach one with content"),
    ]
    assert sorted(given(model)) == [b"a", b"all", b"all", b"b"]
    assert await told(place, run) == (["news.txt"], ["inbox/a.txt", "inbox/b.txt", "inbox/c.txt"])
    view = await place.client.view(run)
    assert [(one.name, one.status) for one in view.items.values()] == [
        ("inbox/a.txt", "completed"),
        ("inbox/b.txt", "completed"),
        ("inbox/c.txt", "failed"),
    ]
    assert (await read_run(place.client.temporal, run)).state == "completed, 1 of 3 failed"
    left = await place.client.unfinished(run)
    assert left.batch is not None
    assert ([one.name for one in left.batch.items], left.reads) == (["inbox/c.txt"], None)
    await Schedules(place.client).delete(name)


async def test_a_run_without_items_completes_and_says_that_there_was_nothing(place: Place) -> None:
    reader(place)
    name = await made(place, reads=reads(place, each=("inbox/*.txt",)))
    run = await triggered(place, name)
    result = await place.client.result(run)
    assert result.output == "There was nothing to do: no file matches inbox/*.txt."
    assert (await read_run(place.client.temporal, run)).state == "completed, no items"
    await Schedules(place.client).delete(name)


@pytest.mark.thorough
async def test_lines_of_a_file_are_items_and_those_of_another_kind_are_inputs(place: Place) -> None:
    reader(place)
    put(place, "lines.txt", "\ufeffone\n\ntwo\n")
    put(place, "rows.jsonl", '\ufeff"te\u2028xt"\n{"n": 1}\n')
    for file, wanted in (
        ("lines.txt", [("one", None), ("two", None)]),
        ("rows.jsonl", [("te\u2028xt", None), ("", {"n": 1})]),
    ):
        name = await made(place, reads=reads(place, each_line=file))
        run = await triggered(place, name)
        await place.client.result(run)
        facts = await read_facts(place.client.temporal, await read_run(place.client.temporal, run))
        assert [(one.prompt, one.input) for one in facts.items] == wanted
        await Schedules(place.client).delete(name)
    for rows, words in (
        ("{\n1\n[", r"rows.jsonl:1: the line is not JSON(.|\n)*rows.jsonl:3"),
        ("1\nnull", r"rows.jsonl:2: the line gives nothing"),
        ("1\0\n\0", r"'rows.jsonl' cannot be read: it is not UTF-8 text \(line 1 has a NUL character"),
    ):
        put(place, "rows.jsonl", rows)
        name = await made(place, reads=reads(place, each_line="rows.jsonl"))
        run = await triggered(place, name)
        with pytest.raises(UsageError, match=words):
            await place.client.result(run)
        await Schedules(place.client).delete(name)


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
async def test_kept_files_stay_as_they_were_and_gc_leaves_them_as_long_as_the_schedule_is_there(place: Place) -> None:
    from llm_do_temporal.extensions.maintenance.removal import collect, delete_run

    model = reader(place)
    put(place, "news.txt", "%PDF-kept")
    put(place, "inbox/a.txt", "%PDF-item")
    blobs = workshop_blobs(place.folder)

    def batch(attach: Attach) -> Batch:
        return Batch(items=(BatchItem(name="a", attachments=attach([place.folder / "inbox/a.txt"])),))

    request = StartRequest(
        worker="writer", files=(place.folder / "news.txt",), read_prompt=lambda: "go", read_batch=batch
    ).prepare(place.folder, embedded=False)
    name = await made(place, attachments=request.attachments, batch=request.batch)
    assert (await Schedules(place.client).one(name)).pinned == ("news.txt", "a.txt")
    put(place, "news.txt", "changed")
    while name not in [one.name for one in await Schedules(place.client).all()]:
        pass

    async def removed() -> set[str]:
        outcome = await collect(place.client.temporal, blobs, older_than=timedelta(seconds=-60))
        return {one.sha256 for one in outcome.removed}

    wanted = {_sha256(b"%PDF-kept"), _sha256(b"%PDF-item")}
    assert not wanted & await removed()
    run = await triggered(place, name)
    await place.client.result(run)
    assert sorted(given(model)) == [b"item", b"kept"]
    # The schedule still needs what a run of it had.
    await place.replay()
    place.started.remove(run)
    deleted = await delete_run(place.client.temporal, run, blobs)
    assert not wanted & {one.sha256 for one in deleted.blobs}
    await Schedules(place.client).delete(name)
    gone: set[str] = set()
    while not wanted <= gone:  # lists lag behind
        gone |= await removed()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_a_schedule_too_big_for_the_server_is_kept_outside_and_runs(place: Place) -> None:
    reader(place)
    text = "word " * 100_000
    name = await made(place, prompt=text)
    found = await Schedules(place.client).one(name)
    assert found.task == text[:200]
    run = await triggered(place, name)
    assert (await place.client.result(run)).output == "Read it."
    await Schedules(place.client).delete(name)


async def test_what_is_wrong_now_is_said_when_the_schedule_is_made(place: Place) -> None:
    reader(place, attachment_policy={"denied_suffixes": [".exe"]})
    put(place, "empty.txt", "")
    put(place, "a.exe")
    for file, words in (("nothing.txt", "does not exist"), ("empty.txt", "is empty"), ("a.exe", "denies")):
        request = StartRequest(worker="writer", reads=reads(place, file))
        with pytest.raises(UsageError, match=words):
            request.prepare(place.folder, embedded=False)
    said: list[str] = []
    request = StartRequest(worker="writer", reads=reads(place, each=("inbox/*.txt",)))
    prepared = request.prepare(place.folder, embedded=False, warn=said.append)
    assert said == ["no file matches inbox/*.txt now; a run then has nothing to do"]
    assert prepared.reads == InputFiles(each=("inbox/*.txt",))
    assert not list((place.folder / ".llm-do").glob("blobs/*/*"))


def test_files_count_from_where_one_is_and_through_a_link_to_the_workshop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, link = tmp_path / "workshop", tmp_path / "link"
    (workshop / "inbox").mkdir(parents=True)
    link.symlink_to(workshop)
    monkeypatch.chdir(workshop / "inbox")
    for folder in (workshop, link):
        found = input_files(folder, attach=[Path("a.txt"), folder / "b.txt"], each=["../*.pdf", "**/*.md"])
        assert found is not None
        assert (found.attach, found.each) == (("inbox/a.txt", "b.txt"), ("*.pdf", "inbox/**/*.md"))
    assert input_files(workshop) is None
    with pytest.raises(UsageError, match="outside of the workshop"):
        input_files(workshop, attach=[Path("../../a.txt")])


async def test_a_start_by_hand_reads_its_files_too(place: Place) -> None:
    model = reader(place)
    put(place, "news.txt", "%PDF-by hand")
    run = await place.start_raw({"worker": "writer", "prompt": "go", "reads": {"attach": ["news.txt"]}})
    assert (await place.client.result(run)).output == "Read it."
    assert given(model) == [b"by hand"]


@pytest.mark.extension("forks")
async def test_a_run_of_a_schedule_can_be_forked(place: Place) -> None:
    reader(place)
    put(place, "news.txt")
    name = await made(place, reads=reads(place, "news.txt"))
    run = await triggered(place, name)
    await place.client.result(run)
    from llm_do_temporal.extensions.forks.client_records import read_run_record

    record = await read_run_record(place.client.temporal, run)
    assert record.start.reads is None
    assert [one.path for one in record.start.attachments] == ["news.txt"]
    assert list(record.invocations) == ["main"]
    await Schedules(place.client).delete(name)
