"""The plays of the workers that evaluate pitch decks: they read the decks, quote them, and say what they cannot do."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition, StructuredDict
from pypdf import PdfWriter

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
from tests.support.workshops.drawn_decks import PIPELINE, draw_deck, draw_pictures, lock, quotes_in, text_of_pages

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


async def test_a_native_schema_is_answered_in_json_text(evaluation_schema: Any) -> None:
    parameters = ModelRequestParameters(
        output_mode="native", output_object=OutputObjectDefinition(json_schema=evaluation_schema)
    )
    deck = pdf((PIPELINE / "kelpworks.pdf").read_bytes())
    answer = await Talk(MODEL, parameters, "Evaluate it.", deck).text()
    assert answer.startswith('{"summary": "Kelpworks: 8 pages')


async def test_without_a_schema_the_evaluation_is_a_page() -> None:
    deck = pdf((PIPELINE / "kelpworks.pdf").read_bytes(), "/pipeline/kelpworks.pdf")
    page = await Talk(MODEL, ModelRequestParameters(), "Evaluate it.", deck).text()
    assert page.startswith("# Evaluation of kelpworks.pdf")
    assert "not a language model" in page


async def test_the_same_request_gets_the_same_answer_in_any_process(evaluation_schema: Any) -> None:
    first, second = await asyncio.gather(*[evaluate_shipped("frostlane", evaluation_schema) for _ in range(2)])
    assert first == second


async def test_usage_is_counted_from_the_conversation(evaluation_schema: Any) -> None:
    def asked(*files: Any) -> Talk:
        return Talk(MODEL, wanting(evaluation_schema), "Evaluate it.", *files)

    small: ModelResponse = await asked().ask()
    large: ModelResponse = await asked(pdf((PIPELINE / "brightacre-scan.pdf").read_bytes())).ask()
    assert large.usage.input_tokens > small.usage.input_tokens > 100
    assert small.usage.output_tokens > 50
    assert (small.provider_name, small.model_name) == ("offline", "pitch_decks.py:play_decks")


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


async def test_the_generic_tool_is_given_the_evaluators_name() -> None:
    conversation = talk("Evaluate every deck", LIST, tool("worker_call", worker_name=TEXT, attachments=PATHS), WRITE)
    await conversation.ask()
    conversation.reply(listing(DECKS[0]))
    assert args(await conversation.calls()) == [{"worker_name": "pitch_evaluator", "attachments": [DECKS[0]]}]


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
    [{"output": evaluation("go", 4)}, json.dumps(evaluation("go", 4))],
    ids=["wrapped", "text"],
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
    again = await MODEL.request(conversation.messages[:-1], None, conversation.parameters)
    assert [part for part in again.parts if isinstance(part, ToolCallPart)] == writes


async def test_without_tools_it_says_what_is_missing() -> None:
    text = await talk("go", WRITE).text()
    assert text == "This needs a tool 'list_files', and there is none."
    assert 'You said: "hi"' in await Talk(MODEL, ModelRequestParameters(), "hi").text()


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


def test_decks_with_one_stem_get_files_of_their_own() -> None:
    paths = in_file("evaluation_paths", FILE)(["/p/a/x.pdf", "/p/b/X.pdf", "/p/y.pdf", "/p-a/x.pdf"])
    assert list(paths.values()) == [
        "/evaluations/p-a-x.md",
        "/evaluations/p-b-X.md",
        "/evaluations/y.md",
        "/evaluations/p-a-x-2.md",
    ]


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


async def one(talk: Talk) -> dict[str, Any]:
    (call,) = await talk.calls()
    return call.args_as_dict()


async def test_the_decks_and_the_files_are_those_of_the_list() -> None:
    talk = Talk(EXAMPLES, as_worker("pitch_orchestrator_listed", LIST, LIST_DECKS, EVALUATOR, WRITE), "evaluate birch")
    (asked,) = await talk.calls()
    assert (asked.tool_name, asked.args_as_dict()) == ("list_decks", {})
    talk.reply(LISTED)
    assert (await one(talk))["attachments"] == ["/pipeline/birch.pdf"]
    talk.reply({"scores": [], "verdict": "pass"})
    assert (await one(talk))["path"] == "/out/birch.md"


@pytest.mark.parametrize("listed", ["[]", RuntimeError("no such folder")])
async def test_an_empty_list_is_not_looked_past(listed: Any) -> None:
    talk = Talk(EXAMPLES, as_worker("pitch_orchestrator_listed", LIST, LIST_DECKS, EVALUATOR, WRITE), "evaluate all")
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
    talk = Talk(EXAMPLES, as_worker("pitch_orchestrator_coded", LIST_DECKS, EVALUATE, EVALUATOR, WRITE), prompt)
    await talk.calls()
    talk.reply(LISTED)
    assert await one(talk) == {"names": names}


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


@pytest.mark.parametrize("listed", ["[]", RuntimeError("no such folder")])
async def test_without_decks_python_is_not_called(listed: Any) -> None:
    talk = Talk(EXAMPLES, as_worker("pitch_orchestrator_coded", LIST_DECKS, EVALUATE), "evaluate every deck")
    await talk.calls()
    talk.reply(listed)
    assert (await talk.text()).startswith("There is no deck to evaluate")
