"""Worker files and tools as the reference shows them, word for word, and what becomes of odd calls of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegating_or_leaf, last_tool_result, tool_results
from tests.support.runs.place import Place

ORCHESTRATOR = """\
# workers/orchestrator.worker
name: orchestrator
description: Orchestrates multi-step pitch deck evaluation
model: claude-sonnet-4

# Sandbox at top level
sandbox:
  paths:
    input:
      root: ./pipeline
      mode: ro
      suffixes: [".pdf", ".txt"]
      max_file_bytes: 15000000
      read_approval: true  # Require approval to share files as attachments
    output:
      root: ./evaluations
      mode: rw
      write_approval: true  # Writes require approval

# Toolsets as class paths or aliases
toolsets:
  filesystem: {}
  delegation:
    allow_workers:
      - evaluator  # Only allow calling the evaluator worker
---

You coordinate pitch deck evaluations. First list PDFs in the input sandbox,
then process each one using the locked evaluator worker.
Write results to the output sandbox.
"""
LARGEST = 15_000_000
RUBRIC = {"rubric": "Evaluate this pitch deck thoroughly"}


def evaluates(*attachments: str, worker: str = "evaluator", **more: Any) -> Call:
    return call("worker_call", **{"worker_name": worker, "input_data": RUBRIC, "attachments": [*attachments], **more})


def orchestrated(place: Place, *turns: Any, **workshop: Any) -> tuple[ScriptedModel, ScriptedModel]:
    """The orchestrator, played by these turns in a workshop without a sandbox, and the evaluator it may call."""
    main, evaluator = scripted(*turns), scripted("Scored.")
    place.workshop(sandbox=None, models={"claude-sonnet-4": place.script("sonnet", main)}, **workshop)
    place.write("workers/orchestrator.worker", ORCHESTRATOR)
    place.worker("evaluator", evaluator, locked=True)
    place.write("pipeline/deck.pdf", "%PDF-1.4 a deck")
    place.write("pipeline/OTHER.PDF", "%PDF-1.4 another")
    place.write("pipeline/notes.md", "notes")
    return main, evaluator


EVALUATION = (
    call("list_files", path="input", pattern="*.pdf"),
    evaluates("input/deck.pdf"),
    call("write_file", path="output/deck.md", content="# Deck\n"),
    "Done.",
)


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ({}, ["sandbox.read", "worker.call", "sandbox.write"]),
        # sharing is a question of its own: calling may be approved beforehand, and every file still asks
        ({"worker.call": "pre_approved"}, ["sandbox.read", "sandbox.write"]),
        # and the path's own word counts for more than the rule of the workshop
        ({"sandbox.read": "pre_approved"}, ["sandbox.read", "worker.call", "sandbox.write"]),
    ],
)
async def test_the_orchestrator_asks_for_each_file_then_for_the_call_then_for_the_write(
    place: Place, rules: dict[str, str], asked: list[str]
) -> None:
    main, evaluator = orchestrated(place, *EVALUATION, approvals={"rules": rules})
    run = await place.start("orchestrator")
    payloads = {
        "sandbox.read": {"path": "/input/deck.pdf", "bytes": 15, "target_worker": "evaluator"},
        "worker.call": {"worker": "evaluator", "input": RUBRIC, "attachments": ["/input/deck.pdf"]},
        "sandbox.write": {"path": "/output/deck.md", "bytes": 7},
    }
    for number, capability in enumerate(asked, 1):
        await place.pending_is(run, f"a{number}")
        (one,) = await place.pending(run)
        assert [(use.name, use.payload) for use in one.request.capabilities] == [(capability, payloads[capability])]
        await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    assert [file.data for file in evaluator.requests[0].attachments] == [b"%PDF-1.4 a deck"]
    assert tool_results(main, "worker_call") == ["Scored."]
    assert (place.folder / "evaluations/deck.md").read_text() == "# Deck\n"


@pytest.mark.parametrize(
    ("mode", "call_result", "written"),
    [("approve_all", "Scored.", True), ("strict", "Strict mode: worker_call requires approval", False)],
)
async def test_the_modes_decide_where_the_orchestrator_would_ask(
    place: Place, mode: str, call_result: str, written: bool
) -> None:
    main, _ = orchestrated(place, *EVALUATION)
    run = await place.start("orchestrator", mode=mode)
    assert (await place.client.result(run)).output == "Done."
    assert (await place.client.desk(run)).approvals == ()
    assert "/input/deck.pdf" in tool_results(main, "list_files")[0]
    assert tool_results(main, "worker_call") == [call_result]
    assert (place.folder / "evaluations/deck.md").exists() is written


ODD_CALLS: list[tuple[Call, str]] = [
    # the files of `input`, however they are spelled
    (evaluates("input:deck.pdf", "/input//./OTHER.PDF"), "Scored."),
    (evaluates(), "Scored."),
    (evaluates(attachments=None), "Scored."),
    (evaluates("input/deck.pdf", "input/deck.pdf"), "Scored."),
    (evaluates("input/largest.pdf"), "Scored."),
    # and nothing else
    (evaluates("input/too-large.pdf"), f"has {LARGEST + 1} bytes; the limit here is {LARGEST} (max_file_bytes)"),
    (evaluates("input/notes.md"), "'/input/notes.md' has a suffix that is not allowed here; allowed: .pdf, .txt"),
    (evaluates("input/../input/deck.pdf"), "contains '..'"),
    (evaluates("pipeline/deck.pdf"), "is outside this worker's files; it can reach /input (read-only)"),
    (evaluates("INPUT/deck.pdf"), "is outside this worker's files"),
    (evaluates("/etc/hostname"), "is outside this worker's files"),
    (evaluates("input/gone.pdf"), "'/input/gone.pdf' does not exist"),
    (evaluates("output/deck.pdf"), "'/output/deck.pdf' does not exist"),
    # five files, and every worker takes four where it says nothing else
    (evaluates(*["input/deck.pdf"] * 5), "5 files attached, but worker 'orchestrator' accepts at most 4"),
    # names are whole
    (evaluates(worker="Evaluator"), "may not call 'Evaluator'; it may call 'evaluator'"),
    (evaluates(worker="orchestrator"), "may not call 'orchestrator'"),
    (evaluates(worker="../workers/evaluator"), "may not call '../workers/evaluator'"),
    # the callee's model and instructions are its own affair
    (evaluates(model="openai:gpt-5"), "Additional properties are not allowed ('model' was unexpected)"),
    (evaluates(input_data=["a list"]), "input_data: ['a list'] is not valid"),
    # text files are read, other files are attached
    (call("read_file", path="input/deck.pdf"), "is not UTF-8 text. Hand files such as PDFs"),
    (call("read_file", path="input/notes.txt"), "a note"),
    (call("write_file", path="input/new.txt", content="x"), "'/input/new.txt' is read-only; writable: /output"),
]


async def test_odd_calls_of_the_orchestrator_get_what_the_rules_say(place: Place) -> None:
    main, _ = orchestrated(place, [one for one, _ in ODD_CALLS], "Done.")
    place.write("pipeline/notes.txt", "a note")
    for name, size in (("largest", LARGEST), ("too-large", LARGEST + 1)):
        with (place.folder / f"pipeline/{name}.pdf").open("wb") as file:
            file.write(b"%PDF-1.7\n")
            file.truncate(size)
    await place.run("orchestrator", mode=APPROVE_ALL)
    answers = main.requests[-1].results("worker_call", "read_file", "write_file")
    for (one, words), answer in zip(ODD_CALLS, answers, strict=True):
        assert words in answer.text, one
        assert str(place.folder) not in answer.text


def typed(schema: dict[str, Any]) -> dict[str, Any]:
    """The types in the schema of a parameter, and nothing else of it."""
    kept: dict[str, Any] = {"type": schema["type"]} if "type" in schema else {}
    if "items" in schema:
        kept["items"] = typed(schema["items"])
    if "anyOf" in schema:
        kept["anyOf"] = [typed(one) for one in schema["anyOf"]]
    return kept


async def test_the_tools_of_delegation_have_the_documented_parameters(place: Place) -> None:
    text = """\
toolsets:
  delegation:
    evaluator: {}       # Exposes evaluator tool
    summarizer: {}      # Exposes summarizer tool
    worker_create: {}   # Exposes worker_create tool (experimental)
    allow_workers: [evaluator]
"""
    main = scripted(call("evaluator", input="Evaluate."), "Done.")
    place.write("workers/main.worker", f"model: {place.script('main', main)}\n{text}---\nDelegate.\n")
    place.worker("evaluator", scripted("Scored."))
    place.worker("summarizer", scripted(), attachment_policy={"max_attachments": 0})
    await place.run("main", mode=APPROVE_ALL)
    assert tool_results(main, "evaluator") == ["Scored."]
    schemas = {name: tool.parameters_json_schema for name, tool in main.requests[0].tools.items()}
    assert {name: (list(schema["properties"]), schema["required"]) for name, schema in schemas.items()} == {
        "evaluator": (["input", "attachments"], ["input"]),
        "summarizer": (["input"], ["input"]),
        "worker_create": (
            ["name", "instructions", "description", "output_schema_ref", "model"],
            ["name", "instructions", "description"],
        ),
        "worker_call": (["worker_name", "input_data", "attachments"], ["worker_name", "input_data"]),
    }
    assert not any(schema["additionalProperties"] for schema in schemas.values())
    words, optional_words = {"type": "string"}, {"type": ["string", "null"]}
    paths = {"type": ["array", "null"], "items": {"type": "string"}}
    assert {
        name: {key: typed(one) for key, one in schema["properties"].items()} for name, schema in schemas.items()
    } == {
        "evaluator": {"input": words, "attachments": paths},
        "summarizer": {"input": words},
        "worker_create": {
            **dict.fromkeys(("name", "instructions", "description"), words),
            **dict.fromkeys(("output_schema_ref", "model"), optional_words),
        },
        "worker_call": {
            "worker_name": words,
            "input_data": {"anyOf": [words, {"type": "object"}]},
            "attachments": paths,
        },
    }
    described = main.requests[0].tools["worker_call"].description or ""
    assert described.startswith("Call another worker to delegate a subtask, and get its result.")
    assert (main.requests[0].tools["evaluator"].description or "").endswith("to delegate a subtask.")
    sent = OpenAIJsonSchemaTransformer(schemas["worker_call"], strict=None).walk()
    _, mapping = sent["properties"]["input_data"]["anyOf"]
    assert mapping["additionalProperties"] is True, "the provider's form of the schema closes objects that do not say"


async def test_a_function_with_a_context_calls_a_worker(place: Place) -> None:
    text = """\
from llm_do_temporal import tool_context
from llm_do_temporal.types import ToolContext

@tool_context
async def orchestrate(task: str, ctx: ToolContext) -> str:
    return await ctx.call_tool("evaluator", task)
"""
    main, evaluator = scripted(call("orchestrate", task="Evaluate."), "Done."), scripted("Scored.")
    place.write("tools.py", text)
    place.worker("main", main, toolsets={"custom": {"orchestrate": {}}, "delegation": {"evaluator": {}}})
    place.worker("evaluator", evaluator)
    await place.run("main", mode=APPROVE_ALL)
    assert tool_results(main, "orchestrate") == ["Scored."]
    assert evaluator.requests[0].prompt == "Evaluate."


async def test_the_folders_of_an_older_worker_are_those_of_the_workers_it_calls(place: Place) -> None:
    main, _ = orchestrated(place, evaluates(), "Done.")
    evaluator = scripted(
        [
            call("read_file", path="input/notes.txt"),
            call("write_file", path="input/x.txt", content="x"),
            call("write_file", path="output/x.md", content="x"),
            call("read_file", path="pipeline/notes.txt"),
        ],
        "Scored.",
    )
    place.write("pipeline/notes.txt", "a note")
    place.worker("evaluator", evaluator, toolsets={"filesystem": {}})
    await place.run("orchestrator", mode=APPROVE_ALL)
    results = evaluator.requests[-1].results("read_file", "write_file")
    words = ["a note", "'/input/x.txt' is read-only", "Wrote /output/x.md", "is outside this worker's files"]
    for answer, expected in zip(results, words, strict=True):
        assert expected in answer.text
    assert (place.folder / "evaluations/x.md").read_text() == "x"
    assert tool_results(main, "worker_call") == ["Scored."]


async def test_remembering_one_shared_file_is_not_remembering_another(place: Place) -> None:
    turn = [evaluates("input/deck.pdf"), evaluates("input/OTHER.PDF")]
    main, _ = orchestrated(
        place, turn, evaluates("input/deck.pdf"), "Done.", approvals={"rules": {"worker.call": "pre_approved"}}
    )
    run = await place.start("orchestrator")
    for one in await place.pending(run, 2):
        remember = "session" if one.request.args["path"] == "/input/deck.pdf" else "none"
        await place.client.decide(
            run, Decision.model_validate({"id": one.id, "decision": "approve", "remember": remember})
        )
    # The third call is the first one again: nobody is asked.
    assert (await place.client.result(run)).output == "Done."
    assert tool_results(main, "worker_call") == ["Scored."] * 3
    doors = [one.verdict.door for one in (await place.client.desk(run)).approvals if one.verdict is not None]
    assert doors == ["update", "update", "grant"]


@pytest.mark.parametrize(("resolution", "expected"), [("inherited", "main"), ("isolated", "variable")])
async def test_the_variable_names_the_model_where_nobody_else_does(
    place: Place, monkeypatch: pytest.MonkeyPatch, resolution: str, expected: str
) -> None:
    monkeypatch.setenv("LLM_DO_MODEL", place.script("variable", delegating_or_leaf("variable")))
    place.workshop(model_resolution=resolution)
    place.worker("child")
    place.worker("main", delegating_or_leaf("main"), toolsets={"delegation": {"child": {}}})
    assert (await place.run("main", mode=APPROVE_ALL)).output == f"Played by {expected}."
    assert (await place.run("child", "leaf")).output == "Played by variable."


TOOLS = '''
def pick_deck() -> str:
    """Name the deck to evaluate."""
    return "path/to/deck.txt"


def list_inbox() -> str:
    """Name the list of files to organize."""
    return "path/to/files.txt"
'''


@pytest.mark.parametrize(
    ("tool", "worker", "file", "text"),
    [
        ("pick_deck", "pitch_evaluator", "deck.txt", "We sell kelp."),
        ("list_inbox", "file_organizer", "files.txt", "invoice.pdf\nphoto.png\n"),
    ],
)
async def test_a_tool_names_a_file_and_the_file_behind_the_name_is_attached(
    place: Place, tool: str, worker: str, file: str, text: str
) -> None:
    def delegate(messages: list[ModelMessage]) -> Any:
        return call(worker, input="Do your part.", attachments=[last_tool_result(messages)])

    main, callee = scripted(call(tool), delegate, last_tool_result), scripted("Done with it.")
    place.write("tools.py", TOOLS)
    place.write(f"input/{file}", text)
    place.write("prompts/orchestrator.txt", "You delegate.")
    place.write(f"prompts/{worker}.txt", f"You are the {worker}.")
    place.worker(worker, callee, f"{{{{ file('prompts/{worker}.txt') }}}}")
    place.worker(
        "main",
        main,
        "{{ file('prompts/orchestrator.txt') }}",
        toolsets={"custom": {tool: {"pre_approved": True}}, "delegation": {worker: {}}},
        attachments={"path_map": {f"path/to/{file}": f"/input/{file}"}},
    )
    assert (await place.run("main", mode="approve_all")).output == "Done with it."
    assert (main.requests[0].instructions, callee.requests[0].instructions) == (
        "You delegate.",
        f"You are the {worker}.",
    )
    assert f"Attached file: /input/{file}" in callee.requests[0].prompt
    assert text in callee.requests[0].prompt
