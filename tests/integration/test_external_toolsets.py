"""Toolsets of Python packages and MCP servers: offered, asked about, called once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, tool_results
from tests.support.runs.place import Place

SERVER = str(Path(__file__).parents[1] / "support/servers/mcp_server.py")
TOOLSET = '''
from pydantic_ai import ModelRetry
from pydantic_ai.toolsets import FunctionToolset


class Notes(FunctionToolset):
    def __init__(self, index="none"):
        super().__init__(id="notes")
        self.index = index
        self.add_function(self.search)
        self.add_function(self.fail)
        self.add_function(self.erase, requires_approval=True)

    def search(self, words: str) -> dict[str, str]:
        """Search the notes."""
        return {"index": self.index, "words": words}

    def fail(self, how: str) -> str:
        """Fail."""
        if how == "retry":
            raise ModelRetry("Ask for something else.")
        raise OSError(2, "No such file", __file__)

    def erase(self) -> str:
        """Erase all."""
        return "Erased."


class Judging(Notes):
    def __init__(self, index="none"):
        super().__init__(index)
        self.counted = 0
        self.add_function(self.count)

    def count(self) -> int:
        """Count the calls."""
        self.counted += 1
        return self.counted

    def get_capabilities(self, name, tool_args, ctx, config):
        said = {"small": ["net.read"], "large": {"net.write"}, "run": ["proc.exec"], "any": ["proc.exec.unlisted"]}
        return [config["index"]] if name == "count" else said.get(tool_args["words"])
'''


@pytest.fixture
def package(place: Place) -> str:
    """A package in the workshop's folder, under a name that no other test imports."""
    name = f"notes_{uuid4().hex}"
    place.write(f"{name}/__init__.py", "")
    place.write(f"{name}/tools.py", TOOLSET)
    return f"{name}.tools"


def mcp(**keys: Any) -> dict[str, Any]:
    return {"mcp": {"sums": {"command": [sys.executable, SERVER], **keys}}}


def offered(model: ScriptedModel) -> list[str]:
    return sorted(model.requests[0].tools)


async def test_a_toolset_class_of_the_workshop_gets_its_options_and_is_called(place: Place, package: str) -> None:
    main = scripted(call("search", words="decks"), "Done.")
    place.worker("main", main, toolsets={f"{package}.Notes": {"index": "decks", "pre_approved": True}})
    await place.run("main")
    assert offered(main) == ["erase", "fail", "search"]
    assert tool_results(main, "search") == ['{"index":"decks","words":"decks"}']


async def test_an_alias_of_the_workshop_stands_for_the_class(place: Place, package: str) -> None:
    place.workshop(toolset_aliases={"notes": f"{package}.Notes"})
    main = scripted(call("search", words="x"), "Done.")
    place.worker("main", main, toolsets={"notes": {"pre_approved": True, "prefix": None}})
    await place.run("main")
    assert tool_results(main, "search") == ['{"index":"none","words":"x"}']


async def test_a_call_asks_and_a_changed_call_runs_as_changed(place: Place, package: str) -> None:
    main = scripted(call("search", words="x"), "Done.")
    place.worker("main", main, toolsets={f"{package}.Notes": {}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert (asked.request.tool, asked.request.args) == ("search", {"words": "x"})
    await place.decide(run, "modify", args={"words": "y"})
    await place.client.result(run)
    assert '"words":"y"' in tool_results(main, "search")[0]


async def test_single_tools_can_be_blocked_or_approved_and_the_toolset_may_ask_itself(
    place: Place, package: str
) -> None:
    main = scripted([call("search", words="x"), call("fail", how="retry"), call("erase")], "Done.")
    tools = {"search": {"pre_approved": True}, "fail": {"blocked": True}}
    place.workshop(approvals={"rules": {"tool.call": "pre_approved"}})
    place.worker("main", main, toolsets={f"{package}.Notes": {"tools": tools}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert asked.request.tool == "erase"
    await place.decide(run, "reject", note="no")
    await place.client.result(run)
    assert tool_results(main, "fail") == ["'fail' is blocked: the worker's file does not allow it"]
    assert tool_results(main, "search") == ['{"index":"none","words":"x"}']


async def test_a_toolset_that_judges_its_calls_is_ruled_by_what_it_says(place: Place, package: str) -> None:
    place.workshop(approvals={"rules": {"net.read": "pre_approved", "net.write": "blocked", "tool.call": "blocked"}})
    searches = [call("search", words=words) for words in ("small", "large", "run", "any", "nothing")]
    main = scripted(searches, [call("count"), call("count")], "Done.")
    place.worker("main", main, toolsets={f"{package}.Judging": {"index": "net.read"}})
    await place.run("main", mode="strict")
    blocked = "'search' is blocked: the workshop does not allow"
    assert tool_results(main, "search") == [
        '{"index":"net.read","words":"small"}',
        f"{blocked} net.write",
        "Strict mode: search requires approval",
        # blocked unless the workshop says otherwise
        f"{blocked} proc.exec.unlisted",
        # it says nothing of this one
        f"{blocked} tool.call",
    ]
    # What it does with its configuration; and it is another toolset for each call.
    assert tool_results(main, "count") == ["1", "1"]


@pytest.mark.parametrize(
    ("words", "rules"), [("run", {"proc.exec": "needs_approval"}), ("any", {"proc.exec.unlisted": "needs_approval"})]
)
async def test_a_capability_of_the_shell_asks_for_any_toolset_that_names_it(
    place: Place, package: str, words: str, rules: dict[str, str]
) -> None:
    place.workshop(approvals={"rules": rules})
    main = scripted(call("search", words=words), "Done.")
    place.worker("main", main, toolsets={f"{package}.Judging": {}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert [use.name for use in asked.request.capabilities] == list(rules)
    await place.decide(run)
    await place.client.result(run)
    assert f'"words":"{words}"' in tool_results(main, "search")[0]


async def test_what_a_toolset_says_reaches_the_model_and_what_breaks_in_it_does_not(place: Place, package: str) -> None:
    main = scripted([call("fail", how="retry"), call("fail", how="break")], "Done.")
    place.worker("main", main, toolsets={f"{package}.Notes": {"pre_approved": True}})
    await place.run("main")
    said, broke = tool_results(main, "fail")
    assert "Ask for something else." in said
    assert "FileNotFoundError" in broke
    assert str(place.folder) not in broke


OWN = '''
import asyncio
from pathlib import Path

from pydantic import BaseModel, TypeAdapter
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.toolsets import FunctionToolset

SENT = Path(__file__).parent / "sent.txt"


class Page(BaseModel):
    items: object


class Mail(FunctionToolset):
    def __init__(self):
        super().__init__(id="mail")
        self.add_function(self.send)

    async def send(self, how: str) -> object:
        """Send a mail."""
        with SENT.open("a") as sent:
            sent.write("x")
        if how == "validate":
            TypeAdapter(int).validate_python("no number")
        if how == "type":
            raise TypeError("missing 1 required positional argument")
        if how == "time":
            raise TimeoutError
        if how == "cancel":
            raise asyncio.CancelledError
        if how == "leave":
            raise SystemExit("bye")
        if how == "endless":
            return Page(items=iter(lambda: {"line": how}, None))
        if how == "half":
            return {"half": "\\ud800", "number": float("inf"), "items": {1}, "bytes": b"x"}
        raise ApprovalRequired
'''


RAISES = [
    ("validate", "'send' raised ValidationError while it ran: it may have done a part of its work"),
    ("type", "'send' raised TypeError while it ran"),
    ("time", "'send' raised TimeoutError while it ran"),
    ("cancel", "'send' raised CancelledError while it ran"),
    ("leave", "'send' raised SystemExit while it ran"),
    ("endless", '[{\\"line\\":\\"endless\\"},'),
    ("approve", "'send' wants to be carried out elsewhere"),
    ("half", '{"half":"\ufffd","number":"Infinity","items":[1],"bytes":"[1 bytes, not shown]"}'),
]


async def test_what_a_tool_itself_raises_is_no_fault_of_its_arguments(place: Place) -> None:
    name = f"mail_{uuid4().hex}"
    place.write(f"{name}.py", OWN)
    main = scripted(*(call("send", how=how) for how, _ in RAISES), call("send", how=1), "Done.")
    place.worker("main", main, toolsets={f"{name}.Mail": {"pre_approved": True}})
    await place.run("main")
    *told, wrong = tool_results(main, "send")
    assert [words in text for (_, words), text in zip(RAISES, told, strict=True)] == [True] * len(RAISES)
    assert "arguments of send are not valid" in wrong
    assert (place.folder / "sent.txt").read_text() == "x" * len(RAISES)


async def test_a_toolset_that_cannot_be_loaded_leaves_the_others(place: Place, package: str) -> None:
    main = scripted("Done.")
    place.worker("main", main, toolsets={"nowhere.tools.Search": {}, f"{package}.Notes": {}, "filesystem": {}})
    run = await place.start("main")
    await place.client.result(run)
    assert "search" in offered(main)
    assert "read_file" in offered(main)
    assert b"there is no module 'nowhere'" in b"".join(
        event.SerializeToString() for history in await place.histories() for event in history.events
    )


LEAVING = """
import asyncio

from pydantic_ai.toolsets import FunctionToolset


class Leaving(FunctionToolset):
    def __init__(self, at: str, kind: str) -> None:
        self.at, self.kind = at, kind
        self._leave("init")
        super().__init__()
        self.add_function(self.search)

    def _leave(self, place: str) -> None:
        if place == self.at:
            raise asyncio.CancelledError if self.kind == "cancel" else eval(self.kind)

    async def for_run(self, ctx: object) -> "Leaving":
        self._leave("for_run")
        return self

    async def __aenter__(self) -> "Leaving":
        self._leave("enter")
        return await super().__aenter__()

    async def get_tools(self, ctx: object) -> dict:
        self._leave("list")
        return await super().get_tools(ctx)

    async def search(self) -> str:
        \"\"\"Search.\"\"\"
        return "found"
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "cancel"])
@pytest.mark.parametrize("at", ["init", "for_run", "enter", "list"])
async def test_a_toolset_that_wants_to_leave_the_program_is_left_out_by_itself(
    place: Place, at: str, kind: str
) -> None:
    name = f"leaving_{uuid4().hex}"
    place.write(f"{name}.py", LEAVING)
    main = scripted("Done.")
    toolsets = {f"{name}.Leaving": {"at": at, "kind": kind}, "filesystem": {}}
    place.worker("main", main, toolsets=toolsets)
    assert (await place.run("main")).output == "Done."
    assert "read_file" in offered(main)
    assert "search" not in offered(main)
    assert b"Leaving' failed: " + (b"CancelledError" if kind == "cancel" else kind.encode()) in b"".join(
        event.SerializeToString() for history in await place.histories() for event in history.events
    )


NESTING = """
import asyncio
from pathlib import Path

from pydantic_ai.toolsets import FunctionToolset

LEFT = set()


def run(main, *, debug=False):
    # As nest_asyncio has it.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(loop.create_task(main))


asyncio.run = run


class Nesting(FunctionToolset):
    def __init__(self) -> None:
        super().__init__()
        self.add_function(self.leave)

    async def leave(self) -> str:
        \"\"\"Leave something behind.\"\"\"
        begun = asyncio.Event()
        LEFT.add(asyncio.create_task(self._work(begun)))
        await begun.wait()
        return "left"

    async def _work(self, begun: asyncio.Event) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            Path(__file__).with_name("ended.txt").touch()
"""


async def test_a_toolset_that_replaces_functions_of_asyncio_leaves_no_loop_to_later_calls(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "run", asyncio.run)
    name = f"nesting_{uuid4().hex}"
    place.write(f"{name}.py", NESTING)
    main = scripted(call("leave"), "Done.")
    place.worker("main", main, toolsets={f"{name}.Nesting": {"pre_approved": True}})
    await place.run("main")
    assert tool_results(main, "leave") == ["left"]
    assert (place.folder / "ended.txt").exists()


async def test_tools_with_one_name_are_an_error_that_names_both(place: Place, package: str) -> None:
    place.worker("main", scripted(), toolsets={f"{package}.Notes": {}, f"{package}.Judging": {}})
    with pytest.raises(
        DefinitionError, match=rf"two tools are called '\w+': one of '{package}.Judging', one of '{package}.Notes'"
    ):
        await place.run("main")


async def test_a_prefix_keeps_two_toolsets_apart(place: Place, package: str) -> None:
    main = scripted(call("my_search", words="x"), "Done.")
    place.worker("main", main, toolsets={f"{package}.Notes": {"prefix": "my_"}, f"{package}.Judging": {}})
    await place.run("main", mode=APPROVE_ALL)
    assert tool_results(main, "my_search") == ['{"index":"none","words":"x"}']


async def test_an_mcp_server_is_started_asked_about_and_called_once(place: Place) -> None:
    log = place.folder / "calls.log"
    main = scripted(call("add", first=2, second=3), "Done.")
    place.worker("main", main, toolsets={"mcp": {"sums": {"command": [sys.executable, SERVER, "--log", str(log)]}}})
    run = await place.start("main")
    await place.pending(run)
    assert not log.exists()
    await place.decide(run)
    await place.client.result(run)
    assert "5" in tool_results(main, "add")[0]
    assert log.read_text() == "add 2 3\n"


@pytest.mark.thorough
async def test_an_mcp_server_gets_the_variables_that_are_named_and_no_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_DO_TEST_GIVEN", "given")
    monkeypatch.setenv("LLM_DO_TEST_KEPT", "kept")
    main = scripted([call("variable", name="LLM_DO_TEST_GIVEN"), call("variable", name="LLM_DO_TEST_KEPT")], "Done.")
    place.worker("main", main, toolsets=mcp(env=["LLM_DO_TEST_GIVEN"], pre_approved=True))
    await place.run("main")
    given, kept = tool_results(main, "variable")
    assert "given" in given
    assert "not set" in kept


@pytest.mark.thorough
async def test_what_an_mcp_tool_refuses_is_told_and_the_run_goes_on(place: Place) -> None:
    main = scripted(call("refuse", why="not today"), "Done.")
    place.worker("main", main, toolsets=mcp(pre_approved=True))
    assert (await place.run("main")).output == "Done."
    assert "refuse" in tool_results(main, "refuse")[0]
