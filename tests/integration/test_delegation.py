"""Calling another worker: both faces, what travels down and comes back, how deep it goes, and what is spent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.client.history.invocations import Beginnings
from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.messages.base import INVOCATION_MEMO
from llm_do_temporal.messages.budget import Usage
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import (
    APPROVE_ALL,
    delegating_or_leaf,
    delegation_to,
    generic_delegation,
    last_tool_result,
    tool_results,
)
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


OFFERED: list[tuple[dict[str, Any], set[str]]] = [
    # nobody may be called, and the model is told so when it tries
    (generic_delegation(), {"worker_call"}),
    (generic_delegation("sage"), {"worker_call"}),
    # the generic face is there only where it was asked for
    (delegation_to("sage"), {"sage"}),
    ({"delegation": {}}, set[str]()),
    ({}, set[str]()),
    # both at once
    ({"delegation": {"sage": {}, "allow_workers": ["*"]}}, {"sage", "worker_call"}),
]


async def test_the_tools_on_offer_are_those_the_definition_names(place: Place) -> None:
    place.worker("sage", scripted())
    for number, (toolsets, offered) in enumerate(OFFERED):
        main = scripted("Nothing to do.")
        place.worker(f"main{number}", main, toolsets=toolsets)
        await place.run(f"main{number}")
        assert set(main.requests[0].tools) == offered


async def test_a_worker_that_is_not_on_the_list_is_refused_and_never_started(place: Place) -> None:
    place.worker("sage", scripted())
    for allowed, said in ((["other"], "'other'"), ([], "nobody")):
        main = scripted(call("worker_call", worker_name="sage", input_data="?"), "Alone then.")
        place.worker("main", main, toolsets=generic_delegation(*allowed))
        run = await place.start("main")
        await place.client.result(run)
        refused = f"worker 'main' may not call 'sage'; it may call {said}"
        assert tool_results(main, "worker_call") == [refused]
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


async def test_exactly_max_depth_runs_and_one_more_is_refused_without_a_child(place: Place) -> None:
    place.workshop(max_depth=2)
    down = scripted(call("worker_call", worker_name="down", input_data="deeper"), last_tool_result)
    place.worker("down", down, toolsets=generic_delegation("down"))
    run = await place.start("down", mode=APPROVE_ALL)
    output = str((await place.client.result(run)).output)
    assert "RecursionError: maximum worker depth exceeded" in output
    assert "'down' would run at depth 3, the limit is 2 (max_depth)" in output
    nodes = (await place.client.view(run)).ordered
    assert [(node.depth, node.path) for node in nodes] == [
        (0, "main"),
        (1, "main/down-1"),
        (2, "main/down-1/down-1"),
    ]
    assert nodes[-1].children == []


async def test_depth_zero_allows_the_entry_worker_and_nobody_else(place: Place) -> None:
    place.workshop(max_depth=0)
    main = scripted(call("sage", input="go"), "Alone.")
    place.worker("sage", scripted())
    place.worker("main", main, toolsets=delegation_to("sage"))
    run = await place.start("main")
    await place.client.result(run)
    assert "the limit is 0" in tool_results(main, "sage")[0]
    # Nobody is asked about a call that cannot be.
    assert (await place.client.desk(run)).approvals == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("child", "caller", "workshop", "start", "expected"),
    [
        # each link of the chain is used where all before it are silent
        ("own", "caller", "shop", {"model": "run", "environment_model": "env"}, "own"),
        (None, "caller", "shop", {"model": "run", "environment_model": "env"}, "caller"),
        (None, None, "shop", {"model": "run", "environment_model": "env"}, "run"),
        (None, None, "shop", {"environment_model": "env"}, "shop"),
        (None, None, None, {"environment_model": "env"}, "env"),
        # force overrides everybody
        ("own", "caller", "shop", {"model": "run", "force_model": "forced"}, "forced"),
        # an alias of the workshop stands for its model
        ("quick", None, None, {"model": "run"}, "aliased"),
    ],
)
async def test_the_model_is_the_first_that_anybody_names(
    place: Place, child: str | None, caller: str | None, workshop: str | None, start: dict[str, str], expected: str
) -> None:
    names = ("own", "caller", "shop", "run", "env", "forced", "aliased")
    ids = {name: place.script(name, delegating_or_leaf(name)) for name in names}
    models = {"models": {"quick": ids["aliased"]}}
    place.workshop(**models, **({"model": ids[workshop]} if workshop else {}))
    place.worker("child", ids.get(child, child) if child else None)
    place.worker("main", ids[caller] if caller else None, toolsets=delegation_to("child"))
    result = await place.run("main", mode=APPROVE_ALL, **{key: ids[name] for key, name in start.items()})
    assert result.output == f"Played by {expected}."


async def test_without_any_model_the_error_names_every_place_for_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_DO_MODEL", raising=False)
    place.worker("main")
    with pytest.raises(ModelRefusal, match="no model for worker 'main'") as refused:
        await place.run("main")
    assert refused.value.next_step is not None
    assert all(source in refused.value.next_step for source in ("`model:`", "workshop.yaml", "--model", "LLM_DO_MODEL"))


async def test_a_callee_that_does_not_work_with_the_callers_model_is_a_tool_result(place: Place) -> None:
    main = scripted(call("picky", input="go"), "Alone.")
    place.worker("picky", compatible_models=["anthropic:*"])
    place.worker("main", main, toolsets=delegation_to("picky"))
    run = await place.start("main")
    await place.client.result(run)
    assert "worker 'picky' does not work with model 'test:" in tool_results(main, "picky")[0]
    assert len((await place.client.view(run)).nodes) == 1
    assert (await place.client.desk(run)).approvals == ()


async def test_the_usage_of_a_run_is_the_sum_of_all_its_turns_failed_children_included(place: Place) -> None:
    place.worker("leaf", scripted("Leaf."))
    place.worker("broken", scripted(call("leaf", input="go"), ValueError("no luck")), toolsets=delegation_to("leaf"))
    place.worker("branch", scripted(call("leaf", input="go"), "Branch."), toolsets=delegation_to("leaf"))
    turns = scripted([call("branch", input="a"), call("broken", input="b"), call("leaf", input="c")], "Tree.")
    place.worker("main", turns, toolsets=delegation_to("branch", "broken", "leaf"))
    run = await place.start("main", mode=APPROVE_ALL)
    usage = (await place.client.result(run)).usage
    # main 2 turns, branch 2, broken 1 that was answered, leaf 3 times
    assert usage.requests == 8
    view = await place.client.view(run)
    assert {node.status for node in view.ordered} == {"completed", "failed"}
    spent = Usage()
    for node in view.ordered:
        spent = spent.plus(node.usage)
    assert usage == spent
    # Each node has what its own turns took, and not what those below it did.
    requests = sorted((node.worker, node.usage.requests) for node in view.ordered)
    assert requests == [("branch", 2), ("broken", 1), ("leaf", 1), ("leaf", 1), ("leaf", 1), ("main", 2)]
    assert all(node.usage.input_tokens and node.usage.output_tokens for node in view.ordered)


async def test_result_and_tree_count_the_calls_that_models_asked_for(place: Place) -> None:
    schema = {"type": "object", "properties": {"points": {"type": "integer"}}}
    bad = [call("read_file", path="/none.txt"), call("read_file"), call("nobody", x=1), call("write_file", path="/a")]
    main = scripted(bad, call("sage", input="go"), "Done.")
    place.worker("sage", scripted({"points": "many"}, {"points": 1}), output_schema=schema)
    place.worker("main", main, toolsets={"filesystem": {}, **delegation_to("sage")})
    run = await place.start("main", mode=APPROVE_ALL)
    usage = (await place.client.result(run)).usage
    # Four that fail in four ways and one that is answered. A structured result, given twice, is none.
    assert (usage.requests, usage.tool_calls) == (5, 5)
    assert usage == (await place.client.view(run)).usage


async def test_a_file_edited_after_the_start_does_not_change_the_run(place: Place) -> None:
    def edit(_: list[ModelMessage]) -> str:
        for name in ("main", "sage"):
            place.write(f"workers/{name}.worker", "model: none:none\n---\nYou are somebody else.\n")
        return "Edited."

    sage, main = scripted(edit), scripted(call("sage", input="go"), "Done.")
    place.worker("sage", sage, "You are wise.")
    place.worker("main", main, "You are the first.", toolsets=delegation_to("sage"))
    text = (place.folder / "workers/main.worker").read_bytes()
    run = await place.start("main", mode=APPROVE_ALL)
    await place.client.result(run)
    assert [seen.instructions for seen in main.requests] == ["You are the first."] * 2
    assert sage.requests[0].instructions == "You are wise."
    assert (await pinned(place, run)).sha256 == hashlib.sha256(text).hexdigest()


async def pinned(place: Place, run: str) -> PinnedWorker:
    """The definition of the entry worker in the history of a run."""
    history = await place.client.temporal.get_workflow_handle(run).fetch_history()
    beginnings = Beginnings()
    (beginning,) = filter(None, map(beginnings.take, history.events))
    return InvokeWorkerInput.model_validate(beginning.given).worker


async def test_a_worker_loaded_later_is_loaded_as_it_is_then(place: Place) -> None:
    def edit(_: list[ModelMessage]) -> Any:
        place.worker("sage", sage, "You are wiser now.")
        return call("sage", input="go")

    sage = scripted("Wise.")
    place.worker("sage", sage, "You are wise.")
    place.worker("main", scripted(call("sage", input="go"), edit, "Done."), toolsets=delegation_to("sage"))
    await place.run("main", mode=APPROVE_ALL)
    assert [seen.instructions for seen in sage.requests] == ["You are wise.", "You are wiser now."]
