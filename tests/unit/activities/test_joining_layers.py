"""Layers of activities: what a child changed is joined, and workers are made in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.delegation import DelegationActivities
from llm_do_temporal.activities.files import MAX_TOLD, LayerActivities
from llm_do_temporal.messages.activities import DraftWorkerInput, SavedWorker, SaveWorkerInput
from llm_do_temporal.messages.layers import JoinedLayers, JoinLayersInput, LayerWork
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import MAX_RECENT, CarriedLayer, Layer, LayerUpdate
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.file_tree import failure_of
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs, PlayedDraft, seen

TREE = Tree(mounts=(Mount(at="/work", root="."),))


class Family:
    """A caller and its children, each with a layer that travels."""

    def __init__(self) -> None:
        blobs = MemoryBlobs()
        self.contents = LayerContents(blobs)
        self.activities = LayerActivities(blobs)

    def wrote(self, layer: CarriedLayer, text: str, *names: str) -> CarriedLayer:
        """Return the layer after these files were written."""
        before = self.contents.whole(layer)
        draft = LayerDraft(before, FilesInMind(), EDITOR)
        for name in names:
            draft.write(name, self.contents.keep(text.encode(), name))
        return layer.updated(self.contents.update_of(layer, before, draft.layer()))

    def joined(self, mine: CarriedLayer, child: CarriedLayer, fork: CarriedLayer) -> JoinedLayers:
        asked = JoinLayersInput(mine=mine, child=child, fork=fork, tree=TREE)
        travelled = JoinLayersInput.model_validate_json(asked.model_dump_json())
        return ActivityEnvironment().run(self.activities.join_layers, travelled)

    def texts(self, layer: CarriedLayer) -> dict[str, str]:
        whole: Layer = self.contents.whole(layer)
        nodes = ((path, entry.now) for path, entry in whole.changes.items())
        return {path: self.contents.read(node, path).decode() for path, node in nodes if node is not None}


@pytest.fixture
def family() -> Family:
    return Family()


def test_a_childs_work_joins_that_of_its_sibling(family: Family) -> None:
    fork = family.wrote(CarriedLayer(), "before", "a", "b")
    one, other = family.wrote(fork, "one", "a"), family.wrote(fork, "other", "b", "c")
    mine = fork.updated(family.joined(fork, one, fork).update)
    joined = family.joined(mine, other, fork)
    assert (joined.conflicts, joined.more) == ((), 0)
    assert family.texts(mine.updated(joined.update)) == {"a": "one", "b": "other", "c": "other"}


def test_of_what_both_changed_the_callers_side_stays_and_the_rest_joins(family: Family) -> None:
    fork = family.wrote(CarriedLayer(), "before", "a")
    mine, child = family.wrote(fork, "mine", "a"), family.wrote(fork, "child", "a", "b")
    joined = family.joined(mine, child, fork)
    assert joined.conflicts == ("/work/a: it was changed on both sides",)
    assert family.texts(mine.updated(joined.update)) == {"a": "mine", "b": "child"}


def test_a_child_that_changed_nothing_changes_nothing(family: Family) -> None:
    fork = family.wrote(CarriedLayer(), "before", "a")
    assert family.joined(fork, fork, fork) == JoinedLayers(update=family.contents.update_of(fork, Layer(), Layer()))


def test_many_files_of_a_child_join_by_a_manifest(family: Family) -> None:
    child = family.wrote(CarriedLayer(), "child", *(f"file-{number}" for number in range(MAX_RECENT + 1)))
    joined = family.joined(CarriedLayer(), child, CarriedLayer())
    assert joined.update.manifest is not None
    assert family.texts(CarriedLayer().updated(joined.update)) == family.texts(child)


def test_many_conflicts_are_counted_beyond_the_first(family: Family) -> None:
    names = [f"{number:03}" for number in range(MAX_TOLD + 7)]
    mine, child = (family.wrote(CarriedLayer(), text, *names) for text in ("mine", "child"))
    joined = family.joined(mine, child, CarriedLayer())
    assert (len(joined.conflicts), joined.more, joined.conflicts[0][:10]) == (MAX_TOLD, 7, "/work/000:")


def test_a_layer_whose_manifest_is_not_there_is_an_error(family: Family) -> None:
    lost = CarriedLayer(manifest="0" * 64)
    failure = failure_of(family.joined, CarriedLayer(), lost, CarriedLayer())
    assert failure.type == "EffectFailed"
    assert "is not in the blob store" in failure.message


FILE = "workers/generated/helper.worker"


class Makers:
    """Calls of `save_worker`, on a layer or on the workshop itself."""

    def __init__(self, workshop: Path) -> None:
        self.workshop = workshop
        self.layer = CarriedLayer()
        self._blobs = MemoryBlobs()
        self.contents = LayerContents(self._blobs)
        self._activities = DelegationActivities(workshop, self._blobs)

    def text(self, instructions: str = "Help.") -> str:
        asked = DraftWorkerInput(name="helper", description="", instructions=instructions)
        return ActivityEnvironment().run(self._activities.draft_worker, asked).text

    def save(self, text: str, *, layered: bool = True) -> SavedWorker:
        work = LayerWork(carried=self.layer, author=EDITOR) if layered else None
        asked = SaveWorkerInput(name="helper", text=text, layer=work)
        saved: SavedWorker = ActivityEnvironment().run(self._activities.save_worker, asked)
        if saved.layer is not None:
            self.layer = self.layer.updated(saved.layer)
        return saved

    def draft(self, steps: Callable[[PlayedDraft], None]) -> None:
        with base_files(self.workshop) as base:
            before = self.contents.whole(self.layer)
            draft = PlayedDraft(before, base, EDITOR)
            steps(draft)
            self.layer = self.layer.updated(self.contents.update_of(self.layer, before, draft.layer()))


@pytest.fixture
def makers(tmp_path: Path) -> Makers:
    (tmp_path / "workshop.yaml").write_text("model: offline:notes\n")
    return Makers(tmp_path)


def test_a_worker_is_made_in_the_layer_and_nowhere_else(makers: Makers) -> None:
    text, before = makers.text(), seen(makers.workshop)
    saved = makers.save(text)
    assert saved.source == FILE
    node = makers.contents.whole(makers.layer).entries[FILE].now
    assert node is not None
    assert makers.contents.read(node, FILE).decode() == text
    assert seen(makers.workshop) == before


def test_without_a_layer_the_file_is_written(makers: Makers) -> None:
    text = makers.text()
    assert makers.save(text, layered=False).layer is None
    assert (makers.workshop / FILE).read_text() == text
    assert makers.save(text, layered=False).source == FILE


def test_the_same_worker_again_changes_nothing(makers: Makers) -> None:
    text = makers.text()
    makers.save(text)
    assert makers.save(text).layer == LayerUpdate()


def test_a_worker_that_the_layer_has_already_is_not_overwritten(makers: Makers) -> None:
    makers.save(makers.text())
    failure = failure_of(makers.save, makers.text("Do something else."))
    assert failure.type == "DelegationRefusal"
    assert f"worker 'helper' exists already ({FILE}); no worker is overwritten" in failure.message


@pytest.mark.parametrize("path", ["helper.worker", "workers/helper.yaml", "workers/helper/worker.worker"])
@pytest.mark.parametrize("link", [True, False])
def test_a_name_that_another_file_of_the_layer_has_is_taken(makers: Makers, path: str, *, link: bool) -> None:
    text = makers.text()
    kept = makers.contents.keep(text.encode(), path)
    makers.draft(lambda draft: draft.folder("workers/helper"))
    makers.draft(lambda draft: draft.link(path, "elsewhere") if link else draft.write(path, kept))
    assert f"worker 'helper' exists already ({path})" in failure_of(makers.save, text).message


def test_a_name_that_a_file_of_the_workshop_has_is_taken(makers: Makers) -> None:
    text = makers.text()
    (makers.workshop / "helper.worker").write_text("---\nname: helper\n---\nHelp.\n")
    assert "worker 'helper' exists already" in failure_of(makers.save, text).message


def test_nothing_is_made_through_a_link_of_the_layer(makers: Makers) -> None:
    text = makers.text()
    makers.draft(lambda draft: draft.folder("workers"))
    makers.draft(lambda draft: draft.link("workers/generated", "../elsewhere"))
    failure = failure_of(makers.save, text)
    assert (failure.type, "nothing is written through links" in failure.message) == ("SandboxRefusal", True)
