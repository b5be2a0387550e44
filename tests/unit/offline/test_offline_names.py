"""The names of the offline models, and the two smallest of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline import OFFLINE_NAMES, offline_model
from llm_do_temporal.offline.bootstrapper import TRADES
from llm_do_temporal.offline.decks.delegation_choice import find_delegate
from tests.support.providers.offline_answers import TEXT, Talk, tool, wanting
from tests.support.workshops.drawn_decks import PIPELINE

WORKSHOP = PIPELINE.parents[1]


def test_every_name_has_a_model_that_says_it_is_a_script() -> None:
    for name in OFFLINE_NAMES:
        model = offline_model(name)
        assert (model.system, model.model_name) == ("offline", f"{name}-script")
        assert model.profile.get("supports_document_input")


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ModelFailed, match="no offline model 'offline:gpt'") as failure:
        offline_model("gpt")
    assert all(f"offline:{name}" in str(failure.value) for name in OFFLINE_NAMES)


async def test_echo_answers_with_the_prompt() -> None:
    assert await Talk(offline_model("echo"), ModelRequestParameters(), "one two").text() == "one two"


async def test_echo_puts_the_prompt_into_a_structured_answer() -> None:
    schema = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
    (answer,) = await Talk(offline_model("echo"), wanting(schema), "one two").calls()
    assert answer.args_as_dict() == {"reply": "one two"}


@pytest.mark.parametrize("name", ["greeter", "pitch-decks"])
async def test_the_greeter_is_friendly_and_honest(name: str) -> None:
    text = await Talk(offline_model(name), ModelRequestParameters(), "hi from Ada").text()
    assert 'You said: "hi from Ada".' in text
    assert "not from a language model" in text


def test_each_example_has_a_model_of_its_own() -> None:
    examples = {path.stem.replace("_", "-") for path in WORKSHOP.glob("*.worker")}
    # Which decks there are is known to its Python; the script is the same.
    assert examples - {"pitch-orchestrator-listed"} <= set(OFFLINE_NAMES)


@pytest.mark.parametrize("instructions", ["Be brief.", "You keep notes of sums.", ""])
async def test_a_part_is_played_by_the_name_of_the_model(instructions: str) -> None:
    wanted = ModelRequestParameters(
        function_tools=[tool(name, a=TEXT, b=TEXT) for name in ("add", "multiply", "divide")],
        instruction_parts=[InstructionPart(content=instructions)],
    )
    (call,) = await Talk(offline_model("calculator"), wanted, "2 + 3").calls()
    assert (call.tool_name, call.args_as_dict()) == ("add", {"a": 2, "b": 3})


async def test_workers_that_a_part_makes_or_calls_play_their_own(evaluation_schema: dict[str, Any]) -> None:
    (answer,) = await Talk(offline_model("pitch-orchestrator-coded"), wanting(evaluation_schema), "evaluate").calls()
    assert "verdict" in answer.args_as_dict()
    trade = TRADES[0]
    made = ModelRequestParameters(instruction_parts=[InstructionPart(content=trade.instructions)])
    text = await Talk(offline_model("bootstrapper"), made, "passports, tickets and a torch").text()
    assert text == await Talk(offline_model("examples"), made, "passports, tickets and a torch").text()


def test_decks_go_to_a_worker_that_the_instructions_name() -> None:
    call = tool("llm_worker_call", worker_name=TEXT, attachments={"type": "array"})
    for name in ("deck_reader", "pitch-critic", "score_keeper", "my_evaluator"):
        found = find_delegate({call.name: call}, f"Have every deck read by `{name}` and write the results to /out.")
        assert found is not None
        assert found.worker == name
    found = find_delegate({call.name: call}, "Have every deck read.")
    assert found is not None
    assert found.worker == "pitch_evaluator"
