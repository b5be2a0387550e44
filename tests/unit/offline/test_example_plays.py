"""What the plays of the examples do with the results that they get: files, tools that fail, people who say no."""

from __future__ import annotations

import json
import runpy
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent

from tests.support.providers.offline_answers import (
    LIST,
    PATHS,
    TEXT,
    WORKSHOP,
    Talk,
    as_worker,
    in_file,
    instructed,
    offering,
    playing,
    tool,
)

NUMBER: dict[str, Any] = {"type": "integer"}
READ = tool("read_file", path=TEXT, offset=NUMBER, max_chars=NUMBER)
SHELL = tool("shell", command=TEXT)
MODEL = playing()
TRADES, SIGNATURE, description = map(in_file, ("TRADES", "SIGNATURE", "description"))
DIVIDE = tool("task_decomposer", task=TEXT, part_of=TEXT, levels=NUMBER)
SUMMARISE = tool("summarizer", path=TEXT, start=NUMBER, end=NUMBER, at_once=NUMBER)
BOARD = WORKSHOP / "files" / "whiteboards" / "tool-library.png"
CREATE = tool("worker_create", name=TEXT, instructions=TEXT, description=TEXT)
CALL = tool("worker_call", worker_name=TEXT, input_data=TEXT, attachments=PATHS)
REJECTED = "Rejected by ada: "


async def called(talk: Talk) -> tuple[str, dict[str, Any]]:
    """The one call of the next answer: the tool, and its arguments."""
    (call,) = await talk.calls()
    return call.tool_name, call.args_as_dict()


def ran(stdout: str = "", exit_code: int = 0, stderr: str = "") -> str:
    return json.dumps({"exit_code": exit_code, "stdout": stdout, "stderr": stderr})


def listing(*paths: str) -> str:
    return json.dumps({"files": [{"path": path, "bytes": 1} for path in paths]})


async def test_the_analyzer_tells_what_was_not_run_and_why() -> None:
    talk = Talk(playing("code_analyzer"), offering(LIST, SHELL), "how large is it? and `make test`")
    await talk.calls()
    talk.reply(listing("/b c.py", "/a.py"))
    commands = [call.args_as_dict()["command"] for call in await talk.calls()]
    assert all(command.endswith("-- a.py 'b c.py'") for command in commands)
    talk.reply(ran(" 3 a.py\n 9 b c.py\n12 total\n"), ran("a.py:1\nb c.py:2\n"), ran(exit_code=1))
    assert await called(talk) == ("shell", {"command": "make test"})
    talk.reply(REJECTED + "too slow")
    text = await talk.text()
    assert text.startswith("2 Python files with 12 lines; the largest is b c.py with 9.")
    assert "| b c.py | 9 | 2 |" in text
    assert f"`make test` was not run: {REJECTED}too slow" in text


async def test_the_organizer_counts_a_move_only_where_the_listing_shows_it() -> None:
    talk = Talk(playing("file_organizer"), offering(LIST, SHELL), "tidy /in")
    await talk.calls()
    talk.reply(listing("/in/a b.md", "/in/c.png", "/in/d", "/in/images/old.png"))
    assert await called(talk) == ("shell", {"command": "mkdir -p /in/documents /in/images /in/other"})
    talk.reply(ran())
    moves = [call.args_as_dict()["command"] for call in await talk.calls()]
    assert moves == ["mv -n '/in/a b.md' /in/documents/", "mv -n /in/c.png /in/images/", "mv -n /in/d /in/other/"]
    talk.reply(ran(), REJECTED + "leave it", ran())
    await talk.calls()
    talk.reply(listing("/in/documents/a b.md", "/in/c.png", "/in/d"))
    text = await talk.text()
    assert text.startswith("Moved 1 of 3 files.")
    assert f"/in/c.png stayed where it was: {REJECTED}leave it" in text
    assert "/in/d stayed where it was: something of that name is there already" in text


@pytest.mark.parametrize("instructions", ["Be brief.", "You keep notes of sums.", ""])
async def test_a_part_is_played_by_the_name_of_the_model(instructions: str) -> None:
    tools = [tool(name, a=TEXT, b=TEXT) for name in ("add", "multiply", "divide")]
    (call,) = await Talk(playing("calculator"), instructed(instructions, *tools), "2 + 3").calls()
    assert (call.tool_name, call.args_as_dict()) == ("add", {"a": 2, "b": 3})


def decomposer(**given: Any) -> Talk:
    return Talk(MODEL, as_worker("task_decomposer", DIVIDE), json.dumps(given))


def summarizer(**given: Any) -> Talk:
    return Talk(MODEL, as_worker("summarizer", READ, SUMMARISE), json.dumps(given))


async def args(talk: Talk) -> list[dict[str, Any]]:
    return [call.args_as_dict() for call in await talk.calls()]


def read(content: str, total: int) -> str:
    return json.dumps({"content": content, "truncated": True, "total_chars": total})


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        # the strongest border divides, the weaker ones are left for the parts
        ("Dig, plant and water; then harvest.", ["Dig, plant and water", "harvest"]),
        ("Sow the beans, then water them and wait", ["Sow the beans", "water them and wait"]),
        ("dig, plant, and water", ["dig", "plant", "water"]),
        ("dig and plant", ["dig", "plant"]),
        ("pay 2.50 crowns", []),
        ("a, b, c, d, e, f, g, h", ["a", "b", "c", "d", "e", "f, g, h"]),
        (" ; ", []),
    ],
)
def test_a_task_is_divided_where_its_words_do(task: str, parts: list[str]) -> None:
    assert in_file("parts_of")(task) == parts


async def test_every_part_is_handed_on_with_one_level_less() -> None:
    talk = decomposer(task="dig and plant", part_of="", levels=2)
    assert await args(talk) == [
        {"task": "dig", "part_of": "dig and plant", "levels": 1},
        {"task": "plant", "part_of": "dig and plant", "levels": 1},
    ]


async def test_the_outline_is_made_of_what_came_back() -> None:
    talk = decomposer(task="dig and plant", part_of="", levels=1)
    await talk.calls()
    talk.reply("DIG\n1. find a spade", RecursionError("too deep"))
    text = await talk.text()
    assert text.startswith("dig and plant\n1. DIG\n   1. find a spade\n2. plant (not divided: too deep)\n\n")
    assert "not from a language model" in text


async def test_what_can_be_read_at_once_is_summarised_at_once() -> None:
    talk = summarizer(path="/a.txt", start=0, end=None, at_once=500)
    assert await args(talk) == [{"path": "/a.txt", "offset": 0, "max_chars": 500}]
    talk.reply(read("The mill grinds flour. The mill waits for flour and tide. Cats sleep.", 69))
    assert (await talk.text()).startswith("The mill grinds flour. The mill waits for flour and tide.\n")


async def test_a_longer_text_is_divided_without_a_gap() -> None:
    talk = summarizer(path="/a.txt", start=100, end=1000, at_once=300)
    await talk.calls()
    talk.reply(read("x" * 300, 5000))
    assert await args(talk) == [
        {"path": "/a.txt", "start": start, "end": start + 300, "at_once": 300} for start in (100, 400, 700)
    ]
    talk.reply("One mill.", TimeoutError("never answered"), "Two mills.")
    assert await talk.text() == "One mill. Two mills.\n(Characters 400 to 700 are missing: never answered)"


async def test_a_file_that_cannot_be_read_is_said_to_be_so() -> None:
    talk = summarizer(path="/no.txt", start=0, end=None, at_once=500)
    await talk.calls()
    talk.reply(FileNotFoundError("'/no.txt' does not exist"))
    assert (await talk.text()).startswith("/no.txt could not be read: '/no.txt' does not exist")


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


async def test_a_rejected_worker_is_not_made_again() -> None:
    talk = bootstrapper()
    await one(talk)
    talk.reply("Rejected by ada: not today")
    assert (await talk.text()).startswith("No worker was made: Rejected by ada: not today")


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
