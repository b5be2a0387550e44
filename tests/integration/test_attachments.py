"""Attachments: how they are named, which are accepted, what a callee gets, and where their bytes never are."""

from __future__ import annotations

import base64
import hashlib
import random
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from temporalio.client import WorkflowHistory

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, generic_delegation, tool_results
from tests.support.runs.place import Place

PDF = b"%PDF-1.7\n" + random.Random(7).randbytes(2_000)


def deck(place: Place, name: str = "pipeline/deck.pdf", data: bytes = PDF) -> None:
    """Put a deck into the workshop."""
    path = place.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def received(model: ScriptedModel) -> list[tuple[str, str]]:
    """Media type and sha256 of the files in the model's first request."""
    return [(one.media_type, hashlib.sha256(one.data).hexdigest()) for one in model.requests[0].attachments]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_twelve_megabytes_reach_the_model_whole_and_no_history_at_all(place: Place) -> None:
    data = b"%PDF-1.7\n" + random.Random(1).randbytes(12_000_000)
    deck(place, data=data)
    child = scripted("Read it.", "Never.")
    place.worker("reader", child)
    place.worker(
        "main",
        scripted(call("reader", input="go", attachments=["pipeline/deck.pdf"]), "Ok."),
        toolsets=delegation_to("reader"),
    )
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    assert received(child) == [("application/pdf", sha256(data))]
    # A slice whose base64 is a part of the whole file's: it starts and ends at a multiple of three bytes.
    piece = data[6_000_000:6_000_060]
    texts = {piece, base64.b64encode(piece), base64.urlsafe_b64encode(piece)}
    events = events_of(await place.histories())
    assert not any(text in events for text in texts)
    assert len(events) < 100_000
    assert sha256(data).encode() in events


def events_of(histories: list[WorkflowHistory]) -> bytes:
    """Everything that these histories hold."""
    return b"".join(event.SerializeToString() for history in histories for event in history.events)


async def test_a_file_replaced_after_the_snapshot_changes_nothing(place: Place) -> None:
    deck(place)
    child = scripted("Read it.")
    place.worker("reader", child)
    main = scripted(call("reader", input="go", attachments=["/pipeline/deck.pdf"]), "Ok.")
    place.worker("main", main, toolsets=delegation_to("reader"))
    run = await place.start("main")
    # The call has been checked and waits for a person: now the file changes, and then it is gone.
    await place.pending(run)
    deck(place, data=b"%PDF-1.7\nforged")
    (place.folder / "pipeline/deck.pdf").unlink()
    await place.decide(run)
    await place.client.result(run)
    assert received(child) == [("application/pdf", sha256(PDF))]


async def test_a_file_replaced_between_two_calls_is_another_file(place: Place) -> None:
    deck(place)
    other = PDF + b"more"

    def replace(_: list[ModelMessage]) -> Any:
        deck(place, data=other)
        return call("reader", input="again", attachments=["pipeline/deck.pdf"])

    child = scripted("Read it.")
    place.worker("reader", child)
    main = scripted(call("reader", input="go", attachments=["pipeline/deck.pdf"]), replace, "Ok.")
    place.worker("main", main, toolsets=delegation_to("reader"))
    await place.run("main", mode=APPROVE_ALL)
    digests = [sha256(file.data) for seen in child.requests for file in seen.attachments]
    assert digests == [sha256(PDF), sha256(other)]


async def test_the_generic_face_hands_over_attachments_too_and_text_arrives_as_text(place: Place) -> None:
    deck(place)
    place.write("notes.md", "# Ärger\n")
    child = scripted("Read it.")
    place.worker("reader", child)
    given = {"worker_name": "reader", "input_data": {"about": "both"}, "attachments": ["pipeline/deck.pdf", "notes.md"]}
    place.worker("main", scripted(call("worker_call", **given), "Ok."), toolsets=generic_delegation("reader"))
    await place.run("main", mode=APPROVE_ALL)
    assert received(child) == [("application/pdf", sha256(PDF))]
    assert "# Ärger" in child.requests[0].prompt
    assert "/pipeline/deck.pdf (application/pdf" in child.requests[0].prompt


NOT_ACCEPTED: list[tuple[list[str], dict[str, Any], str]] = [
    # not there, or not a file
    (["/missing.pdf"], {}, "'/missing.pdf' does not exist"),
    (["/pipeline"], {}, "'/pipeline' is a folder, not a file"),
    (["/empty.pdf"], {}, "'/empty.pdf' is empty"),
    # outside
    (["../deck.pdf"], {}, "contains '..'"),
    (["/etc/passwd"], {}, "'/etc/passwd' does not exist"),
    (["/link.pdf"], {}, "leads out of this worker's files"),
    # suffixes, without regard to case
    (["/notes.md"], {"allowed_suffixes": [".pdf"]}, "worker '{reader}' does not accept; accepted: .pdf"),
    (["/NOTES.MD"], {"denied_suffixes": [".md"]}, "'/NOTES.MD' has a suffix that worker '{reader}' denies: .md"),
    # number and size
    (["/notes.md", "/pipeline/deck.pdf"], {"max_attachments": 1}, "2 files attached, but worker '{reader}' accepts"),
    (["/notes.md"], {"max_attachments": 0}, "1 file attached, but worker '{reader}' accepts at most 0"),
    (["/pipeline/deck.pdf"], {"max_total_bytes": 2000}, "at most 2000 are accepted"),
    (["/pipeline/deck.pdf"] * 2, {"max_total_bytes": 3000}, "at most 3000 are accepted"),
]


async def test_an_attachment_that_is_not_accepted_is_named_and_no_child_starts(place: Place) -> None:
    deck(place)
    for name in ("notes.md", "NOTES.MD"):
        place.write(name, "# Notes\n")
    place.write("empty.pdf", "")
    outside = place.folder.parent / "outside.pdf"
    outside.write_bytes(PDF)
    (place.folder / "link.pdf").symlink_to(outside)
    turn: list[Call] = []
    for number, (attachments, policy, _) in enumerate(NOT_ACCEPTED):
        place.worker(f"reader-{number}", scripted(), attachment_policy=policy)
        turn.append(call("worker_call", worker_name=f"reader-{number}", input_data="go", attachments=attachments))
    main = scripted(turn, "Alone.")
    place.worker("main", main, toolsets=generic_delegation("*"), attachment_policy={"max_attachments": 9})
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    answers = tool_results(main, "worker_call")
    for number, (answer, (attachments, _, message)) in enumerate(zip(answers, NOT_ACCEPTED, strict=True)):
        assert message.format(reader=f"reader-{number}") in answer, attachments
        assert str(place.folder) not in answer
    assert len((await place.client.view(run)).nodes) == 1


async def test_the_callers_policy_counts_as_well_as_the_callees(place: Place) -> None:
    deck(place)
    place.write("full.txt", "x" * 2_000)
    place.write("more.txt", "x" * 2_001)
    files = (["pipeline/deck.pdf"], ["full.txt"], ["more.txt"], ["full.txt", "full.txt"])
    reader = scripted("Read it.")
    main = scripted([call("reader", input="go", attachments=one) for one in files], "Done.")
    place.worker("reader", reader)
    policy = {"denied_suffixes": [".pdf"], "max_total_bytes": 2_000}
    place.worker("main", main, toolsets=delegation_to("reader"), attachment_policy=policy)
    await place.run("main", mode=APPROVE_ALL)
    denied, at_the_limit, above, together = tool_results(main, "reader")
    assert "has a suffix that worker 'main' denies: .pdf" in denied
    assert at_the_limit == "Read it."
    assert all("at most 2000 are accepted" in one for one in (above, together))
    assert len(reader.requests) == 1


async def test_a_capital_suffix_is_the_same_suffix(place: Place) -> None:
    deck(place, "DECK.PDF")
    child = scripted("Read it.")
    place.worker("reader", child, attachment_policy={"allowed_suffixes": [".pdf"]})
    place.worker(
        "main", scripted(call("reader", input="go", attachments=["DECK.PDF"]), "Ok."), toolsets=delegation_to("reader")
    )
    await place.run("main", mode=APPROVE_ALL)
    assert received(child) == [("application/pdf", sha256(PDF))]


async def test_the_same_file_twice_arrives_twice(place: Place) -> None:
    deck(place)
    child = scripted("Read them.")
    place.worker("reader", child)
    main = scripted(call("reader", input="go", attachments=["pipeline/deck.pdf", "/pipeline/./deck.pdf"]), "Ok.")
    place.worker("main", main, toolsets=delegation_to("reader"))
    await place.run("main", mode=APPROVE_ALL)
    assert received(child) == [("application/pdf", sha256(PDF))] * 2


def host_files(place: Place, *names: str) -> tuple[Attachment, ...]:
    """Files of the person who starts a run, as the command line takes them."""
    paths = [place.folder.parent / name for name in names]
    for path in paths:
        path.write_bytes(PDF)
    return snapshot_host_files(paths, LocalBlobStore(blob_folder(place.folder)), 20_000_000)


async def test_files_given_at_the_start_reach_the_entry_worker(place: Place) -> None:
    main = scripted("Read it.")
    place.worker("main", main)
    await place.run("main", attachments=host_files(place, "mine.pdf"))
    assert received(main) == [("application/pdf", sha256(PDF))]
    assert "mine.pdf" in main.requests[0].prompt


async def test_files_given_at_the_start_are_judged_by_the_entry_workers_policy(place: Place) -> None:
    place.worker("main", scripted("Never."), attachment_policy={"max_attachments": 1})
    with pytest.raises(AttachmentRefusal, match="2 files attached, but worker 'main' accepts at most 1"):
        await place.run("main", attachments=host_files(place, "one.pdf", "two.pdf"))


ALL = "approve_all"


def told(model: ScriptedModel) -> list[str]:
    return [result.text for result in model.requests[-1].results("reader")]


def caller(place: Place, *paths: str, **keys: Any) -> tuple[ScriptedModel, ScriptedModel]:
    """A worker that hands these paths to a reader, and the reader."""
    main = scripted(call("reader", input="Read.", attachments=list(paths)), "Done.")
    reader = scripted("Read.")
    place.worker("reader", reader)
    place.worker("main", main, toolsets={"delegation": {"reader": {}}}, **keys)
    place.write("input/deck.txt", "We sell kelp.")
    return main, reader


@pytest.mark.parametrize("keys", [{}, {"sandbox": {"restrict": "/input"}}])
async def test_a_path_of_the_host_inside_the_tree_is_that_file(place: Place, keys: dict[str, Any]) -> None:
    main, reader = caller(place, str(place.folder / "input/deck.txt"), **keys)
    run = await place.start("main", mode=ALL)
    await place.client.result(run)
    assert told(main) == ["Read."]
    assert "Attached file: /input/deck.txt" in reader.requests[0].prompt
    assert str(place.folder) not in reader.requests[0].prompt


async def test_what_a_person_and_the_result_name_is_the_virtual_path(place: Place) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    caller(place, str(place.folder / "input/deck.txt"))
    run = await place.start("main")
    (sharing,) = await place.pending(run)
    assert sharing.request.args == {"path": "/input/deck.txt", "bytes": 13, "target_worker": "reader"}
    await place.decide(run)
    await place.pending_is(run, "a2")
    (calling,) = await place.pending(run)
    assert calling.request.capabilities[0].payload["attachments"] == ["/input/deck.txt"]
    await place.decide(run)
    await place.client.result(run)


OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"sandbox": {"restrict": "/other"}}, "{folder}/input/deck.txt"),
    ({"sandbox": {"restrict": "/input"}}, "/etc/passwd"),
    ({}, "/etc/passwd"),
    ({}, "{folder}/../outside.txt"),
    ({}, "{folder}/.llm-do/blobs"),
    ({}, "{folder}-other/deck.txt"),
]


async def test_a_path_outside_the_tree_is_refused_as_ever(place: Place) -> None:
    place.write("other/x.txt", "x")
    place.write("../outside.txt", "x")
    for keys, path in OUTSIDE:
        main, _ = caller(place, path.format(folder=place.folder), **keys)
        run = await place.start("main", mode=ALL)
        await place.client.result(run)
        assert any(words in told(main)[0] for words in ("outside this", "does not exist", "contains '..'", ".llm-do"))
        assert len((await place.client.view(run)).nodes) == 1


async def test_every_spelling_of_a_file_is_an_entry_of_its_own(place: Place) -> None:
    paths = ["input/deck.txt", "/input/deck.txt", str(place.folder / "input/deck.txt"), "./input//deck.txt"]
    main, reader = caller(place, *paths)
    await place.run("main", mode=ALL)
    assert told(main) == ["Read."]
    assert reader.requests[0].prompt.count("Attached file: /input/deck.txt") == 4


SPELLINGS: list[tuple[dict[str, Any], str]] = [
    ({"path_map": {"path/to/deck.txt": "/input/deck.txt"}}, "path/to/deck.txt"),
    ({"path_map": {"path/to/deck.txt": "input/deck.txt"}}, "./path/to/deck.txt"),
    ({"base_path": "/input"}, "deck.txt"),
    ({"base_path": "/input"}, "/input/deck.txt"),
]


async def test_a_worker_may_have_spellings_of_its_own(place: Place) -> None:
    for attachments, path in SPELLINGS:
        main, reader = caller(place, path, attachments=attachments)
        await place.run("main", mode=ALL)
        assert told(main) == ["Read."]
        assert "Attached file: /input/deck.txt" in reader.requests[0].prompt


async def test_an_alias_opens_nothing_that_the_tree_does_not(place: Place) -> None:
    main, _ = caller(place, "deck", attachments={"path_map": {"deck": "../outside.txt"}})
    place.write("../outside.txt", "x")
    await place.run("main", mode=ALL)
    assert "contains '..'" in told(main)[0]
