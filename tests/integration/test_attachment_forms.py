"""What a model gets of a file that it does not take as it is, and which tools of its provider it is offered."""

from __future__ import annotations

import base64
import io
import json
import shutil
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pypdf import PdfWriter
from rich.console import Console

from llm_do_temporal.cli.reports.show import read_record, record_json, render_record
from llm_do_temporal.client.record.facts import Story
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.errors import AttachmentRefusal, ModelRefusal
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.testing import ScriptedModel, scripted
from tests.support.dialects.answers import asks, says
from tests.support.dialects.one_turn import ROOM
from tests.support.dialects.server import Providers
from tests.support.people.signed_in import page_with, signed_in_browser
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


WHOLE = PNG + b"IEND\xaeB`\x82"
HEIC = b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + bytes(64)
ODD_FILES = (
    "locked.pdf",
    "stamped.pdf",
    "page.pdf",
    "cut.pdf",
    "photo.heic",
    "mail.jpg",
    "art.png",
    "half.png",
    "sums.xlsx",
    "old.txt",
    "blank.pdf",
    "torn.pdf",
    "lost.pdf",
)
KNOWN = ("chat", "responses", "anthropic", "google")


def put_odd_files(folder: Path) -> None:
    """Write files of which providers would refuse each, or most, as they are."""
    deck = (PIPELINE / "mendly.pdf").read_bytes()
    writer, locked = PdfWriter(io.BytesIO(deck)), io.BytesIO()
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(locked)
    writer, open_to_all = PdfWriter(io.BytesIO(deck)), io.BytesIO()
    writer.encrypt("", "owner", algorithm="RC4-128")
    writer.write(open_to_all)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("notes.txt", "a")
    blank = io.BytesIO()
    PdfWriter().write(blank)
    half, table = len(deck) // 2, deck.rfind(b"xref", 0, deck.rfind(b"startxref"))
    contents = {
        "blank.pdf": blank.getvalue(),
        "torn.pdf": deck[:half] + b"\xa7" * 3_000 + deck[half + 3_000 :],
        "lost.pdf": deck[:table] + b"\xa7" * 400 + deck[-40:],
        "old.txt": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(64),
        "names.csv": "Müller;Łódź".encode("cp1250"),
        "locked.pdf": locked.getvalue(),
        "stamped.pdf": open_to_all.getvalue(),
        "page.pdf": b"<!DOCTYPE html><p>Please sign in</p>",
        "cut.pdf": deck[: len(deck) * 9 // 10],
        "photo.heic": HEIC,
        "mail.jpg": HEIC,
        "art.png": "ärgerlich".encode(),
        "half.png": PNG,
        "sums.xlsx": archive.getvalue(),
        "square.png": WHOLE,
        "whole.pdf": deck,
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("adapter", KNOWN)
@pytest.mark.extension("export")
async def test_a_file_that_its_provider_would_refuse_is_named_and_the_run_goes_on(place: Place, adapter: str) -> None:
    put_odd_files(place.folder)
    with Providers() as providers:
        place.workshop(
            model="eyes",
            models={"eyes": providers.alias(adapter, "odd", says("Seen."), accepts=["text", "pdf", "image"])},
            model_settings=ROOM,
        )
        files = (*ODD_FILES, "names.csv", "square.png", "whole.pdf")
        came = await run_with(place, *files, attachment_policy={"max_attachments": len(files)})
        assert came.output == "Seen."
        view, _, story = await read_record(place.client, place.started[-1])
        (request,) = providers.scripts["odd"].requests
    sent = json.dumps(request, ensure_ascii=False)
    carried = sent.replace("-", "+").replace("_", "/")  # Google's bytes are spelt for addresses
    taken = {"photo.heic", "mail.jpg"} if adapter == "google" else set[str]()
    for name in ODD_FILES:
        data = base64.b64encode((place.folder / name).read_bytes()).decode()
        assert (f'{data}"' in sent) == (name in taken), name
    for name in ("square.png", "whole.pdf"):
        assert base64.b64encode((place.folder / name).read_bytes()).decode() in carried
    assert "The content of locked.pdf (application/pdf) is not given: it is encrypted with a password." in sent
    assert "stamped.pdf is given as text: it is encrypted with a password" in sent
    assert "Mendly" in sent
    assert "page.pdf is called application/pdf, and is text/html." in sent
    assert "Please sign in" in sent
    assert "The content of cut.pdf (application/pdf) is not given: it was cut: its end is missing." in sent
    assert "ärgerlich" in sent
    assert "The content of half.png (image/png) is not given: it was cut" in sent
    assert "The content of sums.xlsx (application/zip, called application/vnd.openxmlformats" in sent
    assert "The content of old.txt (application/x-ole-storage) is not given: " in sent
    assert "The content of blank.pdf (application/pdf) is not given: it has no pages." in sent
    assert "The content of torn.pdf (application/pdf) is not given: it is damaged: page 4 of 7 cannot be read." in sent
    assert "The content of lost.pdf (application/pdf) is not given: it is damaged: it cannot be read as a PDF." in sent
    await assert_shown(
        place, place.started[-1], view, story, {*ODD_FILES, "names.csv"} - taken - {"page.pdf", "art.png"}
    )


async def assert_shown(place: Place, run: str, view: RunView, story: Story, names: set[str]) -> None:
    """Assert that the record of a run, as text, JSON and events, tells of these files and of no others."""
    from llm_do_temporal.extensions.export.report import log_lines

    (node,) = view.ordered
    told = {name for line in node.without for name in (*ODD_FILES, "names.csv", "whole.pdf") if name in line}
    assert (told, len(node.without)) == (names, len(names))
    summary = await place.client.status(run)
    (shown,) = record_json(summary, view, [], story)["invocations"]
    assert shown["without"] == node.without
    console = Console(width=400, file=io.StringIO())
    console.print(render_record(summary, view, [], datetime(2030, 1, 1), story))
    assert "The content of blank.pdf (application/pdf) is not given" in cast("io.StringIO", console.file).getvalue()
    lines = [
        line async for event in Follower(place.client.temporal, run, wait=False).events() for line in log_lines(event)
    ]
    assert sum("warning: " in line for line in lines) == len(names)


async def test_each_file_is_told_of_once_however_many_turns_send_it(place: Place) -> None:
    put_odd_files(place.folder)
    with Providers() as providers:
        place.workshop(
            model="eyes",
            models={
                "eyes": providers.alias("chat", "odd", asks("nothing"), says("Seen."), accepts=["text", "pdf", "image"])
            },
            model_settings=ROOM,
        )
        await run_with(place, "blank.pdf")
        assert len(providers.scripts["odd"].requests) == 2
    view, _, _ = await read_record(place.client, place.started[-1])
    (line,) = view.ordered[0].without
    assert line == "The content of blank.pdf (application/pdf) is not given: it has no pages."
    page = await page_with(await signed_in_browser(place), f"/runs/{place.started[-1]}", f"main: {line}")
    assert page.text.count(line) == 1


@pytest.mark.parametrize("name", ["sums.csv", "old.txt"])
async def test_a_model_of_texts_is_not_given_an_office_file_that_is_called_a_text(place: Place, name: str) -> None:
    model = scripted()
    aliased(place, model, "text")
    put_odd_files(place.folder)
    shutil.copy(place.folder / "sums.xlsx", place.folder / "sums.csv")
    with pytest.raises(AttachmentRefusal, match=f"'{name}' .* is neither text nor a PDF|'{name}' .*neither text nor"):
        await run_with(place, name)
    assert model.requests == []


@pytest.mark.thorough
async def test_a_table_that_is_called_a_text_goes_as_a_table_to_a_model_that_takes_tables(place: Place) -> None:
    table = io.BytesIO()
    with zipfile.ZipFile(table, "w") as made:
        made.writestr("[Content_Types].xml", "<Types/>")
        made.writestr("xl/workbook.xml", "<workbook/>")
    (place.folder / "sums.csv").write_bytes(table.getvalue())
    with Providers() as providers:
        eyes = providers.alias("responses", "odd", says("Seen."), accepts=["text", "pdf", "image"])
        place.workshop(model="eyes", models={"eyes": eyes}, model_settings=ROOM)
        await run_with(place, "sums.csv")
        (request,) = providers.scripts["odd"].requests
    assert base64.b64encode(table.getvalue()).decode() in json.dumps(request)


@pytest.mark.thorough
@pytest.mark.parametrize("adapter", ["chat", "anthropic"])
async def test_a_model_of_texts_gets_a_page_that_is_called_a_pdf(place: Place, adapter: str) -> None:
    put_odd_files(place.folder)
    with Providers() as providers:
        reads = providers.alias(adapter, "odd", says("Read."), accepts=["text"])
        place.workshop(model="reads", models={"reads": reads}, model_settings=ROOM)
        assert (await run_with(place, "page.pdf")).output == "Read."
        (request,) = providers.scripts["odd"].requests
    sent = json.dumps(request)
    assert "page.pdf is called application/pdf, and is text/html." in sent
    assert "Please sign in" in sent


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut.pdf", "'cut.pdf' cannot be read as a PDF: it was cut: its end is missing"),
        ("._deck.pdf", "'._deck.pdf' cannot be read as a PDF: it has what macOS notes about another file"),
    ],
)
async def test_a_model_of_texts_is_told_nothing_of_the_parser(place: Place, name: str, words: str) -> None:
    aliased(place, scripted(), "text")
    put_odd_files(place.folder)
    (place.folder / "._deck.pdf").write_bytes(b"\0\x05\x16\x07\0\2" + bytes(64))
    with pytest.raises(AttachmentRefusal, match=words) as refused:
        await run_with(place, name)
    assert "accepts" not in (refused.value.next_step or "")
