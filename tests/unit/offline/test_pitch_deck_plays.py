"""The plays of the workers that evaluate pitch decks: they read the decks, quote them, and say what they cannot do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.output import StructuredDict

from llm_do_temporal.json_schema import schema_problems
from tests.support.providers.offline_answers import (
    DECKS as FILE,
)
from tests.support.providers.offline_answers import (
    EVALUATOR,
    LIST,
    PATHS,
    TEXT,
    WRITE,
    Talk,
    as_worker,
    in_file,
    offering,
    pdf,
    playing,
    tool,
    wanting,
)
from tests.support.workshops.drawn_decks import PIPELINE, draw_deck, draw_pictures, quotes_in, text_of_pages

EXAMPLES = playing()
DECKS = ("/pipeline/alder.pdf", "/pipeline/birch.pdf", "/pipeline/cedar.pdf")
LIST_DECKS = tool("list_decks")
EVALUATE = tool("evaluate_decks", names=PATHS, wish=TEXT)
LISTED = json.dumps([{"deck": f"/pipeline/{name}.pdf", "evaluation": f"/out/{name}.md"} for name in ("alder", "birch")])
READABLE = ("frostlane", "kelpworks", "mendly", "vibeloop")
DIMENSIONS = ["problem", "solution", "market", "business_model", "traction", "team", "financials_and_ask"]


MODEL = playing("play_decks", FILE)


async def evaluate(data: bytes, schema: dict[str, Any]) -> dict[str, Any]:
    (answer,) = await Talk(MODEL, wanting(schema), "Evaluate it.", pdf(data)).calls()
    assert answer.tool_name == "final_result"
    return answer.args_as_dict()


async def evaluate_shipped(stem: str, schema: dict[str, Any]) -> dict[str, Any]:
    return await evaluate((PIPELINE / f"{stem}.pdf").read_bytes(), schema)


def scores_of(evaluation: dict[str, Any]) -> dict[str, int]:
    return {row["dimension"]: row["score"] for row in evaluation["scores"]}


@pytest.mark.parametrize("path", sorted(PIPELINE.glob("*.pdf")), ids=lambda path: path.stem)
async def test_an_evaluation_meets_the_schema_of_the_shipped_worker(path: Any, evaluation_schema: Any) -> None:
    evaluation = await evaluate(path.read_bytes(), evaluation_schema)
    assert schema_problems(evaluation_schema, evaluation) == []
    assert [row["dimension"] for row in evaluation["scores"]] == DIMENSIONS
    assert "not by a language model" in evaluation["summary"]


@pytest.mark.parametrize("stem", READABLE)
async def test_every_quote_stands_on_the_page_it_names(stem: str, evaluation_schema: Any) -> None:
    pages = text_of_pages((PIPELINE / f"{stem}.pdf").read_bytes())
    evaluation = await evaluate_shipped(stem, evaluation_schema)
    for row in evaluation["scores"]:
        quotes = quotes_in(row["evidence"])
        assert quotes or row["evidence"].startswith("The deck says nothing about it")
        assert all(words in pages[page - 1] for page, words in quotes), row


async def test_decks_of_different_quality_get_different_verdicts(evaluation_schema: Any) -> None:
    evaluations = [await evaluate_shipped(stem, evaluation_schema) for stem in READABLE]
    assert [evaluation["verdict"] for evaluation in evaluations] == ["go", "watch", "pass", "pass"]
    sums = [sum(scores_of(evaluation).values()) for evaluation in evaluations]
    assert sums == sorted(sums, reverse=True)
    assert len(set(sums)) == len(sums)
    assert len({evaluation["summary"] for evaluation in evaluations}) == len(evaluations)


async def test_red_flags_name_what_is_wrong(evaluation_schema: Any) -> None:
    flags = (await evaluate_shipped("mendly", evaluation_schema))["red_flags"]
    assert flags[0].startswith('Claims to have no competition (page 6: "We have no competitors')
    assert [flag.split(":")[0] for flag in flags[1:]] == ["No team", "No clear ask"]
    assert (await evaluate_shipped("frostlane", evaluation_schema))["red_flags"] == []


async def test_a_deck_nobody_has_seen_before_is_scored_by_what_it_says(evaluation_schema: Any) -> None:
    deck = draw_deck(
        ["Hollowpine", "Acoustic panels from bark."],
        ["Team", "Nadia Brandt, CEO, sold panels at Woodline for 7 years.", "Oleg Vidal, CTO, PhD in acoustics."],
        ["Traction", "34 customers pay us. Revenue of €210,000, up from €80,000 to €210,000 in 2024."],
    )
    evaluation = await evaluate(deck, evaluation_schema)
    scores = scores_of(evaluation)
    assert scores["team"] == 5
    assert scores["traction"] == 4
    assert scores["market"] == scores["business_model"] == 1
    evidence = {row["dimension"]: row["evidence"] for row in evaluation["scores"]}
    assert evidence["team"].startswith('page 2: "Nadia Brandt, CEO')
    assert evidence["market"] == "The deck says nothing about it (3 pages read)."
    assert evaluation["summary"].startswith("Hollowpine: 3 pages")


@pytest.mark.parametrize("data", [draw_pictures(3), (PIPELINE / "brightacre-scan.pdf").read_bytes()])
async def test_a_scan_is_not_judged_and_says_why(data: bytes, evaluation_schema: Any) -> None:
    pages = len(text_of_pages(data))
    evaluation = await evaluate(data, evaluation_schema)
    assert set(scores_of(evaluation).values()) == {1}
    assert {row["evidence"] for row in evaluation["scores"]} == {f"no readable text on any of {pages} pages"}
    assert evaluation["verdict"] == "watch"
    assert evaluation["red_flags"] == [
        f"Images only: {pages} of {pages} pages are pictures without text; needs a model with eyes."
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4\nnothing that follows is a PDF",
        b"",
        (PIPELINE / "frostlane.pdf").read_bytes()[:3000],
    ],
    ids=["no pdf", "empty", "cut off"],
)
async def test_a_damaged_file_is_reported_and_not_judged(data: bytes, evaluation_schema: Any) -> None:
    evaluation = await evaluate(data, evaluation_schema)
    assert schema_problems(evaluation_schema, evaluation) == []
    assert evaluation["summary"].startswith("Nothing was evaluated: '/pipeline/deck.pdf' cannot be opened")
    assert evaluation["verdict"] == "watch"
    assert evaluation["red_flags"][0].startswith("The file cannot be opened")


async def test_no_attachment_is_reported(evaluation_schema: Any) -> None:
    talk = Talk(MODEL, wanting(evaluation_schema), "Evaluate it.")
    (answer,) = await talk.calls()
    assert answer.args_as_dict()["summary"].startswith("Nothing was evaluated: no PDF was attached.")


async def test_a_schema_of_another_shape_is_met_with_what_is_known() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["pass", "watch", "go"]},
            "average": {"type": "number"},
            "red_flags": {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            "analyst": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Person"}]},
            "confidence": {"type": "integer", "minimum": 1, "maximum": 10},
        },
        "required": ["verdict", "average", "red_flags", "analyst", "confidence"],
        "additionalProperties": False,
        "$defs": {
            "Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
    }
    evaluation = await evaluate((PIPELINE / "mendly.pdf").read_bytes(), schema)
    assert schema_problems(schema, evaluation) == []
    assert evaluation["verdict"] == "pass"
    assert evaluation["average"] == 2.9
    assert len(evaluation["red_flags"]) == 1


async def test_the_same_request_gets_the_same_answer_in_any_process(evaluation_schema: Any) -> None:
    first, second = await asyncio.gather(*[evaluate_shipped("frostlane", evaluation_schema) for _ in range(2)])
    assert first == second


def listing(*paths: str) -> dict[str, Any]:
    return {"files": [{"path": path, "bytes": 9} for path in paths], "truncated": False}


def evaluation(verdict: str = "watch", score: int = 3) -> dict[str, Any]:
    rows = [{"dimension": "team", "score": score, "evidence": 'page 2: "Ada, CEO"'}]
    return {"summary": "Fine.", "scores": rows, "verdict": verdict, "red_flags": ["No ask."]}


def talk(prompt: str = "Evaluate every deck", *tools: Any) -> Talk:
    return Talk(MODEL, offering(*(tools or (LIST, EVALUATOR, WRITE))), prompt)


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


@pytest.mark.parametrize("answer", [listing(), OSError("'/pipeline' does not exist")], ids=["empty", "missing"])
async def test_without_a_pipeline_it_looks_everywhere(answer: Any) -> None:
    conversation = talk()
    await conversation.ask()
    conversation.reply(answer)
    (call,) = await conversation.calls()
    assert call.args_as_dict()["path"] == "/"


async def test_every_deck_is_delegated_in_one_turn() -> None:
    conversation = talk()
    await conversation.ask()
    conversation.reply(listing(*DECKS, "/pipeline/notes.txt"))
    calls = await conversation.calls()
    assert {call.tool_name for call in calls} == {"pitch_evaluator"}
    assert [given["attachments"] for given in args(calls)] == [[deck] for deck in DECKS]
    assert len({call.tool_call_id for call in calls}) == len(calls)


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
    found = in_file("choose_decks", FILE)(("/p/a/x.pdf", "/p/b/x.pdf", "/p/fern-hill.pdf"), prompt)
    assert found == (list(chosen), [])


async def test_one_model_plays_the_whole_workshop(evaluation_schema: dict[str, Any]) -> None:
    """Through the agent loop, with plain tools in the place of the product's."""
    evaluator = Agent(MODEL, output_type=StructuredDict(evaluation_schema, name="evaluation"))
    orchestrator = Agent(MODEL)
    written: dict[str, str] = {}

    @orchestrator.tool_plain
    def list_files(path: str, pattern: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return listing(*(f"{path}/{file.name}" for file in sorted(PIPELINE.glob("*.pdf"))))

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


async def test_what_python_reports_is_told_with_every_problem() -> None:
    talk = Talk(EXAMPLES, as_worker("pitch_orchestrator_coded", LIST_DECKS, EVALUATE), "evaluate every deck")
    await talk.calls()
    talk.reply(LISTED)
    await talk.calls()
    good = {"deck": "/pipeline/alder.pdf", "verdict": "go", "average": 4.1, "file": "/out/alder.md"}
    bad = {"deck": "/pipeline/birch.pdf", "problem": "Rejected by ada: no"}
    talk.reply(json.dumps({"result": [good, bad], "note": "ada changed a call"}))
    text = await talk.text()
    assert "| /pipeline/alder.pdf | go | 4.1 | /out/alder.md |" in text
    assert "- /pipeline/birch.pdf: Rejected by ada: no\n\nada changed a call" in text
