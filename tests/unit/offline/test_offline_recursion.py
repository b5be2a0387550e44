"""The two plays that call themselves: what they divide, what they hand on, and what they make of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_do_temporal.offline import offline_model
from llm_do_temporal.offline.summarizer import key_sentences
from llm_do_temporal.offline.task_decomposer import parts_of
from tests.support.providers.offline_answers import TEXT, Talk, as_worker, tool

NUMBER: dict[str, Any] = {"type": "integer"}
DIVIDE = tool("task_decomposer", task=TEXT, part_of=TEXT, levels=NUMBER)
SUMMARISE = tool("summarizer", path=TEXT, start=NUMBER, end=NUMBER, at_once=NUMBER)
READ = tool("read_file", path=TEXT, offset=NUMBER, max_chars=NUMBER)
MODEL = offline_model("examples")


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
    assert parts_of(task) == parts


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


@pytest.mark.parametrize("given", [{"task": "dig and plant", "levels": 0}, {"task": "dig", "levels": 2}])
async def test_a_step_is_its_own_outline(given: dict[str, Any]) -> None:
    assert await decomposer(part_of="the garden", **given).text() == given["task"]


async def test_a_task_in_plain_words_is_divided_too() -> None:
    talk = Talk(MODEL, as_worker("task_decomposer", DIVIDE), "dig {soft soil} and plant")
    assert [call["levels"] for call in await args(talk)] == [1, 1]


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


async def test_an_end_past_the_file_is_the_files() -> None:
    talk = summarizer(path="/a.txt", start=0, end=9999, at_once=500)
    await talk.calls()
    talk.reply(read("x" * 500, 800))
    assert [(part["start"], part["end"]) for part in await args(talk)] == [(0, 400), (400, 800)]


@pytest.mark.parametrize("total", [0, 40], ids=["an empty file", "a stretch behind the end"])
async def test_nothing_is_summarised_as_nothing(total: int) -> None:
    talk = summarizer(path="/a.txt", start=50, end=90, at_once=500)
    await talk.calls()
    talk.reply(read("", total))
    assert await talk.text() == "(nothing to summarise)"


async def test_a_file_that_cannot_be_read_is_said_to_be_so() -> None:
    talk = summarizer(path="/no.txt", start=0, end=None, at_once=500)
    await talk.calls()
    talk.reply(FileNotFoundError("'/no.txt' does not exist"))
    assert (await talk.text()).startswith("/no.txt could not be read: '/no.txt' does not exist")


def test_key_sentences_are_whole_and_in_their_order() -> None:
    text = "eaks the dam. Rain falls on the mill. The dam holds the mill. Cats sleep. The mill and the dam"
    assert key_sentences(text, 2) == ["Rain falls on the mill.", "The dam holds the mill."]
    assert key_sentences("no sentence here", 2) == []
