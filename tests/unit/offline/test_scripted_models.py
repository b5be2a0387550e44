"""The scripted models that users write for their own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.messages import ModelMessage

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline import offline_model
from llm_do_temporal.offline.script_model import SCRIPTS
from llm_do_temporal.testing import ScriptedModel, call, fails, register_model, scripted


class Mark(BaseModel):
    grade: int


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(SCRIPTS)
    yield
    SCRIPTS.clear()
    SCRIPTS.update(before)


def adding(model: ScriptedModel) -> Agent[None, str]:
    agent = Agent(model)

    @agent.tool_plain
    def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return a + b

    return agent


async def test_turns_are_played_in_order_and_requests_are_kept() -> None:
    model = scripted(call("add", a=1, b=2), ["and once more", call("add", a=3, b=4), call("add", a=5, b=6)], "done")
    result = await adding(model).run("add things")
    assert result.output == "done"
    assert [request.turn for request in model.requests] == [0, 1, 2]
    assert model.requests[0].prompt == "add things"
    assert list(model.requests[0].tools) == ["add"]
    assert [(found.args["a"], found.data, found.ok) for found in model.requests[2].results("add")] == [
        (1, 3, True),
        (3, 7, True),
        (5, 11, True),
    ]


async def test_one_script_serves_many_conversations() -> None:
    agent = adding(scripted(call("add", a=1, b=1), "done"))
    assert [(await agent.run("go")).output for _ in range(3)] == ["done"] * 3


async def test_a_mapping_is_the_structured_output() -> None:
    result = await Agent(scripted({"grade": 4}), output_type=Mark).run("grade it")
    assert result.output == Mark(grade=4)


async def test_a_mapping_is_json_where_the_output_is_native() -> None:
    result = await Agent(scripted({"grade": 4}), output_type=NativeOutput(Mark)).run("grade it")
    assert result.output == Mark(grade=4)


async def test_a_turn_may_follow_from_the_messages() -> None:
    async def count(messages: list[ModelMessage]) -> str:
        return f"{len(messages)} messages"

    assert (await adding(scripted(call("add", a=1, b=2), count)).run("go")).output == "3 messages"


async def test_an_exception_is_raised_every_time() -> None:
    agent = Agent(scripted(ConnectionError("line is down")))
    for _ in range(2):
        with pytest.raises(ConnectionError, match="line is down"):
            await agent.run("go")


async def test_a_failing_turn_recovers_after_the_attempts_it_says() -> None:
    agent = Agent(scripted(fails(ConnectionError("line is down"), times=2, then="hello")))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await agent.run("go")
    assert (await agent.run("go")).output == "hello"


async def test_a_script_that_is_too_short_says_so() -> None:
    with pytest.raises(AssertionError, match="the script has 1 turns, and was asked for turn 2"):
        await adding(scripted(call("add", a=1, b=2))).run("go")


@pytest.mark.usefixtures("registry")
def test_a_registered_model_is_served_by_its_name() -> None:
    model = scripted("hi")
    assert register_model("greeting", model) == "test:greeting"
    assert offline_model("test:greeting") is model


@pytest.mark.usefixtures("registry")
def test_an_unregistered_name_is_refused_with_those_that_are_registered() -> None:
    register_model("greeting", scripted("hi"))
    with pytest.raises(ModelFailed, match=r"no test model 'other'.*test:greeting"):
        offline_model("test:other")
