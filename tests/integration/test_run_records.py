"""The record on top of a run's page, and its timeline, without a browser and without JavaScript."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from llm_do_temporal.client.record.results import Tracks
from llm_do_temporal.client.views.tree import list_tree
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.people.signed_in import SCRIPT, page_with, signed_in_browser
from tests.support.runs.delegation import APPROVE_ALL, delegation_to
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place


async def test_a_run_tells_its_task_its_files_its_decisions_and_its_result(place: Place) -> None:
    data = b"%PDF-1.4 no pages"
    sha256 = workshop_blobs(place.folder).put_bytes(data)
    given = Attachment(path="note.txt", sha256=sha256, bytes=len(data), media_type="text/plain")
    place.worker(
        "main",
        scripted(write_call("/a.txt", "hi there"), write_call("/b.txt"), "All is **done**."),
        toolsets=FILESYSTEM,
    )
    run = await place.start("main", "Sell the boat\nfor 3 coins", attachments=[given.model_dump()], started_by="ann")
    await place.pending(run)
    ada = await signed_in_browser(place)
    page = await page_with(ada, f"/runs/{run}", "Waits for a decision")
    assert "Sell the boat" in page.html.partition("<h1")[2].partition("</h1>")[0]
    assert run in page.html.partition('<code class="id">')[2].partition("<")[0]
    await place.decide(run, by="bob")
    await place.pending_is(run, "a2")
    await place.decide(run, "reject", note="one is enough", by="eve", id="a2")
    await place.client.result(run)
    page = await page_with(ada, f"/runs/{run}", "completed")
    for said in (
        "for 3 coins",
        "note.txt",
        "made by main",
        "Approved",
        "by bob",
        "one is enough",
        "waited",
    ):
        assert said in page.text
    assert "All is <strong>done</strong>." in page.html
    (address,) = re.findall(r'<a href="([^"]+)">/a\.txt</a>', page.html)
    assert "/b.txt</a>" not in page.html
    file = await ada.client.get(address.replace("&amp;", "&"))
    assert (file.text, file.headers["content-type"]) == ("hi there", "text/plain; charset=utf-8")
    assert "sandbox" in file.headers["content-security-policy"]
    (address,) = re.findall(r'<a href="([^"]+)">note\.txt</a>', page.html)
    assert (await ada.client.get(f"{address}?download")).content == data


async def test_only_files_that_a_run_has_written_can_be_read_by_its_page(place: Place) -> None:
    place.write("secret.txt", "secret")
    run, _ = await start_parked(place, write_call("/a.txt", "hi"), "Done.")
    await place.decide(run)
    await place.client.result(run)
    ada = await signed_in_browser(place)
    assert (await ada.open(f"/runs/{run}/written?file=/a.txt&by=main")).status == 200
    for query in ("file=/secret.txt&by=main", "file=/../a.txt&by=main", "file=/a.txt&by=nobody", "file=/a.txt", ""):
        assert (await ada.open(f"/runs/{run}/written?{query}")).status == 404
    assert (await ada.open(f"/runs/{run}/given/{'0' * 64}")).status == 404
    (place.folder / "a.txt").unlink()
    (place.folder / "a.txt").symlink_to("/etc/passwd")
    assert (await ada.open(f"/runs/{run}/written?file=/a.txt&by=main")).status == 404
    elsewhere = await signed_in_browser(place, workshop=False)
    assert (await elsewhere.open(f"/runs/{run}/written?file=/a.txt&by=main")).status == 404
    assert "/written?" not in (await elsewhere.open(f"/runs/{run}")).html


async def test_rows_have_bars_and_a_part_of_the_time_is_an_address(place: Place) -> None:
    place.worker("leaf", scripted("Leaf."))
    place.worker(
        "main",
        scripted([call("leaf", input="a"), write_call()], "Top."),
        toolsets={**delegation_to("leaf"), **FILESYSTEM},
    )
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    await place.pending(run)
    ada = await signed_in_browser(place)
    page = await page_with(ada, f"/runs/{run}", "leaf-1", "2 invocations")
    assert page.html.count('class="bar whole') == 2
    assert 'class="bar wait open"' in page.html
    assert 'class="node waits"' in page.html
    await place.decide(run)
    await place.client.result(run)
    page = await page_with(ada, f"/runs/{run}", "completed")
    assert 'class="bar call"' in page.html
    assert 'class="bar wait"' in page.html
    (closer,) = re.findall(r'href="([^"]+)">Closer<', page.html)
    part = await ada.open(closer.replace("&amp;", "&").partition("#")[0])
    assert "only a part is shown" in part.text
    (fold,) = re.findall(r'class="toggle" href="([^"]+)"', part.html)
    assert "from=" in fold
    assert (await ada.open(f"/runs/{run}?from=x&to=y")).status == 200


async def test_what_stands_on_a_run_is_text(place: Place) -> None:
    hostile = f"{SCRIPT} \u202etxt.exe"
    run, _ = await start_parked(
        place, [hostile, write_call(f"/{SCRIPT.replace('/', '')}.txt", SCRIPT)], {"html": hostile}
    )
    place.worker("main", scripted(call(SCRIPT), hostile))
    other = await place.start("main", f"{hostile}\n{hostile}", started_by=SCRIPT)
    await place.client.result(other)
    await place.decide(run, note=SCRIPT, by=SCRIPT)
    ada = await signed_in_browser(place)
    for page in (
        await page_with(ada, f"/runs/{run}", "approve"),
        await ada.open(f"/runs/{other}"),
        await ada.open(f"/runs/{other}/invocations/main"),
    ):
        assert SCRIPT not in page.html
        assert "\u202e" not in page.html


@pytest.mark.thorough
async def test_the_track_of_a_long_conversation_is_read_as_far_back_as_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", 3)
    place.write("a.txt", "a")
    turns = [call("read_file", path="/a.txt") for _ in range(19)]
    place.worker("main", scripted(*turns, "Done."), toolsets=FILESYSTEM)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    (root,) = await list_tree(place.client.temporal, run)
    tracks = Tracks(place.client.temporal)
    late = (await tracks.read(run, [root], datetime.now(UTC)))[run]
    newest = sum(one.kind == "turn" for one in late.periods)
    assert late.read_from is not None
    assert 0 < newest < 20
    early = (await tracks.read(run, [root], late.read_from - timedelta(milliseconds=1)))[run]
    assert sum(one.kind == "turn" for one in early.periods) > newest
