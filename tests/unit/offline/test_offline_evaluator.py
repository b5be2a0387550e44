"""The offline evaluator: it reads the deck it is given, quotes it, and says when it cannot."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pypdf import PdfWriter

from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.offline import offline_model
from tests.support.providers.offline_answers import Talk, pdf, wanting
from tests.support.workshops.drawn_decks import PIPELINE, draw_deck, draw_pictures, lock, quotes_in, text_of_pages

READABLE = ("frostlane", "kelpworks", "mendly", "vibeloop")
DIMENSIONS = ["problem", "solution", "market", "business_model", "traction", "team", "financials_and_ask"]


async def evaluate(data: bytes, schema: dict[str, Any], model: str = "pitch-evaluator") -> dict[str, Any]:
    (answer,) = await Talk(offline_model(model), wanting(schema), "Evaluate it.", pdf(data)).calls()
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


async def test_a_deck_of_one_page_is_too_thin_before_anything_else(evaluation_schema: Any) -> None:
    evaluation = await evaluate(draw_deck(["Hollowpine", "Acoustic panels from bark."]), evaluation_schema)
    assert evaluation["summary"].startswith("Hollowpine: 1 page, ")
    assert evaluation["red_flags"][0] == "Very thin: 5 words on 1 page."
    assert len(evaluation["red_flags"]) == 3
    scan = await evaluate(draw_pictures(1), evaluation_schema)
    assert scan["red_flags"] == ["Images only: its only page is a picture without text; needs a model with eyes."]


async def test_the_same_words_with_numbers_score_higher(evaluation_schema: Any) -> None:
    vague = await evaluate(draw_deck(["Acme"], ["Traction", "Our customers love us."]), evaluation_schema)
    exact = await evaluate(draw_deck(["Acme"], ["Traction", "120 customers, churn 2%."]), evaluation_schema)
    assert scores_of(vague)["traction"] < scores_of(exact)["traction"]


async def test_wrapped_lines_are_quoted_as_one(evaluation_schema: Any) -> None:
    deck = draw_deck(["Acme"], ["Problem", "A bakery throws away 14 tonnes of film and", "pays 900 euros for it."])
    (row, *_) = (await evaluate(deck, evaluation_schema))["scores"]
    assert quotes_in(row["evidence"]) == [(2, "A bakery throws away 14 tonnes of film and pays 900 euros for it.")]


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


async def test_a_deck_with_some_scanned_pages_is_flagged(evaluation_schema: Any) -> None:
    team = ["Team", "Nadia Brandt, CEO, sold panels for 7 years.", "Oleg Vidal, CTO, PhD in acoustics."]
    ask = ["The ask", "We are raising 2 million euros to build a factory."]
    deck = draw_deck(["Acme"], [], ["Traction", "12 customers pay us."], team, ask, [])
    flags = (await evaluate(deck, evaluation_schema))["red_flags"]
    assert [flag.split(":")[0] for flag in flags] == ["Very thin", "2 of 6 pages have no readable text."]


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


async def test_a_locked_file_is_reported_and_not_judged(evaluation_schema: Any) -> None:
    evaluation = await evaluate(lock(draw_deck(["Acme"]), password="sesame"), evaluation_schema)
    assert evaluation["red_flags"] == ["The file cannot be opened: it is locked with a password."]


async def test_a_file_without_pages_is_reported_and_not_judged(evaluation_schema: Any) -> None:
    stream = io.BytesIO()
    PdfWriter().write(stream)
    evaluation = await evaluate(stream.getvalue(), evaluation_schema)
    assert evaluation["red_flags"] == ["The file cannot be opened: it has no pages."]


async def test_no_attachment_is_reported(evaluation_schema: Any) -> None:
    talk = Talk(offline_model("pitch-evaluator"), wanting(evaluation_schema), "Evaluate it.")
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
    evaluation = await evaluate((PIPELINE / "mendly.pdf").read_bytes(), schema, model="pitch-decks")
    assert schema_problems(schema, evaluation) == []
    assert evaluation["verdict"] == "pass"
    assert evaluation["average"] == 2.9
    assert len(evaluation["red_flags"]) == 1


async def test_a_native_schema_is_answered_in_json_text(evaluation_schema: Any) -> None:
    parameters = ModelRequestParameters(
        output_mode="native", output_object=OutputObjectDefinition(json_schema=evaluation_schema)
    )
    deck = pdf((PIPELINE / "kelpworks.pdf").read_bytes())
    answer = await Talk(offline_model("pitch-decks"), parameters, "Evaluate it.", deck).text()
    assert answer.startswith('{"summary": "Kelpworks: 8 pages')


async def test_without_a_schema_the_evaluation_is_a_page() -> None:
    deck = pdf((PIPELINE / "kelpworks.pdf").read_bytes(), "/pipeline/kelpworks.pdf")
    page = await Talk(offline_model("pitch-decks"), ModelRequestParameters(), "Evaluate it.", deck).text()
    assert page.startswith("# Evaluation of kelpworks.pdf")
    assert "not a language model" in page


async def test_the_same_request_gets_the_same_answer_in_any_process(evaluation_schema: Any) -> None:
    first, second = await asyncio.gather(*[evaluate_shipped("frostlane", evaluation_schema) for _ in range(2)])
    assert first == second


async def test_usage_is_counted_from_the_conversation(evaluation_schema: Any) -> None:
    def asked(*files: Any) -> Talk:
        return Talk(offline_model("pitch-evaluator"), wanting(evaluation_schema), "Evaluate it.", *files)

    small: ModelResponse = await asked().ask()
    large: ModelResponse = await asked(pdf((PIPELINE / "brightacre-scan.pdf").read_bytes())).ask()
    assert large.usage.input_tokens > small.usage.input_tokens > 100
    assert small.usage.output_tokens > 50
    assert small.model_name == "pitch-evaluator-script"


async def test_a_streamed_answer_is_the_same_in_pieces() -> None:
    agent = Agent(offline_model("greeter"))
    whole = (await agent.run("hello there")).output
    async with agent.run_stream("hello there") as stream:
        pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 5
    assert "".join(pieces) == whole
    (request,) = [message for message in stream.all_messages() if isinstance(message, ModelResponse)]
    assert request.usage.input_tokens > 0
    assert isinstance(request.parts[0], TextPart)
