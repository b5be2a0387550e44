"""Functions of `tools.py` that take a context: orchestration in workflow code, through the gate."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import tool_results
from tests.support.runs.place import Place

HEAD = """\
import asyncio
from llm_do_temporal.tools import ToolCallFailed, ToolContext, tool_context

"""
FREE = {"pre_approved": True}


def orchestrated(place: Place, body: str, *turns: object, **toolsets: object) -> ScriptedModel:
    """A worker with the function `orchestrate`, and the model that plays it."""
    model = scripted(*(turns or (call("orchestrate"), "Done.")))  # pyright: ignore[reportArgumentType]
    place.write("tools.py", f"{HEAD}@tool_context\nasync def orchestrate({body}")
    custom = toolsets.pop("custom", {"orchestrate": FREE})
    place.worker("main", model, toolsets={"custom": custom, "filesystem": {}, **toolsets})
    return model


async def test_two_workers_run_side_by_side_and_a_write_asks(place: Place) -> None:
    arrived: set[str] = set()
    both = asyncio.Event()

    def meets(name: str) -> ScriptedModel:
        async def answer(_: list[ModelMessage]) -> str:
            arrived.add(name)
            if len(arrived) == 2:
                both.set()
            await both.wait()
            return f"I am {name}."

        return scripted(answer)

    body = """\
task: str, ctx: ToolContext) -> dict[str, str]:
    first, second = await asyncio.gather(ctx.call_tool("one", task), ctx.call_tool("two", {"input": task}))
    wrote = await ctx.call_tool("write_file", {"path": "/out.txt", "content": f"{first}\\n{second}\\n"})
    return {"wrote": wrote}
"""
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    turns = (call("orchestrate", task="meet"), "Done.")
    one, two = meets("one"), meets("two")
    model = orchestrated(place, body, *turns, delegation={"one": {}, "two": {}})
    place.worker("one", one)
    place.worker("two", two)
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert (asked.request.tool, asked.request.path) == ("write_file", "main")
    assert not (place.folder / "out.txt").exists()
    await place.decide(run)
    result = await place.client.result(run)
    assert (place.folder / "out.txt").read_text() == "I am one.\nI am two.\n"
    assert "Wrote /out.txt" in tool_results(model, "orchestrate")[0]
    assert one.requests[0].prompt == two.requests[0].prompt == "meet"
    assert (result.usage.requests, result.usage.tool_calls) == (4, 1)
    assert model.requests[0].tools["orchestrate"].parameters_json_schema["required"] == ["task"]


async def test_the_function_itself_asks_like_any_python_tool(place: Place) -> None:
    model = orchestrated(place, "ctx: ToolContext) -> str:\n    return 'hi'\n", custom={"orchestrate": {}})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="no", by="ada")
    await place.client.result(run)
    assert tool_results(model, "orchestrate") == ["Rejected by ada: no"]


CATCHES = """\
ctx: ToolContext) -> str:
    try:
        return await ctx.call_tool("write_file", {"path": "/out.txt", "content": "x"})
    except ToolCallFailed as error:
        return f"caught: {error}"
"""


async def test_a_rejection_inside_can_be_caught(place: Place) -> None:
    model = orchestrated(place, CATCHES)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="not there", by="ada")
    await place.client.result(run)
    assert tool_results(model, "orchestrate") == ["caught: Rejected by ada: not there"]


async def test_what_a_person_changed_inside_is_told_to_the_model_and_not_to_the_function(place: Place) -> None:
    model = orchestrated(place, CATCHES)
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "modify", args={"path": "/other.txt", "content": "y"}, by="ada")
    await place.client.result(run)
    (text,) = tool_results(model, "orchestrate")
    assert text.startswith("Wrote /other.txt (1 bytes).\nada changed this call")


async def test_where_a_refusal_aborts_the_run_a_function_cannot_catch_it(place: Place) -> None:
    place.workshop(on_refusal="abort")
    orchestrated(place, CATCHES.replace("except ToolCallFailed", "except Exception"))
    run = await place.start("main", mode="strict")
    with pytest.raises(Exception, match="Strict mode: write_file requires approval"):
        await place.client.result(run)


GOES_WRONG = [
    ("    raise ValueError('never mind')", "'orchestrate' raised ValueError: never mind"),
    ("    return await ctx.call_tool('read_file', '/no.txt')", "'/no.txt' does not exist"),
    ("    return await ctx.call_tool('nobody', 'x')", "there is no tool 'nobody'; this worker has 'edit_file'"),
    ("    return await ctx.call_tool('write_file', 'x')", "'write_file' cannot be called with one text"),
    ("    return await ctx.call_tool('read_file', 7)", "the input of 'read_file' is a int"),
    ("    return await ctx.call_tool('read_file', {'way': 'x'})", "The arguments of read_file are not valid"),
    ("    return object()", "[object: JSON has no form for it]"),
    ("    return 'x' * 8_000_001", '"truncated":true,"total_bytes":8000001'),
    ("    raise SystemExit('bye')", "'orchestrate' raised SystemExit: bye"),
    ("    raise KeyboardInterrupt", "'orchestrate' raised KeyboardInterrupt"),
    ("    raise GeneratorExit", "'orchestrate' raised GeneratorExit"),
    ("    raise type('Own', (BaseException,), {})('mine')", "'orchestrate' raised Own: mine"),
    (
        "    raise BaseExceptionGroup('all', [KeyboardInterrupt('two')])",
        "'orchestrate' raised KeyboardInterrupt: two",
    ),
    # the same in a task of its own, which would end the event loop
    (
        "    async def leave():\n        raise SystemExit(3)\n    await asyncio.gather(leave())",
        "'orchestrate' raised RuntimeError: a task raised SystemExit",
    ),
    (
        "    async def leave():\n        raise KeyboardInterrupt\n    asyncio.create_task(leave())\n"
        "    await asyncio.sleep(0.1)\n    return 'It went on.'",
        "It went on.",
    ),
    ("    raise asyncio.CancelledError", "'orchestrate' waited for something that was cancelled"),
    # each replay would see something else, so the workflow's sandbox forbids it
    ("    import random\n    return random.random()", "'orchestrate' used 'random.random'"),
    ("    return time.time()\nimport time", "'orchestrate' used 'time.time'"),
    ("    return str(now())\nfrom datetime import datetime\nnow = datetime.now", "used 'datetime.datetime.now'"),
    ("    return uuid4().hex\nfrom uuid import uuid4", "'orchestrate' used 'uuid.uuid4'"),
    ("    return open('/etc/hostname').read()", "'orchestrate' used 'open'"),
    # somebody who calls himself ends somewhere
    ("    return await ctx.call_tool('orchestrate', {})", "more than 10 functions call each other"),
]
"""Bodies of functions, and words of their results; `orchestrate` is the function's own name."""


async def test_what_goes_wrong_in_the_function_is_a_result_for_the_model(place: Place) -> None:
    names = [f"orchestrate_{number}" for number in range(len(GOES_WRONG))]
    source = HEAD
    for name, (body, _) in zip(names, GOES_WRONG, strict=True):
        own = body.replace("orchestrate", name)
        source += f"@tool_context\nasync def {name}(ctx: ToolContext) -> object:\n{own}\n\n\n"
    place.write("tools.py", source)
    model = scripted(*(call(name) for name in names), "Done.")
    place.worker("main", model, toolsets={"custom": dict.fromkeys(names, FREE), "filesystem": {}})
    assert (await place.run("main")).output == "Done."
    for name, (_, words) in zip(names, GOES_WRONG, strict=True):
        assert words.replace("orchestrate", name) in tool_results(model, name)[0]


async def test_arguments_arrive_as_the_types_of_the_signature_here_too(place: Place) -> None:
    text = f"""{HEAD}
from __future__ import annotations
""".replace(HEAD, f"from __future__ import annotations\n{HEAD}", 1)
    text = f"""\
from __future__ import annotations
{HEAD}
from pydantic import BaseModel

class Plan(BaseModel):
    steps: list[Step]

class Step(BaseModel):
    title: str

@tool_context
async def orchestrate(plan: Plan, ctx: ToolContext) -> Plan:
    return Plan(steps=[Step(title=step.title.upper()) for step in plan.steps])
"""
    model = scripted(call("orchestrate", plan={"steps": [{"title": "go"}]}), "Done.")
    place.write("tools.py", text)
    place.worker("main", model, toolsets={"custom": {"orchestrate": FREE}})
    await place.run("main")
    assert tool_results(model, "orchestrate") == ['{"steps":[{"title":"GO"}]}']


async def test_an_attachment_is_handed_on(place: Place) -> None:
    body = 'ctx: ToolContext) -> str:\n    return await ctx.call_tool("sage", "read it", attachments=["/a.txt"])\n'
    place.write("a.txt", "content of a")
    sage = scripted("Read.")
    model = orchestrated(place, body, delegation={"sage": {}})
    place.worker("sage", sage)
    await place.run("main", mode="approve_all")
    assert tool_results(model, "orchestrate") == ["Read."]
    assert "content of a" in sage.requests[0].prompt


async def test_a_file_that_changes_while_the_run_is_parked_changes_nothing(place: Place) -> None:
    model = orchestrated(place, CATCHES)
    run = await place.start("main")
    await place.pending(run)
    place.write("tools.py", "def something_else() -> None: ...\n")
    await place.decide(run)
    await place.client.result(run)
    assert tool_results(model, "orchestrate")[0].startswith("Wrote /out.txt")


async def test_calls_nobody_waits_for_are_taken_back(place: Place) -> None:
    body = """\
ctx: ToolContext) -> str:
    asked = asyncio.create_task(ctx.call_tool("write_file", {"path": "/out.txt", "content": "x"}))
    try:
        return await ctx.call_tool("edit_file", {"path": "/in.txt", "old_text": "a", "new_text": "b"})
    except ToolCallFailed as error:
        return str(error)
"""
    place.write("in.txt", "a")
    model = orchestrated(place, body, call("orchestrate"), call("write_file", path="/last.txt", content="x"), "Done.")
    run = await place.start("main")
    asked = {one.request.tool: one.id for one in await place.pending(run, 2)}
    await place.decide(run, "reject", id=asked["edit_file"])
    await place.pending_is(run, "a3")
    await place.decide(run, id="a3")
    await place.client.result(run)
    assert tool_results(model, "orchestrate") == ["Rejected by a person"]
    assert not (place.folder / "out.txt").exists()


async def test_a_cancelled_run_ends_the_function_and_its_calls(place: Place) -> None:
    body = """\
ctx: ToolContext) -> list[str]:
    calls = [ctx.call_tool("write_file", {"path": f"/{n}.txt", "content": "x"}) for n in range(2)]
    return await asyncio.gather(*calls)
"""
    orchestrated(place, body)
    run = await place.start("main")
    await place.pending(run, 2)
    await place.client.cancel(run)
    with pytest.raises(Exception, match="cancel"):
        await place.client.result(run)
    assert not (place.folder / "0.txt").exists()


async def test_what_the_function_leaves_in_its_module_is_its_own_invocations(place: Place) -> None:
    body = "ctx: ToolContext) -> int:\n    SEEN.append(1)\n    return len(SEEN)\n\nSEEN: list[int] = []\n"
    turns = (call("orchestrate"), call("orchestrate"), "Done.")
    models = [orchestrated(place, body, *turns) for _ in range(2)]
    await place.run("main")
    assert tool_results(models[1], "orchestrate") == ["1", "2"]
    await place.run("main")
    assert tool_results(models[1], "orchestrate") == ["1", "2"]
