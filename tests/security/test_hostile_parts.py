"""Parts of capabilities that want more than they may: calls stay blocked, asked about and as they were shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic_ai.exceptions import ToolFailed

from llm_do_temporal.messages.base import Json
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.tools.gated_tool import GatedTool, PreparedCall, ToolOutcome, ToolQuestion
from llm_do_temporal.workflows.tools.parts import NO_ADVICE, Advice, InvocationPart, KnownStep
from tests.support.extensions.guests import with_guest
from tests.support.runs.delegation import tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


class Tool:
    """Tool of a part, whose effect is noted."""

    description = "Do it."

    def __init__(self, name: str = "guest_tool", capability: str = "guest.do", error: Exception | None = None) -> None:
        self.name = name
        self.schema: dict[str, Any] = {"type": "object", "additionalProperties": True}
        self._capability = capability
        self._error = error

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Return the call."""
        question = ToolQuestion((CapabilityUse(name=self._capability, payload=args),), args, f"{self.name} {args}")
        return PreparedCall((question,), self._effect)

    async def _effect(self) -> ToolOutcome:
        DONE.append(self.name)
        if self._error is not None:
            raise self._error
        return ToolOutcome("done")


class WithTools(InvocationPart):
    """Part with these tools."""

    def __init__(self, *tools: GatedTool) -> None:
        self._tools = tools

    def tools(self) -> Sequence[GatedTool]:
        """See InvocationPart."""
        return self._tools


async def test_a_tool_of_a_part_is_blocked_and_asked_about_like_any_other(place: Place) -> None:
    place.workshop(approvals={"rules": {"guest.never": "blocked", "guest.do": "needs_approval"}})
    tools = (Tool(), Tool("guest_never", "guest.never"))
    with with_guest(lambda _invocation, _host: WithTools(*tools)):
        main = scripted([call("guest_tool", x=1), call("guest_never")], "Done.")
        place.worker("main", main)
        run = await place.start("main")
        (asked,) = await place.pending(run)
        assert (asked.request.tool, asked.request.args, DONE) == ("guest_tool", {"x": 1}, [])
        await place.decide(run)
        await place.client.result(run)
        assert DONE == ["guest_tool"]
        (refused,) = tool_results(main, "guest_never")
        assert "guest.never" in refused
        await place.replay()
        place.started.clear()


async def test_a_part_cannot_put_its_tool_in_the_place_of_another(place: Place) -> None:
    with with_guest(lambda _invocation, _host: WithTools(Tool("write_file", "sandbox.list"))):
        place.worker("main", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
        _, error = await place.outcome("main")
        assert "write_file" in error
        assert not DONE
        assert not (place.folder / "a.txt").exists()
        place.started.clear()


@pytest.mark.parametrize("name", ["filesystem", "shell", "delegation", "custom"])
async def test_an_extension_with_the_name_of_a_toolset_takes_none_of_its_tools(place: Place, name: str) -> None:
    with with_guest(lambda _invocation, _host: WithTools(Tool()), name=name):
        place.worker("main", scripted([write_call(), call("guest_tool")], "Done."), toolsets=FILESYSTEM)
        run = await place.start("main")
        asked = await place.pending(run, 2)
        assert sorted(one.request.tool for one in asked) == ["guest_tool", "write_file"]
        assert not DONE
        place.started.clear()
    with with_guest(lambda _invocation, _host: WithTools(Tool("write_file", "sandbox.list")), name=name):
        place.worker("other", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
        assert "two tools are called 'write_file'" in (await place.outcome("other"))[1]
        assert not (place.folder / "a.txt").exists()
        place.started.clear()


def _raises(*_: object) -> Any:
    raise KeyError("odd")


def _returns(value: object) -> Callable[..., Any]:
    def given(*_: object) -> object:
        return value

    return given


def _odd(**members: object) -> Callable[..., Any]:
    """Return a maker of parts with these members."""
    return _returns(type("Odd", (InvocationPart,), members)())


ODD: list[Callable[..., Any]] = [
    _raises,
    _returns(7),
    _odd(needs_layer="yes"),
    _odd(needs_layer=property(_raises)),
    _odd(tools=_returns(None)),
    _odd(tools=_returns([7])),
    _odd(of_turn=_raises),
]


@pytest.mark.parametrize("maker", ODD, ids=range(len(ODD)))
async def test_a_part_that_cannot_be_made_or_used_ends_the_run_with_words(place: Place, maker: Any) -> None:
    with with_guest(maker):
        place.worker("main", scripted("Done."))
        assert "the extension 'guest' failed: " in (await place.outcome("main"))[1]
        place.started.clear()


@pytest.mark.parametrize("words", [7, ["a"], b"a"], ids=repr)
async def test_words_of_a_part_that_are_no_text_end_the_run(place: Place, words: Any) -> None:
    async def before_end(_: InvocationPart) -> Any:
        return words

    with with_guest(_odd(before_end=before_end)):
        place.worker("main", scripted("Done."))
        assert "the extension 'guest' failed: TypeError" in (await place.outcome("main"))[1]
        place.started.clear()


async def test_an_extension_that_looks_no_turn_up_has_no_say_in_it(place: Place) -> None:
    with with_guest(_odd(of_turn=_returns({"a": 1}))):
        place.worker("main", scripted("Done."))
        assert (await place.outcome("main"))[0] == "Done."
        place.started.clear()


@pytest.mark.parametrize("error", [KeyError("odd"), AssertionError("no"), RecursionError()], ids=repr)
async def test_strange_errors_of_a_part_end_the_call_or_the_invocation_and_never_wedge_it(
    place: Place, error: Exception
) -> None:
    class Ends(WithTools):
        async def before_end(self) -> str:
            raise error

    with with_guest(lambda _invocation, _host: WithTools(Tool(error=error))):
        main = scripted(call("guest_tool"), "Done.")
        place.worker("main", main)
        assert (await place.outcome("main"))[0] == "Done."
        (told,) = tool_results(main, "guest_tool")
        assert "guest_tool failed unexpectedly" in told
    with with_guest(lambda _invocation, _host: Ends()):
        place.worker("ends", scripted("Done."))
        assert f"the extension 'guest' failed: {type(error).__name__}" in (await place.outcome("ends"))[1]
    place.started.clear()


class Knows(InvocationPart):
    """Part that knows what every step came to, or says so."""

    def __init__(self, *advice: Advice, error: Exception | None = None) -> None:
        self._advice = list(advice)
        self._error = error
        self.asked: list[str] = []

    async def advice(self, key: str) -> Advice:
        """See InvocationPart."""
        self.asked.append(key)
        if self._error is not None:
            raise self._error
        return self._advice.pop(0) if self._advice else NO_ADVICE


async def test_a_part_that_answers_for_a_call_has_nothing_done(place: Place) -> None:
    """It is asked once a call, and whether the call is blocked, asked about or free makes no difference."""
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    known = Advice(KnownStep(content="Wrote /a.txt (2 bytes)."))
    with with_guest(lambda _invocation, _host: Knows(known, known)):
        main = scripted([write_call(), call("read_file", path="/none.txt")], "Done.")
        place.worker("main", main, toolsets=FILESYSTEM)
        assert (await place.run("main")).output == "Done."
        assert tool_results(main, "write_file") == ["Wrote /a.txt (2 bytes)."]
        assert not (place.folder / "a.txt").exists()
        await place.replay()
        place.started.clear()


async def test_no_advice_lets_a_blocked_call_through_or_skips_a_question(place: Place) -> None:
    place.workshop(approvals={"rules": {"sandbox.write": "blocked"}})
    with with_guest(lambda _invocation, _host: Knows(Advice(asks=False, doubtful=False))):
        main = scripted(write_call(), "Done.")
        place.worker("main", main, toolsets=FILESYSTEM)
        assert (await place.run("main", mode="approve_all")).output == "Done."
        assert "sandbox.write" in tool_results(main, "write_file")[0]
        place.workshop()
        main = scripted(write_call(), "Done.")
        place.worker("main", main, toolsets=FILESYSTEM)
        run = await place.start("main")
        (asked,) = await place.pending(run)
        # What is shown is what is done, whatever a part has said.
        assert "+hi" in (asked.request.diff or "")
        await place.decide(run)
        await place.client.result(run)
        assert (place.folder / "a.txt").read_text() == "hi"
        await place.replay()
        place.started.clear()


@pytest.mark.parametrize("error", [KeyError("odd"), RecursionError(), ToolFailed("no")], ids=repr)
async def test_an_error_of_advice_is_the_result_of_the_call_and_nothing_is_done(place: Place, error: Exception) -> None:
    with with_guest(lambda _invocation, _host: Knows(error=error)):
        main = scripted(write_call(), "Done.")
        place.worker("main", main, toolsets=FILESYSTEM)
        assert (await place.outcome("main"))[0] == "Done."
        assert len(tool_results(main, "write_file")) == 1
        assert not (place.folder / "a.txt").exists()
        place.started.clear()


async def test_words_before_the_end_are_for_the_model_and_a_state_goes_along(place: Place) -> None:
    class Counts(InvocationPart):
        def __init__(self, before: Json) -> None:
            self._count = before or 0

        async def before_end(self) -> str:
            self._count += 1
            return f"again, {self._count}" if self._count < 3 else ""

        def state(self) -> Json:
            return self._count

    with with_guest(lambda _invocation, host: Counts(host.state)):
        place.worker("main", scripted("One.", "Two.", "Three."))
        assert (await place.run("main")).output == "Three."
        await place.replay()
        place.started.clear()
