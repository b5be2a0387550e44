"""`llm_worker_call`: prepared prompts with rules of their own for files, parameters, calls and results."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from rich.console import Console

from llm_do_temporal import Decision, Question, TemplateCall, run_worker
from llm_do_temporal.cli.reports.show import render_record
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.delegation import (
    APPROVE_ALL,
    REFERENCE_RULES,
    allow_templates,
    last_tool_result,
    template_call,
    template_results,
)
from tests.support.runs.place import Place

SCORED = "schema_object: {type: object, properties: {points: {type: integer}, why: {type: string}}, required: [points]}"


def template(place: Place, model: ScriptedModel, text: str = "system: Judge.", name: str = "one") -> None:
    place.write(f"templates/{name}.yaml", f"{text}\nmodel: {place.script(f'template-{name}', model)}\n")


async def test_the_configuration_of_the_reference_evaluates_a_deck(place: Place) -> None:
    judge = scripted({"points": 4, "why": "clear"})
    template(place, judge, f"name: Decks!\nsystem: Judge $deck_id.\n{SCORED}", "pitchdeck-single")
    place.write("pipeline/kelp.txt", "We sell kelp.")
    place.write("PROCEDURE.md", "Score from 1 to 5.")
    asked = template_call(
        "whatever the model likes",
        attachments=["pipeline/kelp.txt"],
        extra_context=["PROCEDURE.md", "Be brief."],
        params={"deck_id": "kelp"},
        expect_json=True,
    )
    main = scripted(asked, "Done.")
    allow_templates(place, main, **REFERENCE_RULES)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    tool = main.requests[0].tools["llm_worker_call"]
    assert (tool.description or "").startswith("Call a named LLM worker with its own context and optional file attach")
    assert list(tool.parameters_json_schema["properties"]) == [
        "worker_name",
        "input",
        "attachments",
        "extra_context",
        "params",
        "expect_json",
    ]
    assert tool.parameters_json_schema["required"] == ["worker_name", "input"]
    (result,) = main.requests[-1].results("llm_worker_call")
    assert result.data == {"points": 4, "why": "clear"}
    request = judge.requests[0]
    assert request.instructions == "Judge kelp."
    assert "Extra context, the file /PROCEDURE.md:\nScore from 1 to 5." in request.prompt
    assert "Extra context:\nBe brief." in request.prompt
    assert "Attached file: /pipeline/kelp.txt" in request.prompt
    assert [node.path for node in (await place.client.view(run)).ordered] == ["main", "main/pitchdeck-single-1"]


NOT_ALLOWED: list[tuple[dict[str, Any], str, str]] = [
    ({"allow": []}, "templates/one.yaml", "may not call template 'templates/one.yaml'; allowed: none"),
    ({"allow": ["pkg:*"]}, "templates/one.yaml", "allowed: 'pkg:*'"),
    ({"allow": ["**"]}, "./templates/../templates/one.yaml", "is not a path inside the workshop"),
    ({"allow": ["**"]}, "/templates/one.yaml", "is not a path inside the workshop"),
    ({"allow": ["**"]}, "templates/two.yaml", "there is no template 'templates/two.yaml'"),
]


async def test_what_is_not_allowed_never_starts(place: Place) -> None:
    template(place, scripted())
    for rules, name, words in NOT_ALLOWED:
        main = scripted(template_call(name), "Alone then.")
        allow_templates(place, main, **rules)
        run = await place.start("main")
        await place.client.result(run)
        assert words in template_results(main)[0]
        assert len((await place.client.view(run)).nodes) == 1


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"params": {"tone": "dry"}}, "it has no parameter 'tone'"),
    ({"expect_json": True}, "template 'templates/one.yaml' has no schema"),
    ({"attachments": ["a.txt", "b.txt"]}, "'templates' of worker 'main' accepts at most 1 (max_attachments)"),
    ({"attachments": ["c.md"]}, "has a suffix that 'templates' of worker 'main' does not accept"),
    ({"attachments": ["big.txt"]}, "at most 10 are accepted (max_total_bytes)"),
    ({"attachments": [{"path": "missing.txt"}]}, "'/missing.txt' does not exist"),
    ({"extra_context": [{"path": "missing.txt"}]}, "there is no file '/missing.txt' for extra_context"),
    ({"extra_context": [{"path": "../secret.txt"}]}, "contains '..'"),
]


async def test_nobody_is_asked_about_a_call_that_cannot_be_made(place: Place) -> None:
    template(place, scripted())
    for name, size in (("a.txt", 1), ("b.txt", 1), ("c.md", 1), ("big.txt", 11)):
        place.write(name, "x" * size)
    main = scripted([template_call(**more) for more, _ in IMPOSSIBLE], "Alone then.")
    allow_templates(place, main, allow=["**"], allowed_suffixes=[".txt"], max_attachments=1, max_bytes=10)
    assert (await place.run("main")).output == "Alone then."
    for (_, words), told in zip(IMPOSSIBLE, template_results(main), strict=True):
        assert words in told


FINE: list[dict[str, Any]] = [
    {"attachments": None, "extra_context": None, "params": None, "expect_json": None},
    {"attachments": [], "extra_context": [], "params": {}, "expect_json": False},
    # as many files, and as many bytes, as there may be, however the path and its suffix are written
    {"attachments": ["./full.PDF"]},
    {"attachments": [{"path": "full.PDF"}]},
]


async def test_what_is_left_out_and_what_is_exactly_enough_is_fine(place: Place) -> None:
    template(place, scripted("Fine."))
    place.write("full.PDF", "x" * 10)
    main = scripted([template_call(**more) for more in FINE], "Done.")
    allow_templates(
        place, main, allow=["./templates/*.yaml"], allowed_suffixes=[".pdf"], max_attachments=1, max_bytes=10
    )
    await place.run("main", mode=APPROVE_ALL)
    assert template_results(main) == ["Fine."] * len(FINE)


async def test_a_template_may_call_itself_down_to_the_limit(place: Place) -> None:
    place.workshop(max_depth=2, approvals={"rules": {"worker.call": "pre_approved"}})
    itself = "toolsets: {delegation: {templates: {lock: templates/one.yaml}}}"
    template(place, scripted(template_call(), last_tool_result), f"system: Judge.\n{itself}")
    allow_templates(place, scripted(template_call(), last_tool_result))
    run = await place.start("main")
    assert "'templates/one.yaml' would run at depth 3, the limit is 2" in str((await place.client.result(run)).output)
    paths = [node.path for node in (await place.client.view(run)).ordered]
    assert paths == ["main", "main/one-1", "main/one-1/one-1"]


async def test_the_call_of_the_reference_works_from_a_function_and_its_tools_from_a_template(place: Place) -> None:
    body = "@tool_context\nasync def evaluate(ctx: ToolContext) -> dict:\n    return await ctx.call_tool("
    given = {
        "worker_name": "templates/evaluate-one.yaml",
        "input": "Evaluate this document",
        "attachments": [{"path": "file.pdf"}],
        "extra_context": [{"path": "PROCEDURE.md"}],
        "params": {"detail_level": "high"},
        "expect_json": True,
    }
    source = f"def slugify(text: str) -> str:\n    return 'a-slug'\n{body}'llm_worker_call', {given!r})\n"
    place.write("tools.py", f"from llm_do_temporal.tools import ToolContext, tool_context\n{source}")
    judge = scripted(call("slugify", text="A slug"), {"points": 4})
    template(place, judge, f"system: Detail is $detail_level.\ntools: [slugify]\n{SCORED}", "evaluate-one")
    place.write("file.pdf", "A deck.")
    place.write("PROCEDURE.md", "Score it.")
    main = scripted(call("evaluate"), "Done.")
    toolsets: dict[str, Any] = {
        "custom": {"evaluate": {}},
        "delegation": {"templates": {"allow": ["./templates/**/*.yaml"]}},
    }
    place.worker("main", main, toolsets=toolsets)
    await place.run("main", mode=APPROVE_ALL)
    assert main.requests[-1].results("evaluate")[0].data == {"points": 4}
    assert judge.requests[-1].instructions == "Detail is high."
    assert judge.requests[-1].results("slugify")[0].text == "a-slug"


async def test_params_of_a_model_are_text_and_nothing_else(place: Place) -> None:
    judge = scripted("Fine.")
    place.write("secret.txt", "the secret")
    template(place, judge, "system: Be $tone and $n.")
    main = scripted(template_call(params={"tone": "{{ file('secret.txt') }} $n", "n": 3}), "Done.")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    assert judge.requests[0].instructions == "Be {{ file('secret.txt') }} $n and 3."


async def test_a_file_of_extra_context_asks_where_reading_asks_and_again_where_it_has_changed(place: Place) -> None:
    judge = scripted("Fine.")
    template(place, judge)
    place.workshop(sandbox={"root": ".", "read_approval": True}, approvals={"rules": {"worker.call": "pre_approved"}})
    place.write("notes.txt", "as it was")
    main = scripted(template_call(extra_context=["notes.txt"]), "Done.")
    allow_templates(place, main)
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.capabilities[0].payload == {"path": "/notes.txt", "target_worker": "one"}
    place.write("notes.txt", "as it is")
    await place.decide(run, id="a1")
    (again,) = await place.pending(run)
    assert (again.id, again.request.summary) == ("a2", asked.request.summary)
    await place.decide(run, id="a2")
    await place.client.result(run)
    assert "as it is" in judge.requests[0].prompt


async def test_a_text_that_names_no_file_is_handed_on_as_it_is(place: Place) -> None:
    judge = scripted("Fine.")
    template(place, judge)
    texts = ["nothing like.txt", "../two\nlines", "https://example.com/a.txt", "Brief.", "3.5"]
    main = scripted(template_call(extra_context=texts), "Done.")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    assert all(f"Extra context:\n{text}" in judge.requests[0].prompt for text in texts)


async def test_a_word_that_looks_like_a_path_and_is_none_is_an_error_that_names_what_was_meant(place: Place) -> None:
    template(place, scripted())
    place.write("rules/PROCEDURE.md", "Score it.")
    wrong = ["rules/PROCEDUR.md", "./rules/nothing.md", "PROCEDURE.md", "../secret.txt", "/etc"]
    main = scripted(*(template_call(extra_context=[one]) for one in wrong), "Alone then.")
    allow_templates(place, main)
    assert (await place.run("main")).output == "Alone then."
    assert template_results(main) == [
        "there is no file '/rules/PROCEDUR.md' for extra_context. Did you mean '/rules/PROCEDURE.md'?",
        "there is no file '/rules/nothing.md' for extra_context. "
        "Give the path of a file in your file tree, or the text itself.",
        "there is no file '/PROCEDURE.md' for extra_context. "
        "Give the path of a file in your file tree, or the text itself.",
        "'../secret.txt' contains '..'; name the path from the top of the tree instead",
        "there is no file '/etc' for extra_context. Give the path of a file in your file tree, or the text itself.",
    ]


async def test_a_file_too_long_for_extra_context_is_a_result_and_nothing_starts(place: Place) -> None:
    template(place, scripted())
    place.write("long.txt", "x" * 1_000_001)
    main = scripted(template_call(extra_context=["long.txt"]), "Done.")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    assert "the files of extra_context may have 1000000 together" in template_results(main)[0]


async def test_without_expect_json_a_structured_result_is_text(place: Place) -> None:
    template(place, scripted({"why": "ä", "points": 1}), f"system: Judge.\n{SCORED}")
    main = scripted(template_call(), "Done.")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    assert template_results(main) == ['{"why": "ä", "points": 1}']


@pytest.mark.extension("export")
async def test_afterwards_one_can_tell_which_template_ran_with_what_and_run_it_again(place: Place) -> None:
    from llm_do_temporal.extensions.export.report import read_exported, render_markdown

    judge, other = scripted({"points": 4}), scripted("Fine.")
    template(place, judge, f"system: Be $tone.\nparams: {{size: 5}}\n{SCORED}", "decks/one")
    template(place, other, name="texts/one")
    main = scripted(
        [template_call("templates/decks/one.yaml", params={"tone": "dry"}), template_call("templates/texts/one.yaml")],
        "Done.",
    )
    allow_templates(place, main)
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    exported = await read_exported(place.client, run)
    by_path = {one["path"]: one["template"] for one in exported.as_json()["invocations"]}
    assert sorted(by_path) == ["main", "main/decks--one-1", "main/texts--one-1"]
    deck, text = by_path["main/decks--one-1"], by_path["main/texts--one-1"]
    assert (deck["name"], deck["params"]) == ("templates/decks/one.yaml", {"size": "5", "tone": "dry"})
    assert deck["sha256"] == hashlib.sha256((place.folder / deck["name"]).read_bytes()).hexdigest()
    assert (text["name"], text["params"], text["input"]) == ("templates/texts/one.yaml", {}, "Judge this.")
    (said, *_) = exported.transcripts[f"{run}/main/decks--one-1"]
    assert (said.kind, said.text, said.value) == ("template", deck["name"], deck["params"])
    assert f"template templates/decks/one.yaml, sha256 {deck['sha256']}" in render_markdown(exported)
    shown = io.StringIO()
    Console(width=200, file=shown).print(render_record(exported.summary, exported.view, [], exported.read_at))
    assert f"templates/decks/one.yaml  sha256 {deck['sha256'][:16]}  size=5  tone=dry" in shown.getvalue()
    again = await place.start(deck["name"], deck["input"], params=deck["params"])
    assert (await place.client.result(again)).output == {"points": 4}
    first, second = judge.requests
    assert (second.instructions, second.prompt) == (first.instructions, first.prompt)
    (node,) = (await place.client.view(again)).ordered
    assert (node.path, node.worker, node.template) == ("main", "decks--one", deck)


async def test_expect_json_gives_one_form_whatever_the_model_wrote(place: Place) -> None:
    judge = scripted('Here it is:\n```json\n{"why": "clear", "points": 4.0}\n```')
    template(place, judge, f"system: Judge.\n{SCORED}")
    main = scripted(template_call(expect_json=True), "Done.")
    allow_templates(place, main)
    await place.run("main", mode=APPROVE_ALL)
    assert template_results(main) == ['{"points":4,"why":"clear"}']
    assert len(judge.requests) == 1, "it was not asked again"


async def test_a_template_is_called_from_python_under_rules(place: Place) -> None:
    judge = scripted({"why": "clear", "points": 4})
    template(place, judge, f"system: Detail is $detail_level.\n{SCORED}", "evaluate-one")
    deck, procedure = place.write("file.pdf", "A deck."), place.write("PROCEDURE.md", "Score it.")
    rules: Any = {
        "allow_templates": ["./templates/**/*.yaml"],
        "allowed_suffixes": [".pdf"],
        "max_attachments": 1,
        "max_bytes": 10,
        "workshop": place.folder,
        "connection": place.client,
    }
    given: Any = {
        "template": "templates/evaluate-one.yaml",
        "input": "Evaluate this document",
        "attachments": [{"path": str(deck)}],
        "fragments": [{"path": str(procedure)}, "Be brief."],
        "params": {"detail_level": "high"},
        "expect_json": True,
    }
    result = await TemplateCall(**rules).run_async(**given)
    assert list(result.items()) == [("points", 4), ("why", "clear")]
    (request,) = judge.requests
    assert request.instructions == "Detail is high."
    assert "Evaluate this document" in request.prompt
    assert "Extra context, the file PROCEDURE.md:\nScore it." in request.prompt
    assert "Extra context:\nBe brief." in request.prompt
    assert "Attached file: file.pdf" in request.prompt
    locked = TemplateCall(**(rules | {"allow_templates": []}), lock_template="templates/evaluate-one.yaml")
    assert json.loads(await locked.run_async(**(given | {"template": "whatever", "expect_json": False}))) == result
    place.write("templates/free.yaml", "system: Judge.\n")
    place.write("big.pdf", "x" * 11)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"template": "other/one.yaml"}, "this TemplateCall may not call template 'other/one.yaml'"),
        ({"template": "templates/gone.yaml"}, "there is no template 'templates/gone.yaml'"),
        ({"params": {}}, "it needs 'detail_level'"),
        ({"params": {}, "template": "templates/free.yaml"}, "template 'templates/free.yaml' has no schema"),
        ({"attachments": [{"path": str(procedure)}]}, "has a suffix that this TemplateCall does not accept"),
        ({"attachments": [str(deck), deck]}, "this TemplateCall accepts at most 1 (max_attachments)"),
        ({"attachments": [place.folder / "big.pdf"]}, "this TemplateCall accepts at most 10 (max_total_bytes)"),
        ({"attachments": [{"file": "x"}]}, "a file is given as its path or as"),
        ({"fragments": [{"path": "gone.md"}]}, "the fragment 'gone.md' cannot be read"),
    ]
    for changed, words in refused:
        with pytest.raises(LlmDoError) as caught:
            await TemplateCall(**rules).run_async(**(given | changed))
        assert words in str(caught.value)
    with pytest.raises(UsageError, match="would block the event loop"):
        TemplateCall(**rules).run(**given)
    with pytest.raises(UsageError, match="is not a path inside the workshop"):
        TemplateCall(lock_template="../one.yaml")
    place.started += [one.run for one in await place.client.runs() if one.run.startswith("templates-evaluate-one")]
    assert len(judge.requests) == 2, "nothing was started by a call that is not allowed"


async def test_a_template_without_a_model_runs_with_the_usual_one(place: Place) -> None:
    main = scripted(template_call("pkg:summarizer", "A long story.", params={"length": "one line"}), "Done.")
    place.worker("main", main, toolsets={"delegation": {"templates": {"allow": ["pkg:*"]}}})
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    summarizer = next(request for request in main.requests if "You summarise" in request.instructions)
    assert "Summarise this in one line." in summarizer.prompt
    assert "A long story." in summarizer.prompt


async def test_a_person_sees_template_input_and_parameters(place: Place) -> None:
    template(place, scripted("Fine."), "system: Be $tone.")
    main = scripted(template_call(params={"tone": "dry"}, extra_context=["Be brief."]), "Done.")
    allow_templates(place, main)
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.capabilities[0].name == "worker.call"
    assert asked.request.capabilities[0].payload == {
        "worker": "one",
        "input": "Judge this.",
        "template": "templates/one.yaml",
        "extra_context": ["Be brief."],
        "params": {"tone": "dry"},
        "attachments": [],
    }
    await place.decide(run)
    await place.client.result(run)


async def test_a_worker_cannot_change_the_templates_it_calls(place: Place) -> None:
    template(place, scripted())
    main = scripted(call("write_file", path="/templates/one.yaml", content="system: Obey.\n"), "Done.")
    place.worker("main", main, toolsets={"filesystem": {}, "delegation": {"templates": {"allow": ["**"]}}})
    await place.run("main", mode=APPROVE_ALL)
    assert "is blocked" in main.requests[-1].results("write_file")[0].text


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
