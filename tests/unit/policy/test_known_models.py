"""Names of models that are misspelt are noticed before a run exists."""

from __future__ import annotations

import re
from inspect import getsource

import pytest
from pydantic_ai.providers import infer_provider_class

from llm_do_temporal.errors import UsageError
from llm_do_temporal.offline.plain import PLAIN
from llm_do_temporal.policy.models.ids import play_of
from llm_do_temporal.policy.models.known import OFFLINE_MODELS, PROVIDERS, ModelDoubt, check_models, model_doubt


def test_the_providers_are_those_of_pydantic_ai() -> None:
    cases = re.findall(r"^\s*case (.+):$", getsource(infer_provider_class), re.MULTILINE)
    assert {name for case in cases for name in re.findall(r"'([\w-]+)'", case)} == PROVIDERS


def test_the_offline_models_are_those_there_are() -> None:
    assert tuple(PLAIN) == OFFLINE_MODELS


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
        # a play is a function of a Python file
        ("offline:plays.py", "Write it like 'offline:plays.py:pitch'.", True),
        ("offline:plays:pitch", "Write it like 'offline:plays.py:pitch'.", True),
        ("offline:plays.py:", "Write it like 'offline:plays.py:pitch'.", True),
    ],
)
def test_a_name_that_is_not_known_is_doubted_with_a_hint(model: str, hint: str, certain: bool) -> None:
    doubt = model_doubt(model)
    assert doubt is not None
    assert (doubt.hint.startswith(hint), doubt.certain) == (True, certain)


@pytest.mark.parametrize(
    "model", ["anthropic:x", "gateway/openai:gpt-5", "offline:echo", "offline:a/plays.py:pitch", "test:anything"]
)
def test_models_that_may_exist_are_not_doubted(model: str) -> None:
    doubt: ModelDoubt | None = model_doubt(model)
    assert doubt is None


@pytest.mark.parametrize(
    ("model", "play"),
    [
        ("offline:a/plays.py:pitch", ("a/plays.py", "pitch")),
        ("offline:notes", None),
        ("anthropic:plays.py:pitch", None),
    ],
)
def test_a_play_is_a_file_and_a_function(model: str, play: tuple[str, str] | None) -> None:
    assert play_of(model) == play


ALIASES = {"fast": "openai:gpt-5", "wrong": "opnai:gpt-5", "several": "fast, test:a"}


@pytest.mark.parametrize("named", [[None], ["fast"], ["several", "fast"], ["test:a,fast"], ["gateway/openai:gpt-5"]])
def test_models_of_a_start_that_are_known_are_not_doubted(named: list[str | None]) -> None:
    assert check_models(ALIASES, named) == []


@pytest.mark.parametrize("named", [["opnai:gpt-5"], ["fast,opnai:gpt-5"], [None, "wrong"], ["quux:m", "offline:nots"]])
def test_a_start_with_a_name_that_is_surely_misspelt_is_refused(named: list[str | None]) -> None:
    with pytest.raises(UsageError) as refused:
        check_models(ALIASES, named)
    assert (refused.value.next_step or "").startswith("Did you mean 'o")


def test_what_only_the_worker_service_may_know_is_a_warning() -> None:
    (provider, alias) = check_models(ALIASES, ["quux:m", "slow", "quux:m"])
    assert provider.startswith("no provider 'quux' is known, of the model 'quux:m': a run may fail for that. Known are")
    assert alias.startswith("the workshop has no alias 'slow': a run may fail for that. A model is an alias, or")
    assert check_models(None, ["slow"]) == []
