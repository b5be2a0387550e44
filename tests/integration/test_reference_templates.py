"""The pitch decks of the reference's templates, from the list of files to the Markdown that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ToolReturnPart

from llm_do_temporal import Decision, Question, run_worker
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.testing import Call, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, last_tool_result
from tests.support.runs.place import Place
from tests.support.runs.template_calls import REFERENCE_RULES, allow_templates, template_call, template_results

SINGLE = Path(__file__).parents[2] / "llm_do_temporal/shipped/templates/pitchdeck-single.yaml"
SCORES = dict.fromkeys(("problem", "product", "market", "team", "financials"), 4)
DECKS = {name: f"%PDF-1.7\nWe sell {name}.".encode() for name in ("kelp", "moss", "peat")}
CHOSEN = ("kelp", "peat")


def results(messages: list[ModelMessage]) -> list[Any]:
    """What the tools of the last turn returned."""
    returned = [part.model_response_str() for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return [json.loads(text) for text in returned]


def evaluate(messages: list[ModelMessage]) -> list[Call]:
    """A call of the template for each deck that the task names, of those that were listed."""
    (listing,) = results(messages)
    paths = [file["path"] for file in listing["files"]]
    assert sorted(paths) == [f"/pipeline/{name}.pdf" for name in DECKS]
    return [
        call(
            "llm_worker_call",
            worker_name="templates/pitchdeck-single.yaml",
            input="Evaluate this deck.",
            attachments=[path],
            extra_context=["PROCEDURE.md"],
            params={"deck_id": Path(path).stem},
            expect_json=True,
        )
        for path in sorted(paths)
        if Path(path).stem in CHOSEN
    ]


def write(messages: list[ModelMessage]) -> list[Call]:
    """A file of Markdown for each evaluation."""
    return [
        call(
            "write_file", path=f"/evaluations/{one['deck_id']}.md", content=f"# {one['company']}\n\n{one['summary']}\n"
        )
        for one in results(messages)
    ]


async def test_each_chosen_deck_is_evaluated_by_a_call_of_its_own_and_written_as_markdown(place: Place) -> None:
    def scores(messages: list[ModelMessage]) -> dict[str, Any]:
        (deck,) = [name for name in DECKS if f"/pipeline/{name}.pdf" in str(messages[0])]
        company = {"deck_id": deck, "company": deck.title(), "summary": f"It sells {deck}."}
        return {**company, "scores": SCORES, "strengths": [], "concerns": []}

    judge, main = (
        scripted(scores),
        scripted(call("list_files", path="/pipeline", pattern="*.pdf"), evaluate, write, "Done."),
    )
    single = SINGLE.read_text(encoding="utf-8")
    place.write("templates/pitchdeck-single.yaml", f"{single}model: {place.script('judge', judge)}\n")
    place.write("PROCEDURE.md", "Score from 1 to 5.")
    for name, data in DECKS.items():
        place.write(f"pipeline/{name}.pdf", data.decode())
    rules = {"filesystem": {}, "delegation": {"templates": REFERENCE_RULES}}
    place.worker("main", main, toolsets=rules)
    assert (await place.run("main", "the two decks about plants that are dead", mode="approve_all")).output == "Done."
    written = {path.name: path.read_text() for path in (place.folder / "evaluations").iterdir()}
    assert written == {f"{name}.md": f"# {name.title()}\n\nIt sells {name}.\n" for name in CHOSEN}
    # A call for each deck, and nothing in it of the other.
    seen = sorted(judge.requests, key=lambda one: one.instructions)
    assert [[file.data for file in one.attachments] for one in seen] == [[DECKS[name]] for name in CHOSEN]
    for name, request in zip(CHOSEN, seen, strict=True):
        others = [other for other in DECKS if other != name]
        said = request.instructions + request.prompt
        assert f'whose id is "{name}"' in request.instructions
        assert "Score from 1 to 5." in request.prompt
        assert not any(other in said for other in others)
        assert request.tools == {}


async def test_a_template_calls_another_one_and_that_call_asks_like_any(place: Place) -> None:
    inner, outer = (
        scripted("Judged."),
        scripted(call("llm_worker_call", worker_name="templates/inner.yaml", input="Judge it."), last_tool_result),
    )
    rules = "toolsets: {delegation: {templates: {allow: [templates/inner.yaml]}}}"
    place.write("templates/outer.yaml", f"system: Have it judged.\n{rules}\nmodel: {place.script('outer', outer)}\n")
    place.write("templates/inner.yaml", f"system: Judge.\nmodel: {place.script('inner', inner)}\n")
    main = scripted(call("llm_worker_call", worker_name="templates/outer.yaml", input="Go."), last_tool_result)
    allow_templates(place, main)
    asked: list[tuple[int, str]] = []

    def approves(question: Question) -> Decision:
        payload = question.request.capabilities[0].payload
        asked.append((question.request.path.count("/"), payload["template"]))
        return Decision(decision=DecisionKind.APPROVE)

    run = f"own-{place.queue}"
    place.started.append(run)
    result = await run_worker(
        "main", "go", workshop=place.folder, connection=place.client, id=run, approval_callback=approves
    )
    assert result.output == "Judged."
    assert asked == [(0, "templates/outer.yaml"), (1, "templates/inner.yaml")]
    assert [node.depth for node in (await place.client.view(run)).ordered] == [0, 1, 2]


async def test_in_an_isolated_workshop_a_template_has_the_workshops_model_or_none(place: Place) -> None:
    own, main = scripted("Judged."), scripted([template_call(), template_call("templates/two.yaml")], "Done.")
    place.write("templates/one.yaml", "system: Judge.\n")
    place.write("templates/two.yaml", "system: Judge.\n")
    place.workshop(model_resolution="isolated")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    # The model of its caller is not for it.
    assert ["no model for worker" in one for one in template_results(main)] == [True, True]
    place.workshop(model_resolution="isolated", model=place.script("own", own))
    again = scripted([template_call(), template_call("templates/two.yaml")], "Done.")
    allow_templates(place, again)
    await place.run("main", mode=APPROVE_ALL)
    assert template_results(again) == ["Judged.", "Judged."]
    assert len(own.requests) == 2
