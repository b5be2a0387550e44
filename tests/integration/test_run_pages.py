"""The pages about runs, without a browser and without JavaScript: the list, the tree, conversations, the start form."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_do_temporal.client.record.results import Tracks
from llm_do_temporal.client.views.transcripts import read_transcript
from llm_do_temporal.client.views.tree import list_tree
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.ui.pages.run import news
from llm_do_temporal.workflows.invocation import conversation
from tests.support.people.signed_in import SCRIPT, page_with, signed_in_browser
from tests.support.providers.answers import Gate
from tests.support.providers.provider import Text, by_function
from tests.support.runs.delegation import APPROVE_ALL, delegation_to
from tests.support.runs.parked import EIGHT_WORDS, FILESYSTEM, STREAMED_MODEL, live_tail, start_parked, write_call
from tests.support.runs.place import Place


async def test_the_list_shows_runs_with_what_they_spent_and_filters_them(place: Place) -> None:
    place.worker("main", scripted("Fine."))
    done = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(done)
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    # The states stand in the filter, too.
    page = await page_with(ada, f"/runs?state=completed&begins={done}", "completed", "1 turn")
    assert run not in page.text
    page = await page_with(ada, f"/runs?state=open&begins={run}", "waiting", "1 question")
    assert done not in page.text
    assert (await ada.open("/runs?state=lost")).status == 422
    for moment in ("0001-01-01", "9999-12-31", "9999999999d"):
        assert (await ada.open(f"/runs?until={moment}")).status == 422
    assert "No run is like that" in (await ada.open("/runs?begins=it's%20nothing")).text
    await place.client.cancel(run)


async def test_a_run_is_a_tree_whose_branches_open_and_lead_to_what_is_asked(place: Place) -> None:
    place.worker("leaf", scripted("Leaf."))
    place.worker(
        "mid", scripted(call("leaf", input="a"), write_call(), "Mid."), toolsets={**delegation_to("leaf"), **FILESYSTEM}
    )
    place.worker(
        "main",
        scripted([call("mid", input="x"), call("leaf", input="y")], "Top."),
        toolsets=delegation_to("mid", "leaf"),
    )
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main")
    await place.pending(run)
    ada = await signed_in_browser(place)
    # what leads to a question is open without being asked for
    page = await page_with(ada, f"/runs/{run}", "mid-1", "write_file /a.txt (2 bytes)", "4 invocations")
    assert f"/runs/{run}/approvals/a1" in page.html
    await place.decide(run)
    await place.client.result(run)
    page = await page_with(ada, f"/runs/{run}", "completed", "mid-1", "leaf-1")
    folded = re.findall(r'<a class="toggle" href="([^"]+)" aria-expanded="false"', page.html)
    assert len(folded) == 1
    assert "main/mid-1/leaf-1" not in page.html
    opened = await ada.open(folded[0].replace("&amp;", "&"))
    assert f"/runs/{run}/invocations/main/mid-1/leaf-1" in opened.html
    total = (await place.client.result(run)).usage
    assert f"{total.requests} turns" in opened.text
    assert f"{total.input_tokens + total.output_tokens:,} tokens" in opened.text
    assert "itself: 2 turns" in opened.text
    assert (await ada.open("/runs/nowhere")).status == 404
    assert (await ada.open(f"/runs/{run}/invocations/main/nobody-7")).status == 404


async def test_a_conversation_shows_all_that_was_said_as_text(place: Place) -> None:
    hidden = "safe\u202etxt"
    run, _ = await start_parked(place, ["I write.", write_call("/a.txt", SCRIPT)], f"{SCRIPT} {hidden}")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/invocations/main")
    assert f"/runs/{run}/approvals/a1" in page.html
    assert "Asks a person" in page.text
    await place.decide(run, "reject", note="no <b>scripts</b>", by="bob")
    await place.client.result(run)
    page = await ada.open(f"/runs/{run}/invocations/main")
    for said in ("go", "I write.", "Calls write_file", "Rejected by bob", "Ended:", "completed"):
        assert said in page.text
    assert '<span class="hidden-char">\\u202e</span>txt' in page.html
    assert SCRIPT not in page.html
    assert "<b>scripts" not in page.html


async def test_a_script_for_a_workers_name_is_text(place: Place) -> None:
    run = await place.start(SCRIPT, SCRIPT, run=f"named-{place.queue}", started_by=SCRIPT)
    with pytest.raises(LlmDoError):
        await place.client.result(run)
    ada = await signed_in_browser(place)
    pages = [
        await page_with(ada, f"/runs?begins={run}", run, SCRIPT),
        await page_with(ada, f"/runs/{run}", "failed", SCRIPT),
        await ada.open(f"/runs/{run}/grants"),
    ]
    for page in pages:
        assert page.status == 200
        assert SCRIPT not in page.html


async def test_an_open_page_reads_on_where_it_stopped(place: Place) -> None:
    run, _ = await start_parked(place, write_call(), "Done.")
    ada = await signed_in_browser(place)
    page = await ada.open(f"/runs/{run}/invocations/main")
    (part, after) = re.findall(r'data-part="([^"]+)" data-after="(\d+)"', page.html)[0]
    await place.decide(run)
    await place.client.result(run)
    news = await ada.client.get(f"/runs/{run}/entries/main?part={part}&after={after}")
    assert "Approved" in news.text
    assert "Calls write_file" not in news.text
    assert "completed" in news.text
    again = await ada.client.get(
        f"/runs/{run}/entries/main?part={news.headers['x-part']}&after={news.headers['x-after']}"
    )
    assert again.text.strip() == ""
    for nonsense in ("x", "²", "9" * 5_000):
        assert (await ada.open(f"/runs/{run}/entries/main?part={part}&after={nonsense}")).status == 404
    for nonsense in ("x", "%5B" * 9, "../" * 12, "A" * 36, "9" * 37):
        assert (await ada.open(f"/runs/{run}/entries/main?part={nonsense}&after={after}")).status == 404
        assert (await ada.open(f"/runs/{run}/invocations/main?part={nonsense}")).status == 404


async def test_a_long_conversation_opens_at_its_end_and_older_turns_follow(
    monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", 12)
    place.write("a.txt", "a")
    turns = [[f"Turn {number}.", call("read_file", path="/a.txt")] for number in range(1, 33)]
    place.worker("main", scripted(*turns, "Done."), toolsets=FILESYSTEM)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    said = [entry async for entry in read_transcript(place.client.temporal, run)]
    assert [entry.turn for entry in said if entry.kind == "turn"] == list(range(1, 34))
    late = [entry async for entry in read_transcript(place.client.temporal, run, from_turn=20)]
    assert late == [entry for entry in said if entry.turn >= 20]
    ada = await signed_in_browser(place)
    newest = await ada.open(f"/runs/{run}/invocations/main")
    assert "Turn 30." in newest.text
    assert "Turn 5." not in newest.text
    (older,) = re.findall(r'href="([^"]+part=[^"]+)"', newest.html)
    assert "Turn 5." in (await ada.open(older)).text
    middle = await ada.open(f"/runs/{run}/invocations/main?turn=14")
    assert "Turn 14." in middle.text
    assert "Turn 30." not in middle.text


async def test_what_is_written_now_reaches_the_page_as_it_is_written(place: Place, point_at: Any) -> None:
    gate, streams, texts = Gate(), set[object](), list[str]()
    point_at(by_function(lambda _: Text(EIGHT_WORDS, pause=gate)))
    place.worker("main", STREAMED_MODEL)
    run = await place.start("main")
    ada = await signed_in_browser(place)
    await live_tail(place, run)
    async for event in news(place.client.temporal, run, streams):
        assert len(streams) == 1
        name, _, data = event.partition("\ndata: ")
        tail = json.loads(data) if name == "event: tail" else None
        if tail and not texts:
            texts.append(tail["text"])
            page = await ada.open(f"/runs/{run}/invocations/main")
            assert tail["text"].strip() in page.text
            gate.open()
    assert EIGHT_WORDS.startswith(texts[0])
    assert not streams
    ended = await ada.client.get(f"/runs/{run}/live/main")
    assert ended.headers["content-type"].startswith("text/event-stream")
    assert ended.text.endswith("event: end\ndata: {}\n\n")


async def test_a_form_starts_one_run_with_its_files_as_the_user(place: Place) -> None:
    main = scripted("Thanks.")
    place.worker("main", main, attachment_policy={"max_attachments": 2, "allowed_suffixes": [".txt"]})
    ada = await signed_in_browser(place)
    page = await ada.open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    data = {**form.fields, "worker": "main", "prompt": "Look at this."}
    sent: dict[str, Any] = {"data": data, "headers": {"origin": "http://127.0.0.1:8234"}}
    refused = await ada.client.post("/start", files=[("files", ("deck.pdf", b"%PDF-1.4"))], **sent)
    assert refused.status_code == 400
    assert "deck.pdf" in refused.text
    assert "Look at this." in refused.text
    files = [("files", ("../../note.txt", b"first")), ("files", ("other.txt", b"second"))]
    answers = [await ada.client.post("/start", files=files, **sent) for _ in range(2)]
    run = f"main-{form.fields['key']}"
    place.started.append(run)
    assert {str(answer.url.path) for answer in answers} == {f"/runs/{run}"}
    assert (await place.client.result(run)).output == "Thanks."
    assert len(main.requests) == 1
    said = [entry async for entry in read_transcript(place.client.temporal, run)]
    (prompt,) = (entry for entry in said if entry.kind == "prompt")
    assert [file.name.rpartition("/")[2] for file in prompt.files] == ["note.txt", "other.txt"]
    assert [file.bytes for file in prompt.files] == [5, 6]
    assert "by ada" in (await ada.open(f"/runs/{run}")).text


async def test_what_a_start_warns_of_is_shown_before_the_page_of_the_run(place: Place) -> None:
    place.worker("main", scripted("Thanks."))
    ada = await signed_in_browser(place)
    page = await ada.open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    files = {
        "page.pdf": b"<!DOCTYPE html><p>Sign in",
        "cut<b>.pdf": b"%PDF-1.7\nand no more",
        "names.csv": "Müller".encode("cp1252"),
    }
    answers = [
        await ada.client.post(
            "/start",
            data={**form.fields, "worker": "main", "prompt": "Look at this."},
            files=[("files", one) for one in files.items()],
            headers={"origin": "http://127.0.0.1:8234"},
        )
        for _ in range(2)
    ]
    run = f"main-{form.fields['key']}"
    place.started.append(run)
    assert (await place.client.result(run)).output == "Thanks."
    for answer in answers:
        assert answer.status_code == 200
        assert "models do not get these files as they are" in answer.text
        assert "page.pdf&#39;: its content is text/html, not application/pdf" in answer.text
        assert "cut&lt;b&gt;.pdf&#39;: it was cut: its end is missing" in answer.text
        assert "names.csv&#39;: not all of it is text in UTF-8: 1 places" in answer.text
        assert f'href="/runs/{run}"' in answer.text


NO_SENSE: list[tuple[dict[str, str], str]] = [
    ({"worker": ""}, "no worker was chosen"),
    ({"worker": "nobody"}, "no worker 'nobody'"),
    ({"worker": "main", "input": '{"half": "\\ud83d"}'}, "the input is not JSON"),
    ({"worker": "main", "mode": "anything"}, "there is no mode 'anything'"),
    ({"worker": "main", "key": "../x"}, "this form is not complete"),
]


async def test_a_form_that_makes_no_sense_says_why(place: Place) -> None:
    place.worker("main", scripted("Never."))
    page = await (ada := await signed_in_browser(place)).open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    for typed, complaint in NO_SENSE:
        answer = await ada.send(page, form, **{"prompt": "go", **typed})
        assert answer.status == 400
        assert complaint in answer.text


REFUSED_MODELS = [
    # nobody names a model
    ("main", "", "no model for worker 'main'"),
    # neither an alias nor the model of a provider
    ("main", "nonsense", "model 'nonsense' names no provider"),
    # not one of those that the worker works with
    ("picky", "test:other", "does not work with model 'test:other'; compatible: openai:*"),
]


async def test_a_model_that_an_embedded_service_would_refuse_is_refused_before_there_is_a_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)
    place.worker("main")
    place.worker("picky", compatible_models=["openai:*"])
    ada = await signed_in_browser(place, embedded=True)
    page = await ada.open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    for worker, model, complaint in REFUSED_MODELS:
        answer = await ada.send(page, form, worker=worker, prompt="go", model=model)
        assert answer.status == 400
        assert complaint in answer.text
        with pytest.raises(LlmDoError, match="there is no run"):
            await place.client.status(f"{worker}-{form.fields['key']}")


async def test_a_model_whose_provider_is_misspelt_starts_nothing_on_the_page(place: Place) -> None:
    place.worker("main", scripted("Never."))
    page = await (ada := await signed_in_browser(place)).open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    answer = await ada.send(page, form, worker="main", prompt="go", model="opnai:gpt-5")
    assert (answer.status, "Did you mean &#39;openai:gpt-5&#39;?" in answer.html) == (400, True)
    with pytest.raises(LlmDoError, match="there is no run"):
        await place.client.status(f"main-{form.fields['key']}")


@pytest.mark.parametrize(("mode", "written"), [("approve_all", True), ("strict", False)])
async def test_a_form_chooses_what_becomes_of_calls_that_need_approval(place: Place, mode: str, written: bool) -> None:
    place.worker("main", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    page = await (ada := await signed_in_browser(place)).open("/start")
    offered = re.findall(r'<option value="(\w*)"', page.html.partition('<select id="mode"')[2])
    assert offered == ["", "interactive", "approve_all", "strict"]
    (form,) = (form for form in page.forms if form.action == "/start")
    assert form.fields["mode"] == ""
    answer = await ada.send(page, form, worker="main", prompt="go", mode=mode)
    run = f"main-{form.fields['key']}"
    place.started.append(run)
    assert answer.address.endswith(f"/runs/{run}")
    assert (await place.client.result(run)).output == "Done."
    assert (place.folder / "a.txt").exists() is written


async def test_a_form_that_is_shown_again_keeps_the_mode(place: Place) -> None:
    place.worker("main", scripted("Never."))
    page = await (ada := await signed_in_browser(place)).open("/start")
    (form,) = (form for form in page.forms if form.action == "/start")
    answer = await ada.send(page, form, worker="nobody", prompt="go", mode="strict")
    (again,) = (form for form in answer.forms if form.action == "/start")
    assert again.fields["mode"] == "strict"


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
