"""Contents of layers: what is kept comes back, files are accepted in parts, and a long layer travels light."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from llm_do_temporal.errors import DecisionRefused, EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.layer import (
    MAX_RECENT,
    NO_LAYER,
    CarriedLayer,
    Layer,
    LayerNode,
    LayerUpdate,
    carried,
    layer_of,
    link_node,
)
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs, text_file

OLD = "".join(f"line {n}\n" for n in range(30))
NEW = OLD.replace("line 3\n", "third\n").replace("line 25\n", "twenty-fifth\n")


@pytest.fixture
def contents() -> LayerContents:
    return LayerContents(MemoryBlobs(), max_file_bytes=100_000)


@pytest.fixture
def base(tmp_path: Path, contents: LayerContents) -> Generator[BaseFiles]:
    (tmp_path / "a.txt").write_text(OLD)
    (tmp_path / "b.txt").write_text("b")
    with base_files(tmp_path, contents=contents) as files:
        yield files


def _written(base: BaseFiles, contents: LayerContents, path: str, text: str) -> Layer:
    draft = LayerDraft(NO_LAYER, base, EDITOR)
    draft.write(path, contents.keep(text.encode(), path))
    return draft.layer()


def _nodes(layer: Layer, path: str) -> tuple[LayerNode, LayerNode]:
    now, was = layer.entries[path].now, layer.entries[path].base
    assert now is not None
    assert was is not None
    return was, now


def test_a_file_is_accepted_by_hunks_and_the_rest_is_what_is_left(base: BaseFiles, contents: LayerContents) -> None:
    layer = contents.with_bases(_written(base, contents, "a.txt", NEW), base)
    was, now = _nodes(layer, "a.txt")
    hunks = contents.hunks("a.txt", was, now)
    assert hunks is not None
    first, second = hunks.hunks
    node = contents.with_hunks("a.txt", was, now, frozenset({first.id}))
    part = layer_of({"a.txt": layer.entries["a.txt"].model_copy(update={"now": node})})
    in_part = part.entries["a.txt"].now
    assert in_part is not None
    assert contents.read(in_part, "a.txt").decode() == OLD.replace("line 3\n", "third\n")
    left = layer.since(part)
    rest = contents.hunks("a.txt", left.entries["a.txt"].base, left.entries["a.txt"].now)
    assert rest is not None
    assert [hunk.lines for hunk in rest.hunks] == [second.lines]
    with pytest.raises(DecisionRefused, match="there is no part"):
        contents.with_hunks("a.txt", in_part, now, frozenset({first.id}))


def test_a_file_that_a_person_edits_keeps_its_permissions(contents: LayerContents) -> None:
    node = contents.edited("a.sh", text_file("x", 0o755), b"edited")
    assert (contents.read(node, "a.sh"), node.mode) == (b"edited", 0o755)


def test_what_has_no_hunks(base: BaseFiles, contents: LayerContents) -> None:
    kept = contents.keep(b"\0", "x")
    binary = text_file("").model_copy(update={"sha256": kept.sha256, "blob": kept.blob, "bytes": 1})
    text = contents.edited("x", text_file("x"), b"text")
    assert contents.hunks("x", None, text) is None
    assert contents.hunks("x", text, text_file("text", kept=False)) is None
    assert contents.hunks("x", link_node("y"), text) is None
    with pytest.raises(DecisionRefused, match="cannot be accepted in parts"):
        contents.with_hunks("x", text, binary, frozenset())


def test_the_bytes_of_before_are_kept_while_they_are_what_the_layer_found(
    base: BaseFiles, contents: LayerContents, tmp_path: Path
) -> None:
    draft = LayerDraft(_written(base, contents, "a.txt", NEW), base, EDITOR)
    draft.write("b.txt", contents.keep(b"B", "b.txt"))
    draft.write("new.txt", contents.keep(b"N", "new.txt"))
    (tmp_path / "b.txt").write_text("changed by somebody")
    layer = contents.with_bases(draft.layer(), base)
    was, _now = _nodes(layer, "a.txt")
    assert contents.read(was, "a.txt").decode() == OLD
    assert _nodes(layer, "b.txt")[0].blob is None
    # What is reviewed is the same.
    assert layer.digest() == draft.layer().digest()


def test_a_file_that_cannot_be_read_before_a_review_stays_without(contents: LayerContents) -> None:
    class Refusing(FilesInMind):
        def kept(self, path: str) -> LayerNode | None:
            raise SandboxRefusal(f"'{path}' is too large")

    files = Refusing()
    files.put("a.txt", text_file("a", kept=False))
    draft = LayerDraft(NO_LAYER, files, EDITOR)
    draft.delete("a.txt")
    assert contents.with_bases(draft.layer(), files) == draft.layer()


def test_bytes_that_are_not_kept_or_too_many_are_refused(contents: LayerContents) -> None:
    with pytest.raises(EffectFailed, match="the bytes of 'a' are not in the blob store"):
        contents.read(text_file("a", kept=False), "a")
    with pytest.raises(EffectFailed, match=r"the bytes of 'a' cannot be read: blob '.*' is not in the blob store"):
        contents.read(text_file("a"), "a")
    with pytest.raises(SandboxRefusal, match="'a' has more than the 100000 bytes"):
        contents.keep(b"x" * 100_001, "a")
    with pytest.raises(SandboxRefusal, match="'a' has more than the 3 bytes"):
        contents.limited_to(3).keep(b"four", "a")


def test_a_layer_travels_light_and_is_whole_where_it_arrives(contents: LayerContents) -> None:
    files = FilesInMind()
    layer, sent, manifest, at_manifest = NO_LAYER, 0, None, NO_LAYER
    for number in range(200):
        travelling = carried(layer, manifest, at_manifest)
        sent += len(travelling.model_dump_json())
        assert contents.whole(CarriedLayer.model_validate_json(travelling.model_dump_json())) == layer
        draft = LayerDraft(contents.whole(travelling), files, EDITOR)
        draft.write(f"file-{number}", contents.keep(str(number).encode(), f"file-{number}"))
        updates = draft.layer().updates_since(layer)
        assert len(updates.entries) == 1
        layer = layer.with_updates(updates)
        if travelling.is_long:
            manifest, at_manifest = contents.manifest_of(draft.layer()), draft.layer()
    assert len(layer.entries) == 200
    # Half of a full load for each call, and not half of the layer.
    assert sent < 200 * 150 * MAX_RECENT


def _steps(contents: LayerContents, travelled: CarriedLayer, names: list[str]) -> tuple[LayerUpdate, Layer]:
    """Return what an activity that writes these files says of the layer, and the whole of it."""
    before = contents.whole(travelled)
    draft = LayerDraft(before, FilesInMind(), EDITOR)
    for name in names:
        draft.write(name, contents.keep(name.encode(), name))
    return contents.update_of(travelled, before, draft.layer()), draft.layer()


def test_what_each_call_changes_adds_up_to_the_layer_with_little_beside_a_manifest(contents: LayerContents) -> None:
    travelled, whole, manifests = CarriedLayer(), NO_LAYER, 0
    for number in range(100):
        update, whole = _steps(contents, travelled, [f"file-{number}", f"other-{number % 7}"])
        manifests += update.manifest is not None
        travelled = CarriedLayer.model_validate_json(travelled.updated(update).model_dump_json())
        assert contents.whole(travelled) == whole
        assert len(travelled.recent.entries) <= MAX_RECENT
    assert 0 < manifests < 100 / 6


def test_many_changes_of_one_call_travel_as_a_manifest(contents: LayerContents) -> None:
    update, whole = _steps(contents, CarriedLayer(), [f"file-{number}" for number in range(MAX_RECENT + 1)])
    assert (update.entries, contents.whole(CarriedLayer().updated(update))) == (NO_LAYER, whole)


def test_a_call_that_changes_nothing_says_so(contents: LayerContents) -> None:
    update, _whole = _steps(contents, CarriedLayer(), [])
    assert update == LayerUpdate()


def test_a_manifest_is_read_once_by_several_calls_of_one_turn() -> None:
    class CountedBlobs(MemoryBlobs):
        reads = 0

        def read(self, sha256: str) -> bytes:
            self.reads += 1
            return super().read(sha256)

    blobs = CountedBlobs()
    contents = LayerContents(blobs)
    update, whole = _steps(contents, CarriedLayer(), [f"file-{number}" for number in range(100)])
    travelled = CarriedLayer().updated(update)
    assert all(contents.limited_to(limit).whole(travelled) == whole for limit in (None, 1, 2))
    assert blobs.reads == 1


def test_a_manifest_that_is_not_there_is_an_error(contents: LayerContents) -> None:
    with pytest.raises(EffectFailed, match="is not in the blob store"):
        contents.whole(CarriedLayer(manifest="0" * 64))
