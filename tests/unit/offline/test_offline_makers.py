"""The plays of the whiteboard planner, the bootstrapper and the orchestrators that leave work to Python."""

from __future__ import annotations

import json
import runpy
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent

from llm_do_temporal.offline import offline_model
from llm_do_temporal.offline.bootstrapper import TRADES
from llm_do_temporal.offline.whiteboard import SIGNATURE, description
from tests.support.providers.offline_answers import (
    EVALUATOR,
    LIST,
    PATHS,
    TEXT,
    WORKSHOP,
    WRITE,
    Talk,
    as_worker,
    instructed,
    tool,
)

MODEL = offline_model("examples")
BOARD = WORKSHOP / "files" / "whiteboards" / "tool-library.png"
CREATE = tool("worker_create", name=TEXT, instructions=TEXT, description=TEXT)
CALL = tool("worker_call", worker_name=TEXT, input_data=TEXT, attachments=PATHS)
DECKS = tool("list_decks")
EVALUATE = tool("evaluate_decks", names=PATHS, wish=TEXT)
LISTED = json.dumps([{"deck": f"/pipeline/{name}.pdf", "evaluation": f"/out/{name}.md"} for name in ("alder", "birch")])


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content), kind) + content + b"\0\0\0\0"


def board(data: bytes) -> BinaryContent:
    return BinaryContent(data, media_type="image/png", identifier="board.png")


async def planned(*pictures: BinaryContent) -> str:
    return await Talk(MODEL, as_worker("whiteboard_planner"), "plan it", *pictures).text()


async def test_the_shipped_board_becomes_a_plan() -> None:
    text = await planned(board(BOARD.read_bytes()))
    assert text.startswith("## Goal\n\n- open on 3 May, neighbours borrow tools\n\n## Steps\n\n1. paint the container")
    assert "## Open\n\n- who insures us?" in text


async def test_notes_of_no_kind_are_steps() -> None:
    data = SIGNATURE + chunk(b"IHDR", b"") + chunk(b"tEXt", b"Description\0Buy: nails\n\ndone: wood")
    assert (await planned(board(data))).startswith("## Steps\n\n1. Buy: nails\n\n## Done\n\n- wood\n")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GIF89a tEXtDescription\0goal: x",
        SIGNATURE,
        SIGNATURE + chunk(b"tEXt", b"Author\0Ada"),
        SIGNATURE + struct.pack(">I4s", 2**32 - 1, b"tEXt"),
        SIGNATURE + chunk(b"IDAT", b"x" * 50)[:20],
    ],
    ids=["empty", "no png", "no chunk", "no description", "a length that lies", "cut off"],
)
async def test_a_picture_without_a_description_is_not_seen(data: bytes) -> None:
    assert description(data) == ""
    assert "cannot see pictures" in await planned(board(data))


async def test_without_a_picture_there_is_no_plan() -> None:
    assert "no picture of a whiteboard is attached" in await planned()


def test_the_board_is_drawn_alike_every_time_and_says_what_the_shipped_one_says(tmp_path: Path) -> None:
    draw = runpy.run_path(str(WORKSHOP.parent / "scripts" / "decks" / "make_whiteboard.py"))["main"]
    draw(tmp_path / "once.png")
    draw(tmp_path / "again.png")
    drawn = (tmp_path / "once.png").read_bytes()
    assert drawn == (tmp_path / "again.png").read_bytes()
    assert description(drawn) == description(BOARD.read_bytes()) != ""


def bootstrapper(prompt: str = "Make a checklist: rope; a tent and nails.") -> Talk:
    return Talk(MODEL, as_worker("bootstrapper", CREATE, CALL), prompt)


async def one(talk: Talk) -> dict[str, Any]:
    (call,) = await talk.calls()
    return call.args_as_dict()


async def test_the_worker_that_is_made_gets_the_material() -> None:
    talk = bootstrapper()
    assert (await one(talk))["name"] == "checklist_writer"
    talk.reply(json.dumps({"name": "checklist_writer", "file": "x"}))
    assert await one(talk) == {"worker_name": "checklist_writer", "input_data": "rope; a tent and nails."}
    talk.reply("- [ ] rope")
    assert (await talk.text()).startswith("- [ ] rope\n\nDone by checklist_writer")


async def test_a_name_that_is_taken_gets_a_number_twice_at_most() -> None:
    talk = bootstrapper("Summarise: The mill is old.")
    names = [(await one(talk))["name"]]
    for _ in range(2):
        talk.reply(ValueError(f"worker '{names[-1]}' exists already (a.worker)"))
        names.append((await one(talk))["name"])
    assert names == ["gist_writer", "gist_writer_2", "gist_writer_3"]
    talk.reply(ValueError("worker 'gist_writer_3' exists already (a.worker)"))
    assert (await talk.text()).startswith("No worker was made: worker 'gist_writer_3' exists already")


async def test_a_rejected_worker_is_not_made_again() -> None:
    talk = bootstrapper()
    await one(talk)
    talk.reply("Rejected by ada: not today")
    assert (await talk.text()).startswith("No worker was made: Rejected by ada: not today")


async def test_a_worker_is_called_by_the_name_a_person_gave_it() -> None:
    talk = bootstrapper()
    await one(talk)
    talk.reply(json.dumps({"result": {"name": "packer", "file": "x"}, "note": "ada changed this call"}))
    assert (await one(talk))["worker_name"] == "packer"
    talk.reply(ValueError("no tokens left"))
    assert (await talk.text()).startswith("packer was made, and could not do it: no tokens left")


@pytest.mark.parametrize(
    ("trade", "given", "done"),
    [
        ("checklist_writer", "rope, a tent, and nails.\nglue", "- [ ] rope\n- [ ] a tent\n- [ ] nails\n- [ ] glue"),
        ("gist_writer", "The mill is old. The mill grinds flour. Cats sleep.", "The mill grinds flour."),
        ("gist_writer", "no sentence", "no sentence"),
    ],
)
async def test_a_made_worker_does_what_its_instructions_say(trade: str, given: str, done: str) -> None:
    (instructions,) = (one.instructions for one in TRADES if one.name == trade)
    assert await Talk(MODEL, instructed(instructions), given).text() == done


async def test_the_decks_and_the_files_are_those_of_the_list() -> None:
    talk = Talk(MODEL, as_worker("pitch_orchestrator_listed", LIST, DECKS, EVALUATOR, WRITE), "evaluate birch")
    (asked,) = await talk.calls()
    assert (asked.tool_name, asked.args_as_dict()) == ("list_decks", {})
    talk.reply(LISTED)
    assert (await one(talk))["attachments"] == ["/pipeline/birch.pdf"]
    talk.reply({"scores": [], "verdict": "pass"})
    assert (await one(talk))["path"] == "/out/birch.md"


@pytest.mark.parametrize("listed", ["[]", RuntimeError("no such folder")])
async def test_an_empty_list_is_not_looked_past(listed: Any) -> None:
    talk = Talk(MODEL, as_worker("pitch_orchestrator_listed", LIST, DECKS, EVALUATOR, WRITE), "evaluate all")
    await talk.calls()
    talk.reply(listed)
    assert (await talk.text()).startswith("There are no decks.")


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("evaluate every deck", []),
        ("evaluate alder", ["alder"]),
        ("birch.pdf and x.pdf", ["birch", "x.pdf"]),
        ("x.pdf", ["x.pdf"]),
    ],
)
async def test_python_is_told_which_decks_are_meant(prompt: str, names: list[str]) -> None:
    talk = Talk(MODEL, as_worker("pitch_orchestrator_coded", DECKS, EVALUATE, EVALUATOR, WRITE), prompt)
    await talk.calls()
    talk.reply(LISTED)
    assert await one(talk) == {"names": names}


async def test_what_python_reports_is_told_with_every_problem() -> None:
    talk = Talk(MODEL, as_worker("pitch_orchestrator_coded", DECKS, EVALUATE), "evaluate every deck")
    await talk.calls()
    talk.reply(LISTED)
    await talk.calls()
    good = {"deck": "/pipeline/alder.pdf", "verdict": "go", "average": 4.1, "file": "/out/alder.md"}
    bad = {"deck": "/pipeline/birch.pdf", "problem": "Rejected by ada: no"}
    talk.reply(json.dumps({"result": [good, bad], "note": "ada changed a call"}))
    text = await talk.text()
    assert "| /pipeline/alder.pdf | go | 4.1 | /out/alder.md |" in text
    assert "- /pipeline/birch.pdf: Rejected by ada: no\n\nada changed a call" in text


@pytest.mark.parametrize("listed", ["[]", RuntimeError("no such folder")])
async def test_without_decks_python_is_not_called(listed: Any) -> None:
    talk = Talk(MODEL, as_worker("pitch_orchestrator_coded", DECKS, EVALUATE), "evaluate every deck")
    await talk.calls()
    talk.reply(listed)
    assert (await talk.text()).startswith("There is no deck to evaluate")
