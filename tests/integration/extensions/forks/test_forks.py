"""Forks of recorded runs without a change: all is reused, no model is asked anything, and the result is the same."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory

from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.client.views.transcripts import read_transcript
from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.errors import LlmDoError, UsageError
from llm_do_temporal.extensions.forks.client_differences import read_account, read_difference
from llm_do_temporal.extensions.forks.client_forks import ForkRequest
from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.testing import ScriptedModel, Turn, call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.dialects.answers import asks, says
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.doors.http_client import person, program
from tests.support.extensions.forks.small_records import WRITE, answers_of, forked, key_of, recorded
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import allow_templates, delegation_to, template_call
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place

MCP_SERVER = str(Path(__file__).parents[3] / "support/servers/mcp_server.py")
TOOLS = """\
from llm_do_temporal.tools import tool_context


def shout(text: str) -> str:
    with open(__file__ + ".log", "a") as log:
        log.write(text)
    return text.upper()


@tool_context
async def ask_twice(ctx, question: str) -> list[str]:
    first = await ctx.call_tool("leaf", question)
    await ctx.call_tool("write_file", {"path": "/asked.txt", "content": first})
    return [first, await ctx.call_tool("leaf", f"{question} again")]
"""


async def check_same(place: Place, run: str, models: Sequence[ScriptedModel]) -> RunResult:
    """Check that a fork of a run asks none of the models, and comes to the same; return its result."""
    first = await place.client.result(run)
    asked = sum(len(model.requests) for model in models)
    again = await forked(place, run)
    assert again.output == first.output
    assert sum(len(model.requests) for model in models) == asked
    assert again.usage.requests == 0
    assert again.usage.saved is not None
    assert again.usage.saved.requests == first.usage.requests == asked
    return again


async def test_a_fork_without_a_change_asks_no_model(place: Place) -> None:
    leaf = scripted("Leaf.")
    reader = scripted(call("leaf", input="look"), "Read.")
    both = [call("reader", input="one"), call("reader", input="two")]
    main = scripted(both, [write_call("/a.txt"), call("list_files")], "Done.")
    place.worker("leaf", leaf)
    place.worker("reader", reader, toolsets=delegation_to("leaf"))
    place.worker("main", main, toolsets=FILESYSTEM | delegation_to("reader"))
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    (place.folder / "a.txt").unlink()
    again = await check_same(place, run, (leaf, reader, main))
    assert again.layer is not None
    assert list(again.layer.recent.entries) == ["a.txt"]
    assert not (place.folder / "a.txt").exists()


async def test_what_a_fork_has_written_is_its_own_whatever_becomes_of_the_file(place: Place) -> None:
    place.write("b.txt", "one")
    edit = call("edit_file", path="/b.txt", old_text="one", new_text="two")
    main = scripted(call("read_file", path="/b.txt"), [write_call("/a.txt"), edit], "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main", mode="approve_all")
    again = await check_same(place, run, (main,))
    assert again.layer is not None
    assert sorted(again.layer.recent.entries) == ["a.txt", "b.txt"]
    difference = await read_difference(place.client.temporal, run, place.started[-1])
    assert (difference.files, difference.same_files) == ((), 2)


async def test_decisions_are_reused_with_their_calls(place: Place) -> None:
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], write_call("/c.txt"), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    run = await place.start("main")
    asked = {one.request.args["path"]: one.id for one in await place.pending(run, 2)}
    await place.decide(run, "reject", id=asked["/a.txt"], note="no")
    await place.decide(run, "modify", id=asked["/b.txt"], args={"path": "/b.txt", "content": "changed"})
    (third,) = await place.pending(run)
    await place.decide(run, id=third.id)
    await place.client.result(run)
    (place.folder / "b.txt").unlink()
    again = await check_same(place, run, (main,))
    assert again.layer is not None
    assert list(again.layer.recent.entries) == ["b.txt", "c.txt"]


async def test_edits_reads_and_commands_are_reused_over_files_that_have_gone_on(place: Place) -> None:
    place.write("a.txt", "one")
    main = scripted(
        call("read_file", path="/a.txt"),
        call("edit_file", path="/a.txt", old_text="one", new_text="two"),
        call("edit_file", path="/a.txt", old_text="two", new_text="three"),
        call("shell", command="cat a.txt"),
        call("read_file", path="/nowhere.txt"),
        "Done.",
    )
    place.worker("main", main, toolsets={**FILESYSTEM, "shell": {"rules": [{"pattern": "cat"}]}})
    run = await place.start("main", mode="approve_all")
    await check_same(place, run, (main,))


@pytest.mark.thorough
async def test_templates_are_reused(place: Place) -> None:
    judge = scripted("Four.")
    place.write("templates/one.yaml", f"system: Judge.\nmodel: {place.script('template-one', judge)}\n")
    main = scripted(template_call("one"), "Done.")
    allow_templates(place, main)
    run = await place.start("main", mode="approve_all")
    await check_same(place, run, (judge, main))


@pytest.mark.thorough
async def test_batches_are_reused(place: Place) -> None:
    leaf, main = scripted("Leaf."), scripted(call("leaf", input="go"), write_call("/same.txt"), "Done.")
    place.worker("leaf", leaf)
    place.worker("main", main, toolsets=FILESYSTEM | delegation_to("leaf"))
    run = await place.start("main", mode="approve_all", batch=batch_of("a", "b", "c"))
    again = await check_same(place, run, (leaf, main))
    assert again.items is not None
    assert [item.status for item in again.items] == ["completed"] * 3


@pytest.mark.thorough
async def test_a_run_that_was_continued_as_new_is_reused(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    monkeypatch.setattr(conversation, "TURNS_A_RUN", 2)
    place.write("a.txt", "a")
    main = scripted(*(call("read_file", path="/a.txt", offset=number) for number in range(5)), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    await check_same(place, await place.start("main"), (main,))


@pytest.mark.extension("review")
async def test_reviewed_layers_are_reused_with_what_was_said_about_them(place: Place) -> None:
    leaf = scripted(write_call("/leaf.txt"), "Leaf.")
    main = scripted(call("leaf", input="go"), write_call("/a.txt"), "Done?", write_call("/b.txt"), "Done.")
    place.worker("leaf", leaf, toolsets=FILESYSTEM)
    place.worker("main", main, toolsets=FILESYSTEM | delegation_to("leaf"), review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)
    await place.decide(run, "reject", id=question.id, note="not like this")
    (question,) = await place.pending(run)
    await place.decide(run, id=question.id)
    await check_same(place, run, (leaf, main))


async def test_functions_are_not_called_again_and_what_they_called_is_reused(place: Place) -> None:
    leaf = scripted("Leaf.")
    main = scripted([call("shout", text="hey")], call("ask_twice", question="who"), "Done.")
    place.write("workers/main/tools.py", TOOLS)
    place.worker("leaf", leaf)
    place.worker(
        "main/worker", main, toolsets={**FILESYSTEM, **delegation_to("leaf"), "custom": {"shout": {}, "ask_twice": {}}}
    )
    run = await place.start("main", mode="approve_all")
    await place.client.result(run)
    (place.folder / "asked.txt").unlink()
    again = await check_same(place, run, (leaf, main))
    assert (place.folder / "workers/main/tools.py.log").read_text() == "hey"
    assert again.layer is not None
    assert "asked.txt" in again.layer.recent.entries


@pytest.mark.thorough
async def test_an_mcp_server_is_not_called_again(place: Place) -> None:
    log = place.folder / "calls.log"
    main = scripted(call("add", first=1, second=2), "Done.")
    server = {"command": [sys.executable, MCP_SERVER, "--log", str(log)], "pre_approved": True}
    place.worker("main", main, toolsets={"mcp": {"sums": server}})
    run = await place.start("main")
    await place.client.result(run)
    called = log.read_text()
    await check_same(place, run, (main,))
    assert log.read_text().count("add") == called.count("add")


async def test_a_failed_run_goes_on_where_it_failed(place: Place) -> None:
    leaf, main = scripted("Leaf."), scripted(call("leaf", input="go"), "Done.")
    place.worker("leaf", leaf)
    place.worker("main", main, toolsets=delegation_to("leaf"))
    run = await place.start("main", mode="approve_all", limits={"turns": 2})
    with pytest.raises(LlmDoError, match="turns"):
        await place.client.result(run)
    assert (len(leaf.requests), len(main.requests)) == (1, 1)
    again = await forked(place, run)
    assert again.output == "Done."
    assert (len(leaf.requests), len(main.requests)) == (1, 2)


FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}


@pytest.fixture
def providers() -> Iterator[Providers]:
    """Servers that speak the protocols of all adapters."""
    with Providers() as providers:
        yield providers


async def test_a_run_aside_leaves_the_files_alone(place: Place) -> None:
    place.worker("main", scripted(call("write_file", **WRITE), "Done."), **FILES)
    result = await place.run("main", aside=True)
    assert result.output == "Done."
    assert result.layer is not None
    assert list(result.layer.recent.entries) == ["done.txt"]
    assert not (place.folder / "done.txt").exists()


async def test_equal_runs_have_equal_keys_and_others_have_others(place: Place) -> None:
    place.worker("main", scripted(call("write_file", **WRITE), "Done."), **FILES)
    keys: list[list[str]] = []
    for prompt in ("one", "one", "two"):
        run = await place.start("main", prompt, aside=True)
        await place.client.result(run)
        keys.append([key_of(answer) for answer in await answers_of(place, run)])
    assert keys[0] == keys[1]
    assert len({*keys[0], *keys[2]}) == 4


async def test_recorded_turns_and_calls_are_not_made_again(place: Place) -> None:
    model = scripted(call("write_file", **WRITE), "Done.", "Never asked.")
    place.worker("main", model, **FILES)
    run = await place.start("main", aside=True)
    first = await place.client.result(run)
    again = await place.run("main", aside=True, parts={"forks": await recorded(place, run, 2)})
    assert again.output == "Done."
    assert len(model.requests) == 2
    assert again.usage.requests == 0
    assert again.usage.saved is not None
    assert (again.usage.saved.requests, again.usage.saved.input_tokens) == (2, first.usage.input_tokens)
    assert again.usage.input_tokens == 0
    assert again.layer is not None
    assert first.layer is not None
    assert again.layer.recent.entries["done.txt"].now == first.layer.recent.entries["done.txt"].now


async def test_a_rule_that_was_made_since_holds_for_what_a_fork_does_anew(place: Place) -> None:
    second: list[Turn] = ["Done.", call("write_file", path="/other.txt", content="other")]
    model = scripted(call("write_file", **WRITE), lambda _: second.pop(0), "Refused.")
    place.worker("main", model, **FILES)
    run = await place.start("main", aside=True)
    await place.client.result(run)
    record = await recorded(place, run, 1)
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    again = await place.run("main", aside=True, parts={"forks": record})
    assert again.output == "Refused."
    assert again.layer is not None
    assert list(again.layer.recent.entries) == ["done.txt"]


@pytest.mark.thorough
async def test_a_provider_gets_the_same_request_after_reused_turns(place: Place, providers: Providers) -> None:
    """A turn after reused ones is asked for exactly as it was then: all four adapters send the same bytes again."""
    place.workshop(
        models={name: providers.alias(name, name, asks("write_file", **WRITE), says("Done.")) for name in ADAPTERS}
    )
    for name in ADAPTERS:
        place.worker(name, name, **FILES)

    async def forked(name: str) -> RunResult:
        run = await place.start(name, aside=True)
        await place.client.result(run)
        return await place.run(name, aside=True, parts={"forks": await recorded(place, run, 1, name)})

    results = dict(zip(ADAPTERS, await asyncio.gather(*map(forked, ADAPTERS)), strict=True))
    assert {name: providers.scripts[name].complaints for name in ADAPTERS} == {name: [] for name in ADAPTERS}
    # A request that is not what it was then would have got no answer: the script has none left.
    came = {name: (result.output, result.usage.requests) for name, result in results.items()}
    assert came == dict.fromkeys(ADAPTERS, ("Done.", 1))
    assert {name: len(providers.scripts[name].requests) for name in ADAPTERS} == dict.fromkeys(ADAPTERS, 2)


@pytest.mark.extension("review")
async def test_a_patch_of_what_stayed_aside_makes_the_same_files(place: Place) -> None:
    from llm_do_temporal.client import read_patch

    place.write("old.txt", "one\ntwo\n")
    edit = call("edit_file", path="/old.txt", old_text="two", new_text="2")
    model = scripted([edit, call("write_file", path="/new.txt", content="new\n")], "Done.")
    place.worker("main", model, toolsets={"filesystem": {}})
    run = await place.start("main", aside=True)
    assert (await place.client.result(run)).output == "Done."
    patch = await read_patch(place.client, run, place.folder)
    assert (place.folder / "old.txt").read_text() == "one\ntwo\n"

    files = (await read_account(place.client.temporal, run)).files
    assert [(one.path, one.base is None) for one in files] == [("new.txt", True), ("old.txt", False)]
    assert (await read_difference(place.client.temporal, run, run)).is_same

    git = partial(subprocess.run, ["git", "apply", "-"], cwd=place.folder, input=patch, text=True, check=True)
    await asyncio.to_thread(git)
    assert (place.folder / "old.txt").read_text() == "one\n2\n"
    assert (place.folder / "new.txt").read_text() == "new\n"
    with pytest.raises(UsageError, match=r"'old\.txt' is no longer as it was"):
        await read_patch(place.client, run, place.folder)


@pytest.mark.extension("review")
async def test_a_run_that_waits_for_something_else_has_no_patch_yet(place: Place) -> None:
    from llm_do_temporal.client import read_patch

    run, _ = await start_parked(place, write_call(), "Done.")
    with pytest.raises(UsageError, match=f"run '{run}' has no changes that wait for a review"):
        await read_patch(place.client, run, place.folder)
    await place.decide(run)
    await place.client.result(run)


WRITES = call("write_file", path="/done.txt", content="done")


async def _fork(place: Place) -> tuple[str, str]:
    """A run that delegates and writes, and an unchanged fork of it."""
    place.worker("reader", scripted("Read."))
    tools: dict[str, Any] = {"filesystem": {}, "delegation": {"reader": {}}}
    model = scripted([call("reader", input="a"), WRITES], [call("reader", input="b")], "Done.")
    place.worker("main", model, toolsets=tools)
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    run = await place.start("main", aside=True)
    assert (await place.client.result(run)).output == "Done."
    fork = await place.client.fork(run, ForkRequest(), workshop=place.folder)
    place.started.append(fork)
    return run, fork


async def test_every_view_of_a_fork_says_what_was_reused(place: Place) -> None:
    run, fork = await _fork(place)
    result = await place.client.result(fork)
    view = await place.client.view(fork)
    assert view.usage == result.usage
    assert result.usage.requests == 0
    assert result.usage.saved is not None
    assert result.usage.saved.requests == 5
    (main,) = view.ordered
    steps = [(step.what, step.origin.removeprefix(f"{run} ")) for step in main.reused]
    assert steps[:1] == [("turn 1", "main turn 1")]
    assert sorted(steps[1:3]) == [("reader", "main turn 1"), ("write_file", "main turn 1")]
    assert steps[3:] == [("turn 2", "main turn 2"), ("reader", "main turn 2"), ("turn 3", "main turn 3")]
    assert (main.turns, main.reused_turns) == (3, 3)

    told = [entry async for entry in read_transcript(place.client.temporal, fork)]
    origins = [entry.details.get("reused") for entry in told if entry.kind in ("turn", "result")]
    children = ("", "main/reader-1", "", "", "main/reader-2", "")
    places = [{"run": run, "path": "main", "turn": turn} for turn in (1, 1, 1, 2, 2, 3)]
    wanted = [one | ({"child": child} if child else {}) for one, child in zip(places, children, strict=True)]
    assert origins == wanted
    summary = await place.client.status(fork)
    assert summary.fork_of == run
    assert (await read_difference(place.client.temporal, run, fork)).is_same


@pytest.mark.thorough
async def test_traces_and_logs_name_the_place_of_what_was_reused(place: Place) -> None:
    run, fork = await _fork(place)
    await place.client.result(fork)
    logged = [event async for event in place.client.events(fork)]
    assert [event.data["tool"] for event in logged if event.type == "call.reused"].count("reader") == 2
    answered = [event.data["reused"] for event in logged if event.type == "turn.completed"]
    assert answered == [f"{run} main turn {turn}" for turn in (1, 2, 3)]
    tracer = Tracer(fork)
    histories: list[WorkflowHistory] = await place.chain(fork)
    spans = [span for event in histories[0].events for span in tracer.take(fork, event)]
    told = [dict(span.attributes or {}).get("llm_do.reused_from") for span in spans]
    found = sorted(str(origin) for origin in told if origin)
    assert found == [f"{run} main turn {turn}" for turn in (1, 1, 1, 2, 2, 3)]


START = frozenset({TokenScope.START, TokenScope.READ})


async def test_a_person_forks_a_run_and_knows_before_what_that_comes_to(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), toolsets=FILESYSTEM, export=True)
    ci, ada = program(place), person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    await ada.decide(run, "a1")
    await ada.until(run, "completed")
    plan = await ada.ask("POST", f"/runs/{run}/forks/forecast", json={"at": ["main@2"]})
    assert (plan.status, plan.body["is_free"], plan.body["estimate"]["reused"]) == (
        200,
        False,
        {"low": 1, "high": 1},
    ), plan.body
    free = await ada.ask("POST", f"/runs/{run}/forks/forecast", json={})
    assert free.body["is_free"]
    forks = [
        await ada.ask("POST", f"/runs/{run}/forks", json={"at": ["main@2"]}, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert [one.status for one in forks] == [202, 202], forks
    assert forks[0].body["run"] == forks[1].body["run"]
    place.started.append(forks[0].body["run"])
    other = await ada.ask("POST", f"/runs/{run}/forks", json={"at": ["main@1"]}, headers={"Idempotency-Key": "k"})
    assert (other.status, other.body["detail"]) == (422, "this key was used before, with another request")
    ended = await ada.until(forks[0].body["run"], "completed")
    assert (ended["output"], ended["fork_of"], ended["started_by"]) == ("Done.", run, "ada")
    assert ended["usage"]["requests"] == 1
    for who in (ci, program(place, "other", START)):
        refused = await who.ask("POST", f"/runs/{run}/forks", json={})
        assert refused.status == 403, refused.body
    for changes in (
        {"at": ["main@99"]},
        {"at": ["x"]},
        {"model": "opnai:gpt-5"},
        {"worker": "/etc/passwd"},
        {"results": ["main@1=@/etc/passwd"]},
        {"decide": ["a1=approve"]},
        {"settings": ["toolsets=shell"]},
    ):
        assert (await ada.ask("POST", f"/runs/{run}/forks", json=changes)).status == 422, changes


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["gpt-5", "quux:m"])
async def test_a_fork_warns_of_what_may_fail_in_the_answer_that_has_begun_it(place: Place, model: str) -> None:
    place.worker("writer", scripted("Done."), export=True)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "completed")
    asked: dict[str, Any] = {"json": {"model": model}, "headers": {"Idempotency-Key": "k"}}
    forks = [(await ada.ask("POST", f"/runs/{run}/forks", **asked)).body for _ in range(2)]
    assert forks[0]["run"] == forks[1]["run"]
    place.started.append(forks[0]["run"])
    assert [model.partition(":")[0] in one for one in forks[0]["warnings"]] == [True], forks
    assert forks[1]["warnings"] == []
    assert (await ada.until(forks[0]["run"], "completed"))["warnings"] == []
