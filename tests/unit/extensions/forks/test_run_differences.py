"""Differences of runs, and the accounts of runs that are compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.record.facts import FileReader
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.extensions.forks.client_differences import (
    NOT_AT_HAND,
    AnsweredCall,
    DecidedCall,
    FileAccount,
    FilePair,
    InvocationAccount,
    RunAccount,
    RunDifference,
    ToldTurn,
    compare,
    files_of,
    given_of,
    lines_between,
    turns_of,
)
from llm_do_temporal.policy.layers.layer import (
    CarriedLayer,
    LayerAuthor,
    LayerEntry,
    LayerNode,
    NodeKind,
    file_node,
    layer_of,
)
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.runs.histories import read_history

WRITE = AnsweredCall("write_file", {"path": "/a.md", "content": "one"}, "Wrote /a.md.")
READER = InvocationAccount("main/reader-1", "reader", given={"prompt": "a.pdf"}, turns=(ToldTurn(1, "A"),), begun_in=1)
HISTORIES = Path(__file__).parents[3] / "replay" / "histories"


def call_of(account: InvocationAccount) -> AnsweredCall:
    """The call that delegates to an invocation, with its answer."""
    return AnsweredCall(account.definition, {"prompt": account.given["prompt"]}, account.turns[-1].text)


def run_of(*children: InvocationAccount, turns: tuple[ToldTurn, ...] = (), **more: Any) -> RunAccount:
    """A run whose entry invocation calls these in its first turn, unless its turns are given."""
    own = turns or (ToldTurn(1, "", tuple(call_of(child) for child in children)), ToldTurn(2, "Done."))
    output = more.pop("output", "Done.")
    entry = InvocationAccount("main", "boss", given={"prompt": "go"}, turns=own, output=output, children=children)
    return RunAccount("run-1", "boss", output=output, roots=(entry,), **more)


def places(difference: RunDifference) -> list[tuple[str, str, str]]:
    """Kind, place and subject of each divergence."""
    return [(one.kind, one.place, one.what) for one in difference.divergences]


def test_equal_runs_do_not_differ_whatever_they_cost() -> None:
    found = compare(run_of(READER), replace(run_of(READER), run="run-2", questions=3, seconds=7.0))
    assert found.is_same
    assert [pair.divergence for pair in found.pairs] == [None, None]


def test_a_child_that_differs_is_told_before_its_caller() -> None:
    other = replace(READER, turns=(ToldTurn(1, "B"),), output="B")
    assert places(compare(run_of(READER), run_of(other))) == [
        ("answer", "main/reader-1 turn 1", "the answer"),
        ("result", "main turn 1", "the result of reader"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "kind", "what"),
    [
        (ToldTurn(1, "A"), ToldTurn(1, "B"), "answer", "the answer"),
        (ToldTurn(1, "A", (WRITE,)), ToldTurn(1, "A"), "answer", "the answer"),
        (
            ToldTurn(1, "A", (WRITE,)),
            ToldTurn(1, "A", (replace(WRITE, args={"path": "/b.md"}),)),
            "answer",
            "the answer",
        ),
        (
            ToldTurn(1, "A", (WRITE,)),
            ToldTurn(1, "A", (replace(WRITE, failed=True),)),
            "result",
            "the result of write_file",
        ),
        (
            ToldTurn(1, "A", (WRITE,), (DecidedCall("write_file", WRITE.args, "approve"),)),
            ToldTurn(1, "A", (WRITE,), (DecidedCall("write_file", WRITE.args, "reject", "no"),)),
            "decision",
            "the decision on write_file",
        ),
        (ToldTurn(1, "A", told=("yes",)), ToldTurn(1, "A", told=("no",)), "told", "what the model was told next"),
    ],
)
def test_the_first_difference_of_a_turn_is_named(one: ToldTurn, other: ToldTurn, kind: str, what: str) -> None:
    last = ToldTurn(2, "differs, too")
    found = compare(run_of(turns=(one, last)), run_of(turns=(other, replace(last, text="…"))))
    assert places(found) == [(kind, "main turn 1", what)]


def test_a_call_that_only_one_run_asked_about_is_no_difference() -> None:
    asked = (DecidedCall("write_file", WRITE.args, "approve"),)
    found = compare(run_of(turns=(ToldTurn(1, "", (WRITE,), asked),)), run_of(turns=(ToldTurn(1, "", (WRITE,)),)))
    assert found.is_same


def test_decisions_on_equal_calls_are_compared_one_by_one() -> None:
    yes, no = (DecidedCall("write_file", WRITE.args, decision) for decision in ("approve", "reject"))
    turns = [(ToldTurn(1, "", (WRITE, WRITE), decided),) for decided in ((yes, yes), (yes, no))]
    (only,) = compare(run_of(turns=turns[0]), run_of(turns=turns[1])).divergences
    assert (only.first, only.second) == ({"decision": "approve"}, {"decision": "reject"})


def test_reused_turns_and_calls_are_equal_to_those_they_were_taken_from() -> None:
    reused = ToldTurn(1, "A", (replace(WRITE, origin="run-1 main turn 1"),), origin="run-1 main turn 1")
    found = compare(run_of(turns=(ToldTurn(1, "A", (WRITE,)),)), run_of(turns=(reused,)))
    assert found.is_same
    second = found.pairs[0].second
    assert second is not None
    assert second.reused == 1


def test_a_child_whose_result_was_reused_is_no_difference() -> None:
    call = replace(call_of(READER), origin="run-1 main turn 1", child=READER.path)
    turns = (ToldTurn(1, "", (call,), origin="run-1 main turn 1"), ToldTurn(2, "Done."))
    for same in (turns, (replace(turns[0], calls=(replace(call, child=""),)), turns[1])):
        found = compare(run_of(READER), run_of(turns=same))
        assert found.is_same
        assert [(pair.first is None, pair.second is None) for pair in found.pairs] == [(False, False), (False, True)]
        assert compare(run_of(turns=same), run_of(READER)).is_same
    anew = (replace(turns[0], calls=(replace(call, origin="", child=""),)), turns[1])
    assert places(compare(run_of(READER), run_of(turns=anew))) == [
        ("only", "main/reader-1", "the invocation of reader")
    ]


def test_children_whose_numbers_have_moved_are_known_by_their_work() -> None:
    named = [replace(READER, given={"prompt": name}, path=f"main/reader-{n}") for n, name in enumerate("abc", 1)]
    moved = [replace(one, path=f"main/reader-{n}") for n, one in zip((3, 1, 2), named, strict=True)]
    found = compare(run_of(*named), run_of(*moved))
    assert found.divergences == ()
    pairs = [(pair.first.path, pair.second.path) for pair in found.pairs[1:] if pair.first and pair.second]
    assert pairs == [(f"main/reader-{n}", f"main/reader-{m}") for n, m in ((1, 3), (2, 1), (3, 2))]


def test_a_child_with_other_work_is_paired_by_its_worker_and_one_too_many_stands_alone() -> None:
    other = replace(READER, given={"prompt": "b.pdf"})
    extra = replace(READER, path="main/reader-2", given={"prompt": "c.pdf"})
    found = compare(run_of(READER), run_of(other, extra))
    assert places(found) == [
        ("answer", "main turn 1", "the answer"),
        ("given", "main/reader-1", "the prompt"),
        ("only", "main/reader-2", "the invocation of reader"),
    ]
    assert [one.first for one in found.divergences if one.kind == "only"] == [None]


def test_what_follows_from_a_later_turn_of_the_caller_is_told_after_it() -> None:
    late = replace(READER, begun_in=2)
    turns = tuple((ToldTurn(1, text), ToldTurn(2, "", (call_of(late),))) for text in "AB")
    one, other = run_of(late, turns=turns[0]), run_of(replace(late, model="m"), turns=turns[1])
    assert places(compare(one, other)) == [
        ("answer", "main turn 1", "the answer"),
        ("given", "main/reader-1", "the model"),
    ]


def test_a_longer_conversation_differs_where_the_shorter_one_ends() -> None:
    first = ToldTurn(1, "", (WRITE,))
    found = compare(run_of(turns=(first,)), run_of(turns=(first, ToldTurn(2, "More."))))
    assert places(found) == [("answer", "main turn 2", "the answer")]
    assert (found.divergences[0].first, found.divergences[0].second) == (None, "More.")


def test_ends_differ_in_words_or_in_their_state() -> None:
    turns = (ToldTurn(1, "Done."),)
    failed = run_of(turns=turns, output=None)
    failed = replace(failed, roots=(replace(failed.roots[0], status="failed", error="no key"),))
    assert places(compare(run_of(turns=turns), failed)) == [("end", "main turn 1", "the end")]


def test_items_of_batches_are_known_by_their_names() -> None:
    items = [InvocationAccount(f"item-{n}", "reader", item=name) for n, name in enumerate(("a", "b"), 1)]
    moved = [replace(one, path=f"item-{3 - n}") for n, one in enumerate(items, 1)]
    one, other = (RunAccount("run", "reader", roots=tuple(roots)) for roots in (items, reversed(moved)))
    assert compare(one, other).is_same


def test_files_differ_in_their_bytes_and_where_both_tell_them_in_their_permissions() -> None:
    digests = [number * 64 for number in "12"]
    written = file_node(digests[0], 3, blob=None, mode=0)
    layered = file_node(digests[0], 3, blob=digests[0], mode=0o755)

    def files(*nodes: LayerNode | None) -> tuple[FileAccount, ...]:
        return tuple(FileAccount(f"f{number}", "main", node) for number, node in enumerate(nodes))

    mine = files(written, layered, layered, None, None, LayerNode(kind=NodeKind.FILE, bytes=3))
    theirs = files(layered, layered.with_mode(0o644), file_node(digests[1], 3, blob=None), None, written)
    found = compare(run_of(files=mine), run_of(files=theirs))
    assert [pair.path for pair in found.files] == ["f1", "f2", "f4", "f5"]
    assert found.same_files == 2
    assert not found.is_same


def test_a_file_whose_digest_nobody_knows_is_like_no_other() -> None:
    file = FileAccount("a", "main", LayerNode(kind=NodeKind.FILE, bytes=3))
    assert not file.is_like(file)
    link = FileAccount("a", "main", LayerNode(kind=NodeKind.LINK, target="b"))
    assert link.is_like(link)


def events(name: str) -> list[HistoryEvent]:
    """The events of a recorded history."""
    return list(read_history(HISTORIES / f"0.1.0-{name}.json.gz").events)


def entries(name: str) -> list[Entry]:
    """The conversation in a recorded history."""
    transcriber = Transcriber()
    return [entry for event in events(name) for entry in transcriber.apply(event)]


def left_by(name: str) -> dict[str, FileAccount]:
    """The files that a recorded run has left."""
    reader = FileReader("main")
    for event in events(name):
        reader.take(event)
    files, problem = files_of(reader.steps, None, None)
    assert not problem
    return {one.path: one for one in files}


def test_a_conversation_becomes_turns_with_calls_results_and_decisions() -> None:
    told = entries("modify/run-1")
    assert given_of(told) == ({"prompt": "go"}, "Do it.")
    first, second = turns_of(told)
    (call,) = first.calls
    assert (call.tool, call.args, call.failed, call.origin) == (
        "write_file",
        {"path": "/a.txt", "content": "hi"},
        False,
        "",
    )
    assert str(call.result).startswith("Wrote /b.txt")
    (decided,) = first.decided
    assert decided.words == {"decision": "modify", "args": {"path": "/b.txt", "content": "better"}}
    assert (second.number, second.text, second.calls) == (2, "Done.", ())


def test_a_written_file_is_known_by_its_bytes() -> None:
    (file,) = left_by("modify/run-1").values()
    assert (file.path.rpartition("/")[2], file.text, file.by) == ("b.txt", "better", "main")
    assert file.now is not None
    assert file.now.bytes == 6


def test_a_layer_in_the_blob_store_tells_its_files(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path)
    name = blobs.put_bytes(b"new\n")
    base = blobs.put_bytes(b"old\n")
    author = LayerAuthor(invocation="main/editor-1", turn=2)
    now, before = (file_node(digest, 4, blob=digest) for digest in (name, base))
    folder = LayerNode(kind=NodeKind.FOLDER, mode=0o755)
    layer = layer_of(
        {
            "a": LayerEntry(now=now, base=before, author=author),
            "d": LayerEntry(now=folder, base=None, author=author),
            "gone": LayerEntry(now=None, base=before, author=author),
        }
    )
    manifest = blobs.put_bytes(layer.model_dump_json().encode())
    files, problem = files_of((), CarriedLayer(manifest=manifest), blobs)
    assert [(one.path, one.by, one.now) for one in files] == [
        ("a", "main/editor-1", now),
        ("gone", "main/editor-1", None),
    ]
    assert not problem
    assert files_of((), CarriedLayer(manifest=manifest), None) == ((), NOT_AT_HAND)

    first, gone = files
    (hunk,), _ = lines_between(FilePair("a", first, None), blobs)
    assert hunk.lines == ("-new\n", "+old\n")
    assert lines_between(FilePair("a", None, first), None)[1] == "its bytes before the change are not kept"
    (hunk,), _ = lines_between(FilePair("gone", gone, None), blobs)
    assert hunk.lines == ("+old\n",)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (LayerNode(kind=NodeKind.LINK, target="x"), "a link has no lines"),
        (file_node("1" * 64, 10**9, blob="1" * 64), "larger than the 1048576 bytes that are compared"),
        (file_node("1" * 64, 10, blob=None), "its bytes are not at hand"),
        (file_node("1" * 64, 10, blob="1" * 64), "its bytes are not at hand"),
    ],
)
def test_what_has_no_lines_says_why(tmp_path: Path, node: LayerNode, problem: str) -> None:
    file = FileAccount("a", "main", node)
    assert lines_between(FilePair("a", file, None), LocalBlobStore(tmp_path)) == ((), problem)
