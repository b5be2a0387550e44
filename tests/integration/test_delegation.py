"""Calling another worker: both faces, what travels down, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.messages.base import INVOCATION_MEMO
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, generic_delegation, tool_results
from tests.support.runs.place import Place


async def test_worker_call_hands_text_down_and_brings_the_answer_back(place: Place) -> None:
    child = scripted("Forty-two.")
    main = scripted(call("worker_call", worker_name="sage", input_data="The question?"), "It is 42.")
    place.worker("sage", child, "You are wise.", toolsets={"filesystem": {}})
    place.worker("main", main, "You ask.", toolsets=generic_delegation("sage"))
    result = await place.run("main", mode=APPROVE_ALL)
    assert result.output == "It is 42."
    assert child.requests[0].prompt == "The question?"
    assert tool_results(main, "worker_call") == ["Forty-two."]
    # Each has the instructions and the tools of its own file.
    assert (main.requests[0].instructions, child.requests[0].instructions) == ("You ask.", "You are wise.")
    assert set(main.requests[0].tools) == {"worker_call"}
    assert set(child.requests[0].tools) == {"read_file", "write_file", "edit_file", "list_files"}


async def test_a_worker_of_its_own_name_is_a_tool_that_takes_input(place: Place) -> None:
    child = scripted("Forty-two.")
    main = scripted(call("sage", input="The question?"), "It is 42.")
    place.worker("sage", child, description="Knows everything.")
    place.worker("main", main, toolsets=delegation_to("sage"))
    await place.run("main", mode=APPROVE_ALL)
    assert child.requests[0].prompt == "The question?"
    assert tool_results(main, "sage") == ["Forty-two."]
    assert main.requests[0].tools["sage"].description == "Knows everything."


async def test_a_named_tool_has_attachments_only_where_the_callee_takes_any(place: Place) -> None:
    main = scripted("Nothing to do.")
    place.worker("reader", scripted())
    place.worker("thinker", scripted(), attachment_policy={"max_attachments": 0})
    place.worker("main", main, toolsets=delegation_to("reader", "thinker"))
    await place.run("main")
    offered = {name: set(tool.parameters_json_schema["properties"]) for name, tool in main.requests[0].tools.items()}
    assert offered == {"reader": {"input", "attachments"}, "thinker": {"input"}}


@pytest.mark.parametrize(
    ("toolsets", "offered"),
    [
        # nobody may be called, and the model is told so when it tries
        (generic_delegation(), {"worker_call"}),
        (generic_delegation("sage"), {"worker_call"}),
        # the generic face is there only where it was asked for
        (delegation_to("sage"), {"sage"}),
        ({"delegation": {}}, set[str]()),
        ({}, set[str]()),
        # both at once
        ({"delegation": {"sage": {}, "allow_workers": ["*"]}}, {"sage", "worker_call"}),
    ],
)
async def test_the_tools_on_offer_are_those_the_definition_names(
    place: Place, toolsets: dict[str, Any], offered: set[str]
) -> None:
    main = scripted("Nothing to do.")
    place.worker("sage", scripted())
    place.worker("main", main, toolsets=toolsets)
    await place.run("main")
    assert set(main.requests[0].tools) == offered


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (["other"], "worker 'main' may not call 'sage'; it may call 'other'"),
        ([], "worker 'main' may not call 'sage'; it may call nobody"),
    ],
)
async def test_a_worker_that_is_not_on_the_list_is_refused_and_never_started(
    place: Place, allowed: list[str], message: str
) -> None:
    main = scripted(call("worker_call", worker_name="sage", input_data="?"), "Alone then.")
    place.worker("sage", scripted())
    place.worker("main", main, toolsets=generic_delegation(*allowed))
    run = await place.start("main")
    await place.client.result(run)
    assert tool_results(main, "worker_call") == [message]
    assert len((await place.client.view(run)).nodes) == 1


async def test_a_star_allows_every_worker_of_the_workshop(place: Place) -> None:
    main = scripted(
        [call("worker_call", worker_name=name, input_data="?") for name in ("one", "two", "nobody", "../main")], "Done."
    )
    place.worker("one", scripted("1"))
    place.worker("two", scripted("2"))
    place.worker("main", main, toolsets=generic_delegation("*"))
    await place.run("main", mode=APPROVE_ALL)
    one, two, missing, outside = tool_results(main, "worker_call")
    assert (one, two) == ("1", "2")
    assert "there is no worker 'nobody'" in missing
    assert "worker name '../main' is not valid" in outside


async def test_delegations_of_one_turn_run_side_by_side(place: Place) -> None:
    arrived: set[str] = set()
    everybody = asyncio.Event()

    def meets(name: str) -> ScriptedModel:
        async def answer(_: list[ModelMessage]) -> str:
            arrived.add(name)
            if len(arrived) == 3:
                everybody.set()
            # Each waits for the others: one after the other they would never get past this.
            await everybody.wait()
            return name

        return scripted(answer)

    main = scripted([call(name, input="go") for name in ("one", "two", "three")], "Met.")
    for name in ("one", "two", "three"):
        place.worker(name, meets(name))
    place.worker("main", main, toolsets=delegation_to("one", "two", "three"))
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Met."


async def test_an_object_as_input_reaches_the_child_as_json(place: Place) -> None:
    child = scripted("Read.")
    given: Mapping[str, Any] = {"deck": "ä.pdf", "depth": {"pages": [1, 2]}}
    place.worker("sage", child)
    place.worker(
        "main",
        scripted(call("worker_call", worker_name="sage", input_data=given), "Ok."),
        toolsets=generic_delegation("*"),
    )
    await place.run("main", mode=APPROVE_ALL)
    assert '"deck": "ä.pdf"' in child.requests[0].prompt
    assert '"pages"' in child.requests[0].prompt


async def test_a_run_may_be_started_with_an_object_and_no_prompt(place: Place) -> None:
    main, silent = scripted("Ok."), scripted("Ok.")
    place.worker("main", main)
    place.worker("silent", silent)
    await place.run("main", "", input={"deck": "a.pdf"})
    await place.run("silent", "")
    assert '"deck": "a.pdf"' in main.requests[0].prompt
    assert silent.requests[0].prompt.strip()


async def test_a_child_that_fails_is_a_tool_result_and_the_parent_goes_on(place: Place) -> None:
    main = scripted([call("broken", input="go"), call("sage", input="go")], "One of two.")
    place.worker("broken", scripted(ValueError("no such luck")))
    place.worker("sage", scripted("Fine."))
    place.worker("main", main, toolsets=delegation_to("broken", "sage"))
    result = await place.run("main", mode=APPROVE_ALL)
    assert result.output == "One of two."
    (failed,) = tool_results(main, "broken")
    assert failed.startswith("worker 'broken' failed: ")
    assert "no such luck" in failed
    assert tool_results(main, "sage") == ["Fine."]


async def test_a_child_that_is_cancelled_alone_is_a_tool_result(place: Place) -> None:
    reached = asyncio.Event()

    async def never(_: list[ModelMessage]) -> str:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    main = scripted(call("stuck", input="go"), "Without it.")
    place.worker("stuck", scripted(never))
    place.worker("main", main, toolsets=delegation_to("stuck"))
    run = await place.start("main", mode=APPROVE_ALL)
    await reached.wait()
    await place.client.temporal.get_workflow_handle(f"{run}/main/stuck-1").cancel()
    assert (await place.client.result(run)).output == "Without it."
    assert tool_results(main, "stuck") == ["worker 'stuck' failed: it was cancelled"]


async def test_invocations_are_numbered_by_worker_and_say_who_they_are(place: Place) -> None:
    leaf = scripted("Leaf.")
    place.worker("leaf", leaf)
    place.worker("branch", scripted(call("leaf", input="go"), "Branch."), toolsets=delegation_to("leaf"))
    turns = scripted([call("leaf", input="a"), call("branch", input="b")], call("leaf", input="c"), "Tree.")
    place.worker("main", turns, toolsets=delegation_to("leaf", "branch"))
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    view = await place.client.view(run)
    paths = {node.path: node.depth for node in view.ordered}
    assert paths == {"main": 0, "main/leaf-1": 1, "main/branch-1": 1, "main/branch-1/leaf-1": 2, "main/leaf-2": 1}
    description = await place.client.temporal.get_workflow_handle(f"{run}/main/branch-1/leaf-1").describe()
    memo = (await description.memo())[INVOCATION_MEMO]
    assert (memo["path"], memo["worker"], memo["depth"]) == ("main/branch-1/leaf-1", "leaf", 2)
    assert memo["model"].startswith("test:")
