"""Accounts of runs, as recorded histories tell them: turns, decisions, files."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.differences.account import FileAccount, given_of, turns_of
from llm_do_temporal.client.differences.comparison import FilePair
from llm_do_temporal.client.differences.files import NOT_AT_HAND, FileChanges, lines_between
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
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

HISTORIES = Path(__file__).parents[2] / "replay" / "histories"


def events(name: str) -> list[HistoryEvent]:
    """The events of a recorded history."""
    return list(read_history(HISTORIES / f"0.1.0-{name}.json.gz").events)


def entries(name: str) -> list[Entry]:
    """The conversation in a recorded history."""
    transcriber = Transcriber()
    return [entry for event in events(name) for entry in transcriber.apply(event)]


def files_of(name: str) -> dict[str, FileAccount]:
    """The files that a recorded run has left."""
    changes = FileChanges()
    for event in events(name):
        changes.take("run-1", "main", event)
    files, problem = changes.files(None)
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
    (file,) = files_of("modify/run-1").values()
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
    changes = FileChanges()
    changes.keep_layer(CarriedLayer(manifest=manifest))
    files, problem = changes.files(blobs)
    assert [(one.path, one.by, one.now) for one in files] == [
        ("a", "main/editor-1", now),
        ("gone", "main/editor-1", None),
    ]
    assert not problem
    assert changes.files(None) == ((), NOT_AT_HAND)

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
