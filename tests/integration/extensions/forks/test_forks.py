"""Forks of recorded runs without a change: all is reused, no model is asked anything, and the result is the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extensions.forks.client_differences import read_difference
from llm_do_temporal.messages.runs import RunResult
from llm_do_temporal.testing import ScriptedModel, call, scripted
from llm_do_temporal.workflows.invocation import conversation
from tests.support.extensions.forks.forked_runs import forked
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from tests.support.runs.template_calls import allow_templates, template_call

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
    difference = (await read_difference(place.client.temporal, run, place.started[-1])).difference
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
