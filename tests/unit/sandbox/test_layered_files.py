"""Files through a layer, and contents of layers: random programs beside a real folder, what is kept comes back."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.errors import DecisionRefused, EffectFailed, LlmDoError, SandboxRefusal
from llm_do_temporal.messages.activities import EditFileInput, FileChange, ListFilesInput, ReadFileInput, WriteFileInput
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
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
from llm_do_temporal.sandbox.changes import MAX_HASHED_BYTES, see_file
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.layers.files import LayeredFiles
from llm_do_temporal.sandbox.listing import list_tree
from llm_do_temporal.sandbox.safe_open import FileOpener, WorkshopFolder
from tests.support.workshops.file_tree import WHOLE, assert_failed, assert_refused
from tests.support.workshops.layer_programs import LayerPlay, in_folder, random_program, random_tree
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs, PlayedDraft, seen, text_file

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


TWO_NAMES = Tree(mounts=(Mount(at="/", root="."), Mount(at="/other", root="data")))


class Session:
    """Calls of one worker on its layer, one after the other, as a workflow makes them."""

    def __init__(self, workshop: Path) -> None:
        self.workshop = workshop
        self.blobs = MemoryBlobs()
        self.contents = LayerContents(self.blobs)
        self.layer = CarriedLayer()
        self.tree = WHOLE
        self._activities = FileActivities(workshop, self.blobs)

    def read(self, path: str) -> str:
        return self._run(self._activities.read_file, ReadFileInput(**self._at(path), max_chars=100, offset=0)).content

    def write(self, path: str, content: str) -> FileChange:
        return self._changed(self._activities.write_file, WriteFileInput(**self._at(path), content=content))

    def edit(self, path: str, old: str, new: str) -> FileChange:
        asked = EditFileInput(**self._at(path), old_text=old, new_text=new)
        return self._changed(self._activities.edit_file, asked)

    def names(self, path: str = "/") -> list[str]:
        asked = ListFilesInput(tree=self.tree, path=path, pattern="**/*", layer=self.work)
        return [entry.path for entry in self._run(self._activities.list_files, asked).files]

    def draft(self, steps: Callable[[PlayedDraft], None]) -> None:
        """Change the layer as a command would."""
        with base_files(self.workshop, contents=self.contents) as base:
            before = self.contents.whole(self.layer)
            draft = PlayedDraft(before, base, EDITOR)
            steps(draft)
            self.layer = self.layer.updated(self.contents.update_of(self.layer, before, draft.layer()))

    @property
    def work(self) -> LayerWork:
        return LayerWork(carried=CarriedLayer.model_validate_json(self.layer.model_dump_json()), author=EDITOR)

    @property
    def whole(self) -> Layer:
        return self.contents.whole(self.layer)

    def _changed(self, activity: Callable[[Any], Any], asked: Any) -> FileChange:
        change: FileChange = self._run(activity, asked)
        assert change.layer is not None
        self.layer = self.layer.updated(LayerUpdate.model_validate_json(change.layer.model_dump_json()))
        return change

    def _at(self, path: str) -> dict[str, Any]:
        place = locate(self.tree, path)
        return {"mount": place.mount, "relative": place.relative, "path": place.path, "layer": self.work}

    def _run(self, activity: Callable[[Any], Any], asked: Any) -> Any:
        return ActivityEnvironment().run(activity, asked)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    workshop = tmp_path / "workshop"
    (workshop / "data").mkdir(parents=True)
    (workshop / "data/a.txt").write_text("before")
    return Session(workshop)


def test_what_a_call_writes_the_next_one_finds_and_the_folder_stays_as_it_is(session: Session) -> None:
    before = seen(session.workshop)
    assert session.write("/new/b.txt", "new").created
    assert session.edit("/data/a.txt", "before", "after").diff
    assert (session.read("/new/b.txt"), session.read("/data/a.txt")) == ("new", "after")
    assert session.names() == ["/data/a.txt", "/new/b.txt"]
    entry = session.whole.entries["data/a.txt"]
    assert (entry.author, entry.base and entry.base.sha256) == (EDITOR, hashlib.sha256(b"before").hexdigest())
    assert seen(session.workshop) == before


def test_a_write_that_changes_nothing_is_no_change_of_the_layer(session: Session) -> None:
    assert session.write("/data/a.txt", "before").layer == LayerUpdate()
    assert session.whole == NO_LAYER


def test_a_second_attempt_of_an_edit_comes_to_the_same(session: Session) -> None:
    before = session.layer
    first = session.edit("/data/a.txt", "before", "before and after")
    session.layer = before
    assert session.edit("/data/a.txt", "before", "before and after") == first


def test_a_long_layer_travels_as_a_manifest_and_goes_on(session: Session) -> None:
    for number in range(3 * MAX_RECENT):
        session.write(f"/{number}.txt", str(number))
        assert not session.layer.is_long
    assert session.layer.manifest is not None
    assert [session.read(f"/{number}.txt") for number in (0, 40)] == ["0", "40"]
    assert len(session.names()) == 3 * MAX_RECENT + 1


def test_one_file_that_is_seen_by_two_names_is_one_file(session: Session) -> None:
    session.tree = TWO_NAMES
    session.write("/other/a.txt", "changed")
    session.tree = WHOLE
    assert session.read("/data/a.txt") == "changed"
    assert set(session.whole.changes) == {"data/a.txt"}


def test_what_is_deleted_in_the_layer_is_not_there(session: Session) -> None:
    session.draft(lambda draft: draft.delete("data"))
    assert session.names() == []
    assert_failed(session.read, "/data/a.txt", says="'/data/a.txt' does not exist")
    assert_failed(session.names, "/data", says="'/data' does not exist")
    assert_failed(session.edit, "/data/a.txt", "before", "x", says="'/data/a.txt' does not exist")
    assert session.write("/data/b.txt", "new").created
    assert session.names() == ["/data/b.txt"]


@pytest.mark.parametrize("name", ["?", "*", "-", "a\nb", "=", " "])
def test_a_file_with_an_odd_name_is_deleted_and_nothing_else_with_it(session: Session, name: str) -> None:
    (session.workshop / "data" / name).write_text("odd")
    session.draft(lambda draft: draft.delete(f"data/{name}"))
    assert session.names() == ["/data/a.txt"]
    session.write(f"/data/{name}", "again")
    assert session.read(f"/data/{name}") == "again"
    assert session.names() == sorted(["/data/a.txt", f"/data/{name}"])


def test_a_folder_that_became_a_file_or_a_link_hides_what_was_in_it(session: Session) -> None:
    session.draft(lambda draft: draft.delete("data"))
    session.write("/data", "a file")
    assert_failed(session.read, "/data/a.txt", says="a part of the path is a file")
    assert_failed(session.write, "/data/a.txt", "x", says="a part of the path is a file")
    session.draft(lambda draft: draft.delete("data"))
    session.draft(lambda draft: draft.link("data", "nowhere"))
    assert_failed(session.read, "/data/a.txt", says="does not exist")
    assert_refused(session.write, "/data/a.txt", "x", says="nothing is written through links")


def test_links_of_the_layer_and_of_the_folder_lead_to_each_others_files(session: Session) -> None:
    (session.workshop / "real").symlink_to("new")
    session.write("/new/b.txt", "new")
    session.draft(lambda draft: draft.link("made", "data"))
    session.draft(lambda draft: draft.link("chain", "real/../made/a.txt"))
    assert (session.read("/real/b.txt"), session.read("/made/a.txt"), session.read("/chain")) == (
        "new",
        *["before"] * 2,
    )
    assert session.names() == ["/chain", "/data/a.txt", "/new/b.txt"]


@pytest.mark.parametrize("target", ["../outside/secret.txt", "/etc/passwd", "data/../../outside/secret.txt"])
def test_a_link_that_a_command_made_in_the_layer_leads_nowhere_out(
    session: Session, outside: Path, target: str
) -> None:
    session.draft(lambda draft: draft.link("out", target))
    assert_refused(session.read, "/out", says="leads out of this worker's files")
    assert_refused(session.write, "/out", "mine", says="nothing is written through links")
    assert session.names() == ["/data/a.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_narrower_tree_does_not_begin_at_a_link_of_the_layer(session: Session) -> None:
    session.write("/secret/key.txt", "key")
    session.draft(lambda draft: draft.link("data/src", "../secret"))
    session.tree = Tree(mounts=(Mount(at="/src", root="data/src", base="data"),))
    assert_refused(session.read, "/src/key.txt", says="leads out")
    assert_refused(session.names, "/src", says="leads out")


def test_names_of_our_own_are_refused_by_their_virtual_path(session: Session) -> None:
    session.tree = Tree(mounts=(Mount(at="/", root="data"),))
    name = ".llm-do-0123456789abcdef.tmp"
    assert_refused(session.write, f"/{name}", "mine", says=f"'{name}' is a name that llm-do-temporal keeps")


def test_bytes_that_are_lost_are_an_error_that_names_the_file(session: Session) -> None:
    session.write("/lost.txt", "here today")
    node = session.whole.entries["lost.txt"].now
    assert node is not None
    assert node.blob is not None
    del session.blobs.blobs[node.blob]
    assert_failed(session.read, "/lost.txt", says="the bytes of '/lost.txt' cannot be read: blob '")
    assert_failed(session.edit, "/lost.txt", "today", "x", says="the bytes of '/lost.txt' cannot be read: blob '")
    # its size is known without them
    assert session.names() == ["/data/a.txt", "/lost.txt"]


def test_a_layer_that_is_lost_is_an_error(session: Session) -> None:
    session.layer = CarriedLayer(manifest="0" * 64)
    assert_failed(session.read, "/data/a.txt", says="is not in the blob store")


def test_a_large_file_of_a_layer_is_the_same_file_each_time_it_is_looked_at(session: Session) -> None:
    data = b"x" * (MAX_HASHED_BYTES + 1)
    kept = session.contents.keep(data, "large")
    session.draft(lambda draft: draft.write("large", kept, 0o600))
    files = LayeredFiles(session.workshop, session.work, session.contents)
    first, second = (see_file(files, locate(WHOLE, "/large")) for _ in range(2))
    assert first == second
    assert (first.sha256, first.mode) == (kept.sha256, 0o600)


def test_a_file_with_nothing_of_it_kept_is_that_of_the_folder(session: Session) -> None:
    session.draft(lambda draft: draft.put("data/a.txt", draft.base.look("data/a.txt")))
    assert session.read("/data/a.txt") == "before"
    assert session.names() == ["/data/a.txt"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", range(2))
def test_random_programs_leave_the_same_files_to_be_seen_as_in_a_real_folder(tmp_path: Path, share: int) -> None:
    for seed in range(share, 300, 2):
        dice, base, real = random.Random(seed), tmp_path / f"{seed}" / "base", tmp_path / f"{seed}" / "real"
        base.mkdir(parents=True)
        random_tree(dice, base)
        shutil.copytree(base, real, symlinks=True)
        contents = LayerContents(MemoryBlobs())
        program = random_program(dice, commands=False)
        with base_files(base, contents=contents) as files:
            play = LayerPlay(files, contents, tmp_path)
            for operation in program:
                play.carry_out(operation)
                in_folder(operation, real)
        work = LayerWork(carried=CarriedLayer(manifest=contents.manifest_of(play.layer)), author=EDITOR)
        layered = LayeredFiles(base, work, contents)
        assert found(layered, real) == found(WorkshopFolder(real), real), (seed, program)


def found(files: FileOpener, real: Path) -> dict[str, object]:
    """Return all that is listed with size, bytes and permissions, and what becomes of reading each path there is."""
    everything = ListFilesInput(tree=WHOLE, path="/", pattern="**/*")
    seen: dict[str, object] = {entry.path: entry.bytes for entry in list_tree(files, everything).files}
    for path in sorted(real.rglob("*")):
        name = str(path.relative_to(real))
        with suppress(LlmDoError), files.found(locate(WHOLE, name)) as (file, in_workshop):
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            seen[name] = (file.read(), mode, in_workshop, files.size(locate(WHOLE, name)))
    return seen
