"""Functions of `tools.py`: plain ones, in activities."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from llm_do_temporal.testing import ScriptedModel, call, scripted
from llm_do_temporal.workflows.tools import python
from tests.support.runs.delegation import tool_results
from tests.support.runs.place import Place

TOOLS = '''\
import asyncio
import os
import sys
import time
import warnings
from pathlib import Path

from pydantic import BaseModel, Field, field_validator
from llm_do_temporal.tools import IdempotencyKey, idempotent
from temporalio.exceptions import ApplicationError, CancelledError

COUNT = Path(__file__).parent / "count.txt"


class Item(BaseModel):
    name: str
    amount: int = Field(default=1, ge=1)


class Order(BaseModel):
    items: list[Item]


def slugify(text: str, separator: str = "-") -> str:
    """Make a slug."""
    return separator.join(text.lower().split())


async def shout(text: str) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"loud": text.upper()}


def total(order: Order) -> Order:
    return Order(items=[*order.items, Item(name="sum", amount=sum(item.amount for item in order.items))])


def even(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd, says {Path(__file__)}")
    return number


def missing() -> str:
    return Path("/home/somebody/secret.txt").read_text()


def leave() -> None:
    raise SystemExit("bye")


def huge() -> str:
    return "x" * 8_000_001


def odd_result() -> object:
    return object()


async def cancel() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


def cancel_as_temporal() -> None:
    raise CancelledError("mine")


def interrupt() -> None:
    raise KeyboardInterrupt


async def leave_generator() -> None:
    raise GeneratorExit


def leave_group() -> None:
    raise BaseExceptionGroup("all", [SystemExit("two")])


def fail_as_temporal() -> None:
    raise ApplicationError("mine", type="T", non_retryable=False)


def split() -> dict[str, object]:
    return {"half": "\\ud800", "whole": "\\ud83d\\ude00", "name": os.fsdecode(b"a\\xff.txt"), "number": float("nan")}


def endless() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def forked() -> str:
    if os.fork() == 0:
        return "a copy of the service goes on"
    os.wait()
    return "the parent"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise SystemExit(str(Path(__file__).parent))


class OddText(str):
    def strip(self) -> str:
        raise KeyboardInterrupt


class OddWords(Exception):
    def __str__(self) -> str:
        return OddText("odd words")


class Strict(BaseModel):
    how: str

    @field_validator("how")
    @classmethod
    def judge(cls, how: str) -> str:
        if how == "value":
            raise ValueError("not so")
        raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "key": KeyError}[how](how)


def judged(strict: Strict) -> str:
    return "Never."


def unreadable() -> None:
    raise Unreadable


def odd_words() -> None:
    raise OddWords


def group() -> None:
    raise ExceptionGroup("all", [ValueError("one"), ExceptionGroup("more", [TypeError("two"), Unreadable()])])


def misnamed() -> None:
    raise type("A\x1b[31m" * 100, (Exception,), {})("three")


def careless() -> str:
    sys.setrecursionlimit(120)
    sys.stdout.close()
    sys.stderr.close()
    warnings.simplefilter("error")
    os.umask(0o777)
    os.chdir("/")
    return "The process is changed."


def careful() -> str:
    warnings.warn("Something is old.", DeprecationWarning)
    return os.getcwd()


def _counted() -> int:
    with COUNT.open("a") as file:
        file.write("x")
    return len(COUNT.read_text())


@idempotent
def steady(text: str) -> str:
    if _counted() == 1:
        raise ConnectionError("gone")
    return "there"


def once(text: str) -> str:
    _counted()
    raise ConnectionError("gone")


def stuck() -> str:
    """Take its time."""
    here = Path(__file__).parent
    (here / "began").touch()
    while not (here / "stop").exists():
        time.sleep(0.01)
    return "It took its time."


def key_of(text: str, key: IdempotencyKey) -> str:
    return key
'''
FREE = {"pre_approved": True}


def main(place: Place, *turns: object, **functions: object) -> ScriptedModel:
    """Write a worker with these Python tools, and the model that plays it."""
    model = scripted(*turns)  # pyright: ignore[reportArgumentType]
    place.write("tools.py", TOOLS)
    place.worker("main", model, toolsets={"custom": functions})
    return model


async def test_a_plain_function_is_called_with_its_defaults(place: Place) -> None:
    model = main(
        place, [call("slugify", text="Big Red Fox"), call("shout", text="hey")], "Done.", slugify=FREE, shout=FREE
    )
    await place.run("main")
    assert tool_results(model, "slugify") == ["big-red-fox"]
    assert tool_results(model, "shout") == ['{"loud":"HEY"}']
    offered = model.requests[0].tools["slugify"]
    assert offered.description == "Make a slug."
    assert offered.parameters_json_schema["required"] == ["text"]


async def test_arguments_arrive_as_the_types_of_the_signature(place: Place) -> None:
    order = {"items": [{"name": "tea", "amount": 2}, {"name": "milk"}]}
    model = main(place, call("total", order=order), "Done.", total=FREE)
    await place.run("main")
    assert '{"name":"sum","amount":3}' in tool_results(model, "total")[0]


async def test_arguments_that_do_not_fit_are_explained_to_the_model(place: Place) -> None:
    wrong = {"items": [{"name": "tea", "amount": 0}]}
    model = main(place, call("total", order=wrong), call("total", order={"items": []}), "Done.", total=FREE)
    await place.run("main")
    first, second = tool_results(model, "total")
    assert "order.items.0.amount: 0 is less than the minimum of 1" in first
    assert '{"name":"sum","amount":0}' not in second  # the default of `amount` is judged like any value
    assert "raised ValidationError" in second


GOES_WRONG: list[tuple[str, dict[str, object], str]] = [
    ("even", {"number": 3}, "'even' raised ValueError: 3 is odd, says tools.py"),  # no folder of the host
    ("missing", {}, "'missing' raised FileNotFoundError: [Errno 2] No such file or directory: 'secret.txt'"),
    ("leave", {}, "'leave' raised SystemExit: bye"),  # the service goes on
    ("huge", {}, '"truncated":true,"total_bytes":8000001}'),
    ("odd_result", {}, "[object: JSON has no form for it]"),
    ("cancel", {}, "'cancel' raised CancelledError"),
    ("cancel_as_temporal", {}, "'cancel_as_temporal' raised CancelledError: mine"),
    ("interrupt", {}, "'interrupt' raised KeyboardInterrupt"),
    ("leave_generator", {}, "'leave_generator' raised GeneratorExit"),
    ("leave_group", {}, "'leave_group' raised SystemExit: two"),
    (
        "judged",
        {"strict": {"how": "value"}},
        "the arguments of 'judged' are not valid: strict.how: Value error, not so",
    ),
    ("judged", {"strict": {"how": "key"}}, "'judged' raised KeyError: 'key'"),
    ("judged", {"strict": {"how": "exit"}}, "'judged' raised SystemExit: exit"),
    ("judged", {"strict": {"how": "interrupt"}}, "'judged' raised KeyboardInterrupt: interrupt"),
    ("unreadable", {}, "'unreadable' raised Unreadable: its message cannot be read: SystemExit"),
    ("odd_words", {}, "'odd_words' raised OddWords: odd words"),
    ("group", {}, "'group' raised ValueError: one; TypeError: two; Unreadable: its message cannot be read"),
    ("misnamed", {}, "'misnamed' raised A_31mA_31m"),
    ("fail_as_temporal", {}, "'fail_as_temporal' raised ApplicationError: T: mine"),
    ("split", {}, '{"half":"\ufffd","whole":"\U0001f600","name":"a\ufffd.txt","number":"NaN"}'),
    ("endless", {}, '["[refers to itself]"]'),
    ("forked", {}, "the parent"),
]


async def test_what_goes_wrong_in_a_function_is_a_result_for_the_model(place: Place) -> None:
    calls = [call(tool, **args) for tool, args, _ in GOES_WRONG]
    model = main(place, *calls, "I see.", **{tool: FREE for tool, _, _ in GOES_WRONG})
    assert (await place.run("main")).output == "I see."
    told = {tool: iter(tool_results(model, tool)) for tool, _, _ in GOES_WRONG}
    for tool, _, words in GOES_WRONG:
        text = next(told[tool])
        assert words in text
        assert str(place.folder) not in text


async def test_what_a_function_does_to_the_process_harms_no_later_call(place: Place) -> None:
    file = {"path": "/files/a.txt", "content": "Hello."}
    model = main(place, call("careless"), call("careful"), call("write_file", **file), "Done.")
    place.worker("main", model, toolsets={"custom": {"careless": FREE, "careful": FREE}, "filesystem": {}})
    before = Path.cwd()
    assert (await place.run("main", mode="approve_all")).output == "Done."
    assert tool_results(model, "careless") == ["The process is changed."]
    assert tool_results(model, "careful") == [str(before)]
    assert (place.folder / "files/a.txt").stat().st_mode & 0o400
    print("The standard output is open.")


async def test_an_idempotent_function_is_tried_again_when_a_connection_breaks(place: Place) -> None:
    model = main(place, call("steady", text="a"), "Done.", steady=FREE)
    await place.run("main")
    assert tool_results(model, "steady") == ["there"]
    assert (place.folder / "count.txt").read_text() == "xx"


async def test_any_other_function_is_attempted_once(place: Place) -> None:
    model = main(place, call("once", text="a"), "Done.", once=FREE)
    await place.run("main")
    assert tool_results(model, "once") == ["'once' raised ConnectionError: gone"]
    assert (place.folder / "count.txt").read_text() == "x"


@pytest.mark.thorough
async def test_a_function_that_takes_too_long_is_given_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "CALL_TIMEOUT", timedelta(seconds=3))
    model = main(place, call("stuck"), "Done.", stuck=FREE)
    run = await place.start("main")
    (question,) = await place.pending(run)
    assert "may have happened" in question.request.summary
    assert "the time was up while this ran" in question.request.reason
    assert (place.folder / "began").exists()
    place.write("stop", "")
    await place.decide(run, "reject", by="ada")
    await place.client.result(run)
    assert "is unknown: the time was up while it ran" in tool_results(model, "stuck")[0]


async def test_the_key_of_a_call_is_filled_in_and_its_own(place: Place) -> None:
    calls = [call("key_of", text="a"), call("key_of", text="a"), call("key_of", text="b")]
    model = main(place, calls, "Done.", key_of=FREE)
    await place.run("main")
    keys = tool_results(model, "key_of")
    assert len(set(keys)) == 3
    assert all(len(key) == 64 for key in keys)
    assert set(model.requests[0].tools["key_of"].parameters_json_schema["properties"]) == {"text"}


async def test_a_call_asks_unless_a_rule_says_otherwise(place: Place) -> None:
    model = main(place, call("slugify", text="A B"), "Done.", slugify={})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    assert (asked.request.tool, asked.request.args) == ("slugify", {"text": "A B"})
    await place.decide(run, "modify", args={"text": "C D"}, by="ada")
    await place.client.result(run)
    assert tool_results(model, "slugify")[0].startswith("c-d\nada changed this call")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rules", "own", "mode", "result"),
    [
        ({}, {"pre_approved": True}, "strict", "a"),
        ({}, {}, "strict", "Strict mode: slugify requires approval"),
        ({"python.call": "pre_approved"}, {}, "strict", "a"),
        # the tool's own word counts for more than the rules, in either direction
        ({"python.call": "pre_approved"}, {"needs_approval": True}, "strict", "Strict mode: slugify requires approval"),
        # nothing unblocks
        ({}, {"blocked": True}, "approve_all", "'slugify' is blocked: the worker's file does not allow it"),
        (
            {"python.call": "blocked"},
            {"pre_approved": True},
            "approve_all",
            "'slugify' is blocked: the workshop does not allow python.call",
        ),
        # capabilities of the author's own
        ({"net": "pre_approved"}, {"capabilities": ["net.send"]}, "strict", "a"),
        (
            {"net.send": "blocked", "python.call": "pre_approved"},
            {"capabilities": ["python.call", "net.send"]},
            "approve_all",
            "'slugify' is blocked: the workshop does not allow net.send",
        ),
    ],
)
async def test_the_tools_own_ruling_and_the_rules(
    place: Place, rules: dict[str, str], own: dict[str, object], mode: str, result: str
) -> None:
    place.workshop(approvals={"rules": rules})
    model = main(place, call("slugify", text="A"), "Done.", slugify=own)
    await place.run("main", mode=mode)
    assert tool_results(model, "slugify") == [result]


async def test_what_is_switched_off_is_not_offered(place: Place) -> None:
    place.write("tools.py", TOOLS)
    model = scripted("Nothing to do.")
    place.worker("sage", scripted())
    toolsets = {
        "filesystem": {"enabled": False},
        "delegation": {"sage": {"enabled": False}, "allow_workers": ["sage"]},
        "custom": {"slugify": {"enabled": False}, "shout": {}},
    }
    place.worker("main", model, toolsets=toolsets)
    await place.run("main")
    assert set(model.requests[0].tools) == {"worker_call", "shout"}
    none = scripted("Nothing either.")
    off: dict[str, object] = {"delegation": {"enabled": False, "sage": {}}, "custom": {"enabled": False, "shout": {}}}
    place.worker("none", none, toolsets=off)
    await place.run("none")
    assert set(none.requests[0].tools) == set()


async def test_a_file_that_changed_while_a_person_was_asked_is_not_run(place: Place) -> None:
    model = main(place, call("slugify", text="A"), "Done.", slugify={})
    run = await place.start("main")
    await place.pending(run)
    place.write("tools.py", TOOLS.replace("text.lower()", "text.upper()"))
    await place.decide(run)
    await place.client.result(run)
    assert (
        "'slugify' cannot be called: 'tools.py' has changed since this worker was loaded"
        in tool_results(model, "slugify")[0]
    )


async def test_a_remembered_approval_holds_for_the_same_code_only(place: Place) -> None:
    place.write("workers/one/tools.py", "def act(x: int) -> str:\n    return 'one'\n")
    place.write("workers/two/tools.py", "def act(x: int) -> str:\n    return 'two'\n")
    place.workshop(approvals={"rules": {"worker.call": "pre_approved"}})
    for name in ("one", "two"):
        place.worker(name, scripted(call("act", x=1), call("act", x=1), "Acted."), toolsets={"custom": {"act": {}}})
    turns = (call("one", input="go"), call("two", input="go"), "Done.")
    place.worker("main", scripted(*turns), toolsets={"delegation": {"one": {}, "two": {}}})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, id="a1", remember="session")
    await place.pending_is(run, "a3")
    await place.decide(run, id="a3", remember="session")
    assert (await place.client.result(run)).output == "Done."
