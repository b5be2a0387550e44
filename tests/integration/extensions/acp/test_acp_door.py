"""The ACP door, over real streams and the official package, at an editor that comes and goes."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest
from acp import image_block, text_block
from acp.exceptions import RequestError
from acp.helpers import audio_block, embedded_text_resource, resource_block
from acp.schema import AcceptElicitationResponse, CancelElicitationResponse

from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.extensions.acp.session import ANEW
from llm_do_temporal.testing import call, scripted
from tests.support.extensions.acp.acp_editor import ADA, editor
from tests.support.providers.answers import Drop, Gate, Text
from tests.support.providers.provider import fixed
from tests.support.runs.parked import EIGHT_WORDS, STREAMED_MODEL, write_call
from tests.support.runs.place import Place

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64) + b"IEND\xaeB`\x82"


def writer(place: Place, *turns: Any) -> None:
    place.worker("writer", scripted(*(turns or (write_call("/a.txt"), "Done."))), toolsets={"filesystem": {}})


async def test_a_session_is_a_run_whose_calls_the_person_at_the_editor_decides(place: Place) -> None:
    writer(place)
    async with editor(place, lambda _call: "approve") as ada:
        session = await ada.new()
        deck = resource_block(embedded_text_resource("file:///work/deck.txt", "seven slides"))
        await ada.agent.prompt(session_id=session, prompt=[text_block("write it"), deck])
        place.started.append(session)
        files = await DoorService(place.client, place.folder).files(ADA, session)
        assert [(one.name, one.bytes) for one in files] == [("deck.txt", 12), ("/a.txt", 2)]
        assert "Done." in ada.words()
    (asked,) = ada.asked
    assert (asked.kind, asked.title) == ("edit", "write_file /a.txt (2 bytes)")
    assert [(part.type, part.path, part.new_text) for part in asked.content] == [("diff", "/a.txt", "hi")]
    assert (place.folder / "a.txt").read_text() == "hi"
    (question,) = await place.client.questions(session)
    assert question.verdict is not None
    assert (question.verdict.by, question.verdict.via) == ("ada", "acp")


async def test_pictures_and_sounds_of_a_prompt_are_files_of_the_run_and_reach_the_model(
    place: Place, point_at: Any
) -> None:
    provider = point_at(fixed(Text("Seen.")))
    place.worker("writer", "openai-chat:gpt-4o")
    picture = b64encode(PNG).decode()
    async with editor(place, None) as ada:
        place.started.append(session := await ada.new())
        prompt = [text_block("look"), image_block(picture, "image/png"), image_block(picture, "image/png")]
        await ada.agent.prompt(session_id=session, prompt=prompt)
        assert ada.words() == "Seen.\n"
        files = await DoorService(place.client, place.folder).files(ADA, session)
        assert [(one.name, one.bytes) for one in files] == [("image-2.png", len(PNG)), ("image-3.png", len(PNG))]
        assert str(provider.requests[0].body).count(f"data:image/png;base64,{picture}") == 2
        for broken, named in (
            (image_block("no picture!", "image/png"), "image-1.png"),
            (audio_block("=", "audio/x-no-such-kind"), "audio-1"),
        ):
            before = len(ada.words())
            assert await ada.agent.prompt(session_id=await ada.new(), prompt=[broken])
            assert named in ada.words()[before:]
        place.started.append(odd := await ada.new())
        await ada.agent.prompt(session_id=odd, prompt=[image_block(picture, "image/../../png")])
        assert [one.name for one in await DoorService(place.client, place.folder).files(ADA, odd)] == ["image-1"]
        place.started.append(loud := await ada.new())
        await ada.agent.prompt(session_id=loud, prompt=[audio_block(b64encode(b"RIFF").decode(), "audio/wav")])
        (sound,) = await DoorService(place.client, place.folder).files(ADA, loud)
        assert (sound.name, sound.media_type) == ("audio-1.wav", "audio/wav")


async def test_a_rejected_call_is_not_made_and_a_remembered_one_asks_once(place: Place) -> None:
    writer(place, write_call("/a.txt"), "Pity.")
    async with editor(place, lambda _call: "reject") as ada:
        place.started.append(session := await ada.new())
        await ada.prompt(session)
    assert not (place.folder / "a.txt").exists()
    writer(place, write_call("/b.txt"), write_call("/b.txt"), "Done.")
    async with editor(place, lambda _call: "approve-always") as ada:
        place.started.append(session := await ada.new())
        await ada.prompt(session)
    assert len(ada.asked) == 1


async def test_a_question_that_was_open_when_the_editor_left_is_asked_once_when_it_is_back(place: Place) -> None:
    writer(place)
    async with editor(place, None) as lost:
        session = await lost.new()
        prompting = asyncio.create_task(lost.prompt(session))
        await lost.was_asked.wait()
    prompting.cancel()
    await asyncio.gather(prompting, return_exceptions=True)
    place.started.append(session)
    assert [one.id for one in await place.client.approvals(session)] == ["a1"]
    async with editor(place, lambda _call: "approve") as ada:
        sessions = (await ada.agent.list_sessions(cwd="/work")).sessions
        while session not in [one.session_id for one in sessions]:
            sessions = (await ada.agent.list_sessions(cwd="/work")).sessions
        await ada.agent.load_session(cwd="/work", session_id=session, mcp_servers=[])
        assert await ada.prompt(session) == "end_turn"
        assert [one.field_meta for one in ada.asked] == [{"question": "a1"}]
        assert ada.news[0].session_update == "user_message_chunk"
        assert ada.news[0].content.text == "go"
    assert (await place.client.result(session)).output == "Done."


async def test_a_session_that_is_resumed_has_its_news_alone_and_its_open_question_once(place: Place) -> None:
    writer(place, ["First words.", write_call("/a.txt")], "Done.")
    async with editor(place, None) as lost:
        place.started.append(session := await lost.new())
        prompting = asyncio.create_task(lost.prompt(session))
        await lost.was_asked.wait()
    await asyncio.gather(prompting, return_exceptions=True)
    assert "First words." in lost.words()
    async with editor(place, lambda _call: "approve") as ada:
        await ada.agent.resume_session(cwd="/work", session_id=session, mcp_servers=[])
        assert await ada.prompt(session, "") == "end_turn"
        assert ada.words() == "Done.\n"
        assert "user_message_chunk" not in [one.session_update for one in ada.news]
    assert [one.field_meta for one in ada.asked] == [{"question": "a1"}]


async def test_who_resumes_a_session_in_the_middle_of_a_turn_is_told_it_from_its_beginning(
    place: Place, point_at: Any
) -> None:
    gate = Gate()
    point_at(fixed(Text(EIGHT_WORDS, pause=gate)))
    place.worker("writer", STREAMED_MODEL)
    async with editor(place, None) as lost:
        place.started.append(session := await lost.new())
        prompting = asyncio.create_task(lost.prompt(session))
        await lost.until(lambda: "one" in lost.words())
    await asyncio.gather(prompting, return_exceptions=True)
    async with editor(place, None) as ada:
        await ada.agent.resume_session(cwd="/work", session_id=session, mcp_servers=[])
        await ada.until(lambda: "one" in ada.words())
        gate.open()
        assert await ada.prompt(session, "") == "end_turn"
    assert ada.words() == f"{EIGHT_WORDS}\n"


async def test_a_second_prompt_is_not_given_to_the_run_and_waits_for_its_end(place: Place) -> None:
    writer(place)
    async with editor(place, None) as ada:
        place.started.append(session := await ada.new())
        first = asyncio.create_task(ada.prompt(session))
        await ada.was_asked.wait()
        second = asyncio.create_task(ada.prompt(session, "and something else"))
        await ada.until(lambda: "was not given to it" in ada.words())
        assert not second.done()
        await place.decide(session, id="a1", by="bob")
        assert [await first, await second] == ["end_turn"] * 2
        assert await ada.prompt(session, "more") == "refusal"
        assert "Open a new session." in ada.words()
    assert (await place.client.status(session)).task == "go"


async def test_a_session_that_is_stopped_while_its_run_is_being_started_is_cancelled(place: Place) -> None:
    writer(place)
    async with editor(place, None) as ada:
        place.started.append(session := await ada.new())
        prompting = asyncio.create_task(ada.prompt(session))
        await asyncio.sleep(0)  # the prompt is on its way, and nothing has come of it
        await ada.agent.cancel(session_id=session)
        assert await prompting == "cancelled"
    assert (await place.client.status(session)).status == "cancelled"
    assert not (place.folder / "a.txt").exists()


async def test_who_was_first_elsewhere_is_told_and_the_turn_ends(place: Place) -> None:
    writer(place)
    async with editor(place, None) as ada:
        session = await ada.new()
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.was_asked.wait()
        place.started.append(session)
        await place.decide(session, id="a1", by="bob")
        assert await prompting == "end_turn"
        assert "write_file /a.txt (2 bytes): approved by bob" in ada.titles()


async def test_a_call_that_is_put_aside_waits_for_others(place: Place) -> None:
    writer(place)
    async with editor(place, lambda _call: None) as ada:
        session = await ada.new()
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.was_asked.wait()
        place.started.append(session)
        assert (await place.client.questions(session))[0].is_open
        await place.decide(session, id="a1", by="bob")
        assert await prompting == "end_turn"
    assert len(ada.asked) == 1


async def test_cancel_stops_the_run_and_the_turn_says_so(place: Place) -> None:
    writer(place)
    async with editor(place, None) as ada:
        session = await ada.new()
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.was_asked.wait()
        place.started.append(session)
        await ada.agent.cancel(session_id=session)
        assert await prompting == "cancelled"
        assert await ada.prompt(session) == "refusal"
        assert "has ended" in ada.words()


async def test_delegations_are_the_plan(place: Place) -> None:
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    place.worker("helper", scripted("I help."))
    place.worker(
        "writer",
        scripted(call("helper", input="help"), "Done."),
        toolsets={"delegation": {"helper": {}}},
    )
    async with editor(place, None) as ada:
        session = await ada.new()
        await ada.prompt(session)
        place.started.append(session)
        plans = [
            [(one.content, one.status) for one in plan.entries] for plan in ada.news if plan.session_update == "plan"
        ]
    assert plans == [[("helper-1 (helper)", "in_progress")], [("helper-1 (helper)", "completed")]]
    thoughts = [one.content.text for one in ada.news if one.session_update == "agent_thought_chunk"]
    assert thoughts == ["main/helper-1: I help.\n"]
    assert "I help." not in ada.words()


async def test_a_session_that_is_not_there_is_not_found_and_a_wrong_start_is_told(place: Place) -> None:
    writer(place)
    async with editor(place, None) as ada:
        for method in (ada.agent.load_session, ada.agent.resume_session):
            with pytest.raises(RequestError):
                await method(cwd="/work", session_id="nothing", mcp_servers=[])
        (place.folder / "workers" / "writer.worker").write_text("---\nmodel: 3\n---\n")
        assert await ada.prompt(await ada.new()) == "refusal"
        assert "model" in ada.words()


async def test_words_come_while_they_are_written_and_none_comes_twice(place: Place, point_at: Any) -> None:
    gate = Gate()
    point_at(fixed(Text(EIGHT_WORDS, pause=gate)))
    place.worker("writer", STREAMED_MODEL)
    async with editor(place, None) as ada:
        place.started.append(session := await ada.new())
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.until(lambda: "one" in ada.words())
        assert f"{EIGHT_WORDS} ".startswith(ada.words())
        gate.open()
        assert await prompting == "end_turn"
    assert ada.words() == f"{EIGHT_WORDS}\n"


async def test_a_turn_that_is_asked_again_says_so_and_begins_anew(place: Place, point_at: Any) -> None:
    first, second = Gate(), Gate()
    point_at(fixed(Drop(Text("Never finished, whatever it says.", pause=first)), Text(EIGHT_WORDS, pause=second)))
    place.worker("writer", STREAMED_MODEL)
    async with editor(place, None) as ada:
        place.started.append(session := await ada.new())
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.until(lambda: "Never" in ada.words())
        first.open()
        await ada.until(lambda: "one" in ada.words())
        second.open()
        await prompting
    broken, words = ada.words().split(ANEW)
    assert "Never finished, whatever it says.".startswith(broken.strip())
    assert words == f"{EIGHT_WORDS}\n"


async def test_calls_are_seen_from_their_beginning_to_their_end(place: Place) -> None:
    writer(place, [write_call("/a.txt"), write_call("/b.txt"), call("read_file", path="/c.txt")], "Done.")
    place.workshop(approvals={"rules": {"sandbox.read": "pre_approved"}})
    async with editor(place, lambda one: "reject" if "/b.txt" in one.title else "approve") as ada:
        place.started.append(session := await ada.new())
        await ada.prompt(session)
    assert ada.calls() == {
        "main@1#1": ["in_progress", "pending", "in_progress", "completed"],
        "main@1#2": ["in_progress", "pending", "failed", "failed"],
        "main@1#3": ["in_progress", "failed"],
    }
    assert sorted(one.tool_call_id for one in ada.asked) == ["main@1#1", "main@1#2"]
    async with editor(place, None) as later:
        await later.agent.load_session(cwd="/work", session_id=session, mcp_servers=[])
        assert "Done." in later.words()
        assert later.calls() == ada.calls()
        assert "write_file /b.txt (2 bytes): rejected by ada via acp" in later.titles()


async def test_an_editor_with_forms_changes_a_call_or_rejects_it_with_a_reason(place: Place) -> None:
    writer(place, write_call("/a.txt"), write_call("/b.txt"), write_call("/c.txt"), "Done.")

    def fill(form: Any) -> Any:
        path = form.requested_schema.properties["change_path"].default
        if path == "/a.txt":
            return AcceptElicitationResponse(action="accept", content={"decision": "approve", "change_content": "ho"})
        if path == "/b.txt":
            return AcceptElicitationResponse(action="accept", content={"decision": "reject", "reason": "not this one"})
        return CancelElicitationResponse(action="cancel")

    async with editor(place, lambda _call: "form", fill=fill) as ada:
        place.started.append(session := await ada.new())
        prompting = asyncio.create_task(ada.prompt(session))
        await ada.until(lambda: len(ada.asked) == 3)
        await place.decide(session, id="a3", by="bob")
        assert await prompting == "end_turn"
    assert (place.folder / "a.txt").read_text() == "ho"
    assert not (place.folder / "b.txt").exists()
    verdicts = [one.verdict for one in await place.client.questions(session)]
    assert [(one.decision, one.note, one.by) for one in verdicts if one is not None] == [
        ("modify", "", "ada"),
        ("reject", "not this one", "ada"),
        ("approve", "", "bob"),
    ]


async def test_a_session_of_another_worker_or_person_is_not_there(place: Place) -> None:
    writer(place)
    place.worker("other", scripted("Hi."))
    foreign = [await place.start("other"), await place.start("writer")]
    async with editor(place, None) as ada:
        for session in (*foreign, "writer-00000000", "-00000000", "writer-1", "../x", "a" * 2_000):
            with pytest.raises(RequestError):
                await ada.agent.load_session(cwd="/work", session_id=session, mcp_servers=[])
            assert await ada.prompt(session) == "refusal"
            await ada.agent.cancel(session_id=session)
        assert "there is no session" in ada.words()
    assert {(await place.client.status(run)).started_by for run in foreign} == {""}
    await place.pending(foreign[1])
    await place.client.cancel(foreign[1])
