"""`save_worker`: a worker that a model makes, in the workshop or in the layer of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.delegation import DelegationActivities
from llm_do_temporal.messages.activities import DraftWorkerInput, SavedWorker, SaveWorkerInput
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.layers.layer import CarriedLayer, LayerUpdate
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.file_tree import failure_of
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, seen

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
