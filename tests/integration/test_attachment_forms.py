"""What a model gets of a file that it does not take as it is, and which tools of its provider it is offered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.errors import AttachmentRefusal, ModelRefusal
from llm_do_temporal.storage.local import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.testing import ScriptedModel, scripted
from tests.support.runs.place import Place

PIPELINE = Path(__file__).parents[2] / "workers/files/pipeline"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def aliased(place: Place, model: ScriptedModel, *accepts: str, **keys: Any) -> None:
    """A workshop whose model is `model` behind an alias that says what it takes."""
    place.workshop(
        model="eyes", models={"eyes": {"model": place.script("eyes", model), "accepts": list(accepts)}}, **keys
    )


async def run_with(place: Place, *names: str, **keys: Any) -> Any:
    place.worker("main", **keys)
    for name in names:
        if (PIPELINE / name).exists():
            shutil.copy(PIPELINE / name, place.folder / name)
    attached = snapshot_host_files(
        [place.folder / name for name in names], LocalBlobStore(blob_folder(place.folder)), 20_000_000
    )
    return await place.run("main", attachments=[one.model_dump() for one in attached])


async def test_a_model_that_takes_no_pdf_gets_the_words_of_the_deck(place: Place) -> None:
    model = scripted("Read it.")
    aliased(place, model, "text")
    await run_with(place, "mendly.pdf")
    seen = model.requests[0]
    assert seen.attachments == ()
    assert "Text of mendly.pdf (PDF, 7 pages): you get the text only" in seen.prompt
    assert "--- page 7 ---" in seen.prompt
    assert "Mendly" in seen.prompt


async def test_a_scan_is_refused_with_the_number_of_its_pages(place: Place) -> None:
    aliased(place, scripted(), "text")
    with pytest.raises(AttachmentRefusal, match="6 of 6 pages have no readable text"):
        await run_with(place, "brightacre-scan.pdf")


@pytest.mark.parametrize(
    ("workshop", "worker", "files"),
    [
        # by default the model gets what it takes
        ({}, {}, 1),
        # on request it gets text although it takes the file
        ({"attachments_as": "text"}, {}, 0),
        ({}, {"attachments_as": "text"}, 0),
        # and a worker knows better than its workshop
        ({"attachments_as": "text"}, {"attachments_as": "native"}, 1),
    ],
)
async def test_the_form_is_chosen_by_workshop_and_worker(
    place: Place, workshop: dict[str, Any], worker: dict[str, Any], files: int
) -> None:
    model = scripted("Read it.")
    aliased(place, model, "text", "pdf", **workshop)
    await run_with(place, "mendly.pdf", **worker)
    assert len(model.requests[0].attachments) == files
    assert ("--- page 1 ---" in model.requests[0].prompt) == (files == 0)


async def test_an_image_for_a_model_without_eyes_is_refused_before_the_turn(place: Place) -> None:
    model = scripted()
    aliased(place, model, "text", "pdf")
    (place.folder / "photo.png").write_bytes(PNG)
    with pytest.raises(AttachmentRefusal, match=r"'photo.png' is an image, and model 'eyes \(test:"):
        await run_with(place, "photo.png")
    assert model.requests == []


async def test_a_tool_that_the_provider_does_not_have_is_named(place: Place) -> None:
    place.worker("main", scripted("Never."), server_side_tools=["code_execution"])
    with pytest.raises(ModelRefusal, match="has no server-side tool 'code_execution'; it has: none"):
        await place.run("main")


async def test_server_side_tools_are_those_of_the_worker_with_their_options(place: Place) -> None:
    model = Searching(["Found."])
    place.worker("main", model, server_side_tools=[{"tool_type": "web_search", "max_uses": 3}, "web_fetch"])
    place.worker("other", "test:nothing")
    await place.run("main")
    tools = {tool.kind: tool for tool in model.requests[0].parameters.native_tools}
    assert sorted(tools) == ["web_fetch", "web_search"]
    assert vars(tools["web_search"])["max_uses"] == 3


class Searching(ScriptedModel):
    """A model whose provider searches."""

    @classmethod
    def supported_native_tools(cls) -> frozenset[Any]:
        from pydantic_ai.native_tools import WebFetchTool, WebSearchTool

        return frozenset({WebFetchTool, WebSearchTool})
