"""The offline orchestrator: each turn follows from the conversation alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import StructuredDict

from llm_do_temporal.offline import offline_model
from llm_do_temporal.offline.decks.deck_choice import choose_decks, evaluation_paths, listed_decks
from tests.support.providers.offline_answers import EVALUATOR, LIST, PATHS, TEXT, WRITE, Talk, offering, tool
from tests.support.workshops.drawn_decks import PIPELINE

DECKS = ("/pipeline/alder.pdf", "/pipeline/birch.pdf", "/pipeline/cedar.pdf")


def listing(*paths: str) -> dict[str, Any]:
    return {"files": [{"path": path, "bytes": 9} for path in paths], "truncated": False}


def evaluation(verdict: str = "watch", score: int = 3) -> dict[str, Any]:
    rows = [{"dimension": "team", "score": score, "evidence": 'page 2: "Ada, CEO"'}]
    return {"summary": "Fine.", "scores": rows, "verdict": verdict, "red_flags": ["No ask."]}


def talk(prompt: str = "Evaluate every deck", *tools: Any) -> Talk:
    return Talk(offline_model("pitch-orchestrator"), offering(*(tools or (LIST, EVALUATOR, WRITE))), prompt)


def args(calls: list[ToolCallPart]) -> list[dict[str, Any]]:
    return [call.args_as_dict() for call in calls]


async def up_to_writing(answers: list[Any], decks: tuple[str, ...] = DECKS) -> tuple[Talk, list[ToolCallPart]]:
    """A conversation whose last message is the orchestrator's writes."""
    conversation = talk()
    await conversation.ask()
    conversation.reply(listing(*decks))
    await conversation.ask()
    conversation.reply(*answers)
    return conversation, await conversation.calls()


async def test_first_it_lists_the_pipeline() -> None:
    (call,) = await talk().calls()
    assert (call.tool_name, call.args_as_dict()) == ("list_files", {"path": "/pipeline", "pattern": "**/*.pdf"})


async def test_a_folder_in_the_prompt_comes_first() -> None:
    (call,) = await talk("Evaluate every deck in /incoming/may.").calls()
    assert call.args_as_dict()["path"] == "/incoming/may"


@pytest.mark.parametrize("answer", [listing(), OSError("'/pipeline' does not exist")], ids=["empty", "missing"])
async def test_without_a_pipeline_it_looks_everywhere(answer: Any) -> None:
    conversation = talk()
    await conversation.ask()
    conversation.reply(answer)
    (call,) = await conversation.calls()
    assert call.args_as_dict()["path"] == "/"


async def test_without_any_deck_it_says_so_and_stops() -> None:
    conversation = talk()
    for _ in range(2):
        await conversation.ask()
        conversation.reply(listing())
    assert (await conversation.text()).startswith("There are no decks: no PDF in /pipeline or /.")


async def test_every_deck_is_delegated_in_one_turn() -> None:
    conversation = talk()
    await conversation.ask()
    conversation.reply(listing(*DECKS, "/pipeline/notes.txt"))
    calls = await conversation.calls()
    assert {call.tool_name for call in calls} == {"pitch_evaluator"}
    assert [given["attachments"] for given in args(calls)] == [[deck] for deck in DECKS]
    assert len({call.tool_call_id for call in calls}) == len(calls)


async def test_only_the_decks_that_are_named_are_evaluated() -> None:
    conversation = talk("Please look at birch.pdf and oak.pdf")
    await conversation.ask()
    conversation.reply(listing(*DECKS))
    assert [given["attachments"] for given in args(await conversation.calls())] == [["/pipeline/birch.pdf"]]
    conversation.reply(evaluation())
    await conversation.ask()
    conversation.reply({"path": "/evaluations/birch.md"})
    assert "No deck is called oak.pdf." in await conversation.text()


async def test_a_deck_that_does_not_exist_ends_with_those_that_do() -> None:
    conversation = talk("Evaluate oak.pdf")
    await conversation.ask()
    conversation.reply(listing(*DECKS))
    assert (await conversation.text()).startswith(f"No deck is called oak.pdf. There are {', '.join(DECKS)}.")


@pytest.mark.parametrize(
    ("worker_name", "worker"),
    [
        ({"type": "string", "enum": ["greeter", "deck_scorer"]}, "deck_scorer"),
        ({"type": "string", "description": "One of: greeter, evaluator."}, "evaluator"),
        (TEXT, "pitch_evaluator"),
    ],
    ids=["enum", "description", "nothing"],
)
async def test_the_generic_tool_is_given_a_worker(worker_name: dict[str, Any], worker: str) -> None:
    generic = tool("worker_call", worker_name=worker_name, input_data=TEXT, attachments=PATHS)
    conversation = talk("Evaluate every deck", LIST, generic, WRITE)
    await conversation.ask()
    conversation.reply(listing(DECKS[0]))
    (given,) = args(await conversation.calls())
    assert given["worker_name"] == worker
    assert given["attachments"] == [DECKS[0]]
    assert "Evaluate" in given["input_data"]


async def test_a_worker_named_in_the_instructions_is_called() -> None:
    generic = tool("worker_call", worker_name=TEXT, input_data=TEXT, attachments=PATHS)
    parameters = offering(LIST, generic, WRITE)
    conversation = Talk(offline_model("pitch-orchestrator"), parameters, "Evaluate every deck")
    conversation.messages[0].instructions = "Have each deck judged by the worker seed_evaluator."  # pyright: ignore[reportAttributeAccessIssue]
    await conversation.ask()
    conversation.reply(listing(DECKS[0]))
    assert args(await conversation.calls())[0]["worker_name"] == "seed_evaluator"


async def test_successful_evaluations_are_written_in_one_turn_and_failed_ones_are_not() -> None:
    failure = RuntimeError("worker 'pitch_evaluator' failed: the deck is locked")
    conversation, writes = await up_to_writing([evaluation(), failure, evaluation("go", 5)])
    assert [given["path"] for given in args(writes)] == ["/evaluations/alder.md", "/evaluations/cedar.md"]
    page = args(writes)[1]["content"]
    assert all(words in page for words in ("**go**", "5.0 of 5", '> page 2: "Ada, CEO"', "- No ask."))
    conversation.reply({"path": "/evaluations/alder.md"}, {"path": "/evaluations/cedar.md"})
    text = await conversation.text()
    assert "Evaluated 2 of 3 decks, wrote 2 files." in text
    assert "| /pipeline/cedar.pdf | go | 5.0 | /evaluations/cedar.md | No ask. |" in text
    assert "Not evaluated: /pipeline/birch.pdf: worker 'pitch_evaluator' failed: the deck is locked" in text


@pytest.mark.parametrize(
    "answer",
    [{"output": evaluation("go", 4)}, json.dumps(evaluation("go", 4)), {"result": json.dumps(evaluation("go", 4))}],
    ids=["wrapped", "text", "wrapped text"],
)
async def test_an_evaluation_is_found_however_the_tool_hands_it_over(answer: Any) -> None:
    conversation, writes = await up_to_writing([answer], DECKS[:1])
    assert "- Verdict: **go**" in args(writes)[0]["content"]
    conversation.reply("written")
    assert "| /pipeline/alder.pdf | go | 4.0 | /evaluations/alder.md | No ask. |" in await conversation.text()


@pytest.mark.parametrize(
    ("answer", "shown"),
    [("A promising company.", "A promising company."), ({"mark": "B"}, '"mark": "B"')],
    ids=["text", "another shape"],
)
async def test_an_evaluation_of_another_kind_is_written_as_it_is(answer: Any, shown: str) -> None:
    conversation, writes = await up_to_writing([answer], DECKS[:1])
    assert shown in args(writes)[0]["content"]
    conversation.reply("written")
    assert "| /pipeline/alder.pdf | see file | - | /evaluations/alder.md | none |" in await conversation.text()


async def test_without_a_tool_to_delegate_with_it_says_so() -> None:
    conversation = talk("Evaluate every deck", LIST, WRITE)
    await conversation.ask()
    conversation.reply(listing(*DECKS))
    assert (await conversation.text()).startswith("There are 3 decks, but no tool to have them evaluated with.")


async def test_if_every_evaluation_fails_nothing_is_written() -> None:
    conversation, writes = await up_to_writing([RuntimeError("boom")] * 3)
    assert writes == []
    assert "Evaluated 0 of 3 decks" in "".join(getattr(part, "content", "") for part in conversation.messages[-1].parts)


async def test_a_rejected_write_is_reported_with_the_note_and_not_repeated() -> None:
    conversation, _ = await up_to_writing([evaluation()] * 3)
    rejected = PermissionError("Rejected by ann: too kind to birch, leave it out")
    conversation.reply({"path": "/evaluations/alder.md"}, rejected, {"path": "/evaluations/cedar.md"})
    text = await conversation.text()
    assert '/evaluations/birch.md was not written: "Rejected by ann: too kind to birch, leave it out"' in text
    assert "wrote 2 files" in text


async def test_a_note_that_names_another_file_is_followed_once() -> None:
    conversation, writes = await up_to_writing([evaluation()], DECKS[:1])
    content = args(writes)[0]["content"]
    conversation.reply(PermissionError("Rejected by ann: put it in /evaluations/2025/alder.md."))
    (again,) = args(await conversation.calls())
    assert again == {"path": "/evaluations/2025/alder.md", "content": content}
    conversation.reply(PermissionError("Rejected by ann: or not at all"))
    text = await conversation.text()
    assert "put it in /evaluations/2025/alder.md" in text
    assert "Rejected by ann: or not at all" in text
    assert "| not written |" in text


async def test_the_summary_names_the_file_a_person_chose() -> None:
    conversation, _ = await up_to_writing([evaluation()], DECKS[:1])
    conversation.reply({"path": "/elsewhere/alder.md", "bytes": 3})
    assert "/elsewhere/alder.md" in await conversation.text()


async def test_a_rejected_delegation_is_reported() -> None:
    conversation, writes = await up_to_writing([PermissionError("Rejected by bo: not this one")], DECKS[:1])
    assert writes == []
    assert "Not evaluated: /pipeline/alder.pdf: Rejected by bo: not this one" in str(conversation.messages[-1])


async def test_the_next_step_is_the_same_for_a_new_process() -> None:
    conversation, writes = await up_to_writing([evaluation()] * 3)
    again = await offline_model("pitch-orchestrator").request(conversation.messages[:-1], None, conversation.parameters)
    assert [part for part in again.parts if isinstance(part, ToolCallPart)] == writes


async def test_without_tools_it_says_what_is_missing() -> None:
    text = await Talk(offline_model("pitch-orchestrator"), ModelRequestParameters(), "go").text()
    assert text.startswith("There is no tool 'list_files'")
    assert "not from a language model" in text


@pytest.mark.parametrize(
    ("prompt", "chosen"),
    [
        ("", ("/p/a/x.pdf", "/p/b/x.pdf", "/p/fern-hill.pdf")),  # nothing named
        ("evaluate every deck", ("/p/a/x.pdf", "/p/b/x.pdf", "/p/fern-hill.pdf")),
        ("What about Fern Hill?", ("/p/fern-hill.pdf",)),  # the stem, however it is written
        ("x.pdf", ("/p/a/x.pdf", "/p/b/x.pdf")),  # a name that two decks have
        ("/p/b/x.pdf", ("/p/b/x.pdf",)),  # a path tells them apart
        ("b/X.PDF please", ("/p/b/x.pdf",)),
        ("fernhillside", ("/p/a/x.pdf", "/p/b/x.pdf", "/p/fern-hill.pdf")),  # part of a word is no name
    ],
)
def test_decks_are_chosen_by_the_words_of_the_prompt(prompt: str, chosen: tuple[str, ...]) -> None:
    assert choose_decks(("/p/a/x.pdf", "/p/b/x.pdf", "/p/fern-hill.pdf"), prompt).decks == chosen


@pytest.mark.parametrize(
    "result",
    [
        listing("/p/a b.pdf", "/p/c.PDF"),
        ["/p/a b.pdf", "/p/c.PDF", "/p/d.md"],
        "/p/a b.pdf\n/p/c.PDF\n/p/d.md",
    ],
    ids=["entries", "list", "text"],
)
def test_a_listing_is_understood_in_any_shape(result: Any) -> None:
    assert listed_decks(result) == ("/p/a b.pdf", "/p/c.PDF")


def test_decks_with_one_stem_get_files_of_their_own() -> None:
    paths = evaluation_paths(["/p/a/x.pdf", "/p/b/X.pdf", "/p/y.pdf", "/p-a/x.pdf"])
    assert list(paths.values()) == [
        "/evaluations/p-a-x.md",
        "/evaluations/p-b-X.md",
        "/evaluations/y.md",
        "/evaluations/p-a-x-2.md",
    ]


async def test_one_model_plays_the_whole_workshop(evaluation_schema: dict[str, Any]) -> None:
    """Through the agent loop, with plain tools in the place of the product's."""
    model = offline_model("pitch-decks")
    evaluator = Agent(model, output_type=StructuredDict(evaluation_schema, name="evaluation"))
    orchestrator = Agent(model)
    written: dict[str, str] = {}

    @orchestrator.tool_plain
    def list_files(path: str, pattern: str) -> list[str]:  # pyright: ignore[reportUnusedFunction]
        return [f"{path}/{file.name}" for file in sorted(PIPELINE.glob("*.pdf"))]

    @orchestrator.tool_plain
    async def pitch_evaluator(input: str, attachments: list[str]) -> dict[str, Any]:  # noqa: A002  # pyright: ignore[reportUnusedFunction]
        data = (PIPELINE.parent / attachments[0].lstrip("/")).read_bytes()
        deck = BinaryContent(data, media_type="application/pdf", identifier=attachments[0])
        return (await evaluator.run([input, deck])).output

    @orchestrator.tool_plain
    def write_file(path: str, content: str) -> str:  # pyright: ignore[reportUnusedFunction]
        written[path] = content
        return "written"

    result = await orchestrator.run("Evaluate every deck")
    assert sorted(written) == [f"/evaluations/{file.stem}.md" for file in sorted(PIPELINE.glob("*.pdf"))]
    assert len(set(written.values())) == len(written)
    assert "Evaluated 5 of 5 decks, wrote 5 files." in result.output
    assert result.usage.requests == 4
