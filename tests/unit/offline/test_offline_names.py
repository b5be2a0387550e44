"""The names of the offline models, and the two smallest of them."""

from __future__ import annotations

import pytest
from pydantic_ai.models import ModelRequestParameters

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline import OFFLINE_NAMES, offline_model
from tests.support.providers.offline_answers import Talk, wanting


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
