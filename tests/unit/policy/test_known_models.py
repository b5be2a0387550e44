"""Names of models that are misspelt are noticed before a run exists."""

from __future__ import annotations

import re
from inspect import getsource

import pytest
from pydantic_ai.providers import infer_provider_class

from llm_do_temporal.offline import OFFLINE_NAMES
from llm_do_temporal.policy.models.known import OFFLINE_MODELS, PROVIDERS, ModelDoubt, doubt_about


def test_the_providers_are_those_of_pydantic_ai() -> None:
    cases = re.findall(r"^\s*case (.+):$", getsource(infer_provider_class), re.MULTILINE)
    assert {name for case in cases for name in re.findall(r"'([\w-]+)'", case)} == PROVIDERS


def test_the_offline_models_are_those_there_are() -> None:
    assert OFFLINE_MODELS == OFFLINE_NAMES


@pytest.mark.parametrize(
    ("model", "hint", "certain"),
    [
        ("antropic:claude-sonnet-5-5", "Did you mean 'anthropic:claude-sonnet-5-5'?", True),
        ("OpenAI:gpt-5", "Did you mean 'openai:gpt-5'?", True),
        ("ofline:notes", "Did you mean 'offline:notes'?", True),
        # perhaps of a newer Pydantic AI
        ("quux:model", "Known are anthropic, google, openai and the others of Pydantic AI", False),
        ("offline:note", "Did you mean 'offline:notes'?", True),
        ("offline:zzz", "There are offline:by-hand, offline:echo, ", True),
    ],
)
def test_a_name_that_is_not_known_is_doubted_with_a_hint(model: str, hint: str, certain: bool) -> None:
    doubt = doubt_about(model)
    assert doubt is not None
    assert (doubt.hint.startswith(hint), doubt.certain) == (True, certain)


@pytest.mark.parametrize("model", ["anthropic:x", "gateway/openai:gpt-5", "offline:echo", "test:anything"])
def test_models_that_may_exist_are_not_doubted(model: str) -> None:
    doubt: ModelDoubt | None = doubt_about(model)
    assert doubt is None
