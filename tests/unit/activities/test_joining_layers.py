"""`join_layers`: what a child has changed joins the layer of its caller."""

from __future__ import annotations

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.files import MAX_TOLD, LayerActivities
from llm_do_temporal.messages.layers import JoinedLayers, JoinLayersInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import MAX_RECENT, CarriedLayer, Layer
from llm_do_temporal.policy.layers.view import LayerDraft
from llm_do_temporal.sandbox.layers.contents import LayerContents
from tests.support.workshops.file_tree import failure_of
from tests.support.workshops.layered import EDITOR, FilesInMind, MemoryBlobs

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
