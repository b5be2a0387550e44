"""Aliases with an address: what they are called, how they travel, and that no key travels with them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.policy.models.ids import (
    ModelAlias,
    check_no_secret,
    full_name,
    is_full_name,
    label,
    looks_like_key,
    merged_settings,
    read_serving_id,
    serving_id,
    stated_price,
)
from llm_do_temporal.policy.models.prices import NOTHING_TO_PAY, Price
from llm_do_temporal.policy.models.resolution import ModelSources, resolve_model

LOCAL = ModelAlias(model="openai-chat:llama3", base_url="http://127.0.0.1:11434/v1", api_key_env="OLLAMA_KEY")
ALIASES: dict[str, str | ModelAlias] = {
    "fast": "anthropic:haiku",
    "local": LOCAL,
    "cool": ModelAlias(model="anthropic:haiku", settings={"temperature": 0, "seed": 1}),
    "keyed": ModelAlias(model="openai:x", api_key_env="OTHER_KEY"),
    "cheap": ModelAlias.model_validate({"model": "openai:x", "price": {"input": 0.1, "output": "0.30"}}),
}


@pytest.mark.parametrize(
    ("model", "name", "shown"),
    [
        ("anthropic:haiku", "anthropic:haiku", "anthropic:haiku"),
        # an alias that says no more than the model is the model
        ("fast", "anthropic:haiku", "fast"),
        ("local", "openai-chat:llama3", "local (openai-chat:llama3)"),
    ],
)
def test_a_model_has_a_name_and_is_shown_with_its_alias(model: str, name: str, shown: str) -> None:
    assert full_name(ALIASES, model) == name
    assert label(ALIASES, model) == shown


@pytest.mark.parametrize(
    ("model", "shown", "stands_for"),
    [
        ("openai:x", "openai:x", ModelAlias(model="openai:x")),
        # settings and what is accepted stay in the workflow
        ("cool", "anthropic:haiku", ModelAlias(model="anthropic:haiku")),
        ("local", "local (openai-chat:llama3)", LOCAL),
        ("keyed", "keyed (openai:x)", ModelAlias(model="openai:x", api_key_env="OTHER_KEY")),
        # a price travels with the model, so that the run is charged as it was when it started
        ("cheap", "cheap (openai:x)", ALIASES["cheap"]),
    ],
)
def test_the_id_of_a_model_tells_an_activity_all_it_needs(model: str, shown: str, stands_for: ModelAlias) -> None:
    assert read_serving_id(serving_id(ALIASES, model)) == (shown, stands_for)


@pytest.mark.parametrize(
    ("model", "is_full"),
    [
        ("anthropic:claude-sonnet-5-5", True),
        ("fast", False),
        # several models have no single provider
        ("anthropic:a,openai:b", False),
        # the id of an aliased model is made, never written
        ('alias:{"alias":"fast"}', False),
    ],
)
def test_a_full_name_is_of_one_model_at_one_provider(model: str, is_full: bool) -> None:
    assert is_full_name(model) is is_full


def test_an_alias_is_resolved_to_itself_and_judged_by_its_model() -> None:
    sources = ModelSources(aliases=ALIASES)
    compatible = ("openai-chat:*",)
    given: dict[str, Any] = {"worker": "w", "caller_model": None, "compatible": compatible}
    assert resolve_model(sources, worker_model="local", **given) == "local"
    with pytest.raises(ModelRefusal, match="does not work with model 'anthropic:haiku'"):
        resolve_model(sources, worker_model="cool", **given)


def test_nobody_can_write_the_id_of_an_alias() -> None:
    with pytest.raises(ModelRefusal):
        resolve_model(
            ModelSources(),
            worker="w",
            worker_model=serving_id(ALIASES, "local"),
            caller_model=None,
            compatible=None,
        )


@pytest.mark.parametrize(
    ("force", "run", "worker", "caller", "expected"),
    [
        ("p:force", "p:run", "p:worker", None, "p:force"),
        # the run's model is for the entry worker, and before its own
        (None, "p:run", "p:worker", None, "p:run"),
        (None, "p:run", "p:worker", "p:caller", "p:worker"),
        # nothing is inherited
        (None, "p:run", None, "p:caller", "p:workshop"),
    ],
)
def test_isolated_workers_inherit_nothing(
    force: str | None, run: str, worker: str | None, caller: str | None, expected: str
) -> None:
    sources = ModelSources(
        force_model=force,
        run_model=run,
        workshop_model="p:workshop",
        environment_model="p:environment",
        isolated=True,
    )
    found = resolve_model(sources, worker="w", worker_model=worker, caller_model=caller, compatible=None)
    assert found == expected


def test_an_isolated_worker_whose_caller_alone_has_a_model_has_none() -> None:
    sources = ModelSources(run_model="p:run", isolated=True)
    with pytest.raises(ModelRefusal, match="no model for worker 'w'"):
        resolve_model(sources, worker="w", worker_model=None, caller_model="p:caller", compatible=None)


def test_settings_are_merged_key_by_key() -> None:
    merged = merged_settings(ALIASES, "cool", {"seed": 2, "top_p": 0.5}, {"top_p": 0.6})
    assert merged == {"temperature": 0, "seed": 2, "top_p": 0.6}
    assert merged_settings(ALIASES, "openai:x", {}, {}) == {}


@pytest.mark.parametrize(
    ("text", "is_key"),
    [
        ("sk-abc", True),
        ("Bearer abc", True),
        ("AIzaSyA", True),
        ("0123456789abcdef0123456789abcdef", True),
        # words and numbers are no keys
        ("a-long-name-of-words-without-any-digit", False),
        ("0123456789012345678901234567890123456789", False),
        ("high", False),
    ],
)
def test_what_looks_like_a_key(text: str, is_key: bool) -> None:
    assert looks_like_key(text) is is_key


def test_a_key_is_found_however_deep_and_never_repeated() -> None:
    check_no_secret({"a": [1, {"b": "plain"}]})
    with pytest.raises(ValueError, match="looks like a key") as found:
        check_no_secret({"a": [1, {"b": "sk-secret"}]})
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model": ""}, "at least 1 character"),
        ({"model": "openai:sk-abc"}, "looks like a key"),
        ({"base_url": "ftp://x"}, "it is an address like"),
        ({"base_url": "http://"}, "it is an address like"),
        ({"base_url": "http://x:0/v1"}, "it is an address like"),
        ({"base_url": "http://x:99999/v1"}, "Port out of range"),
        ({"base_url": "http://u:p@x/v1"}, "no user, password"),
        ({"base_url": "http://x/v1?key=1"}, "no user, password"),
        ({"base_url": "http://x/sk-abc/v1"}, "looks like a key"),
        ({"api_key_env": "lower"}, "name of an environment variable"),
        ({"api_key_env": "AKIA1234"}, "name of an environment variable"),
        ({"settings": {"extra_headers": {"x": "sk-abc"}}}, "looks like a key"),
        ({"accepts": ["sound"]}, "accepts"),
    ],
)
def test_an_alias_that_is_wrong_says_what_is(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ModelAlias.model_validate({"model": "openai:x", **keys})


def test_the_short_form_is_only_text() -> None:
    assert ModelAlias.model_validate("openai:x") == ModelAlias(model="openai:x")
    assert ModelAlias.model_validate("openai:x").is_plain
    assert ModelAlias.model_validate({"model": "openai:x", "accepts": ["text"]}).accepts == ("text",)
    assert ModelAlias(model="openai:x", base_url=None, api_key_env=None).is_plain
    with pytest.raises(ValidationError):
        ModelAlias.model_validate(5)


@pytest.mark.parametrize(("given", "model"), [(["p:a", "p:b"], "p:a,p:b"), (["p:a"], "p:a"), ("p:a,p:b", "p:a,p:b")])
def test_an_alias_may_stand_for_several_models(given: object, model: str) -> None:
    assert ModelAlias.model_validate(given).model == model


@pytest.mark.parametrize(
    ("alias", "price"),
    [
        ({"model": "openai:x"}, None),
        ({"model": "offline:evaluator"}, NOTHING_TO_PAY),
        ({"model": "openai:x", "price": "free"}, NOTHING_TO_PAY),
        ({"model": "openai:x", "price": {"input": 1, "output": 2}}, Price(input=Decimal(1), output=Decimal(2))),
        # the workshop knows better what its own server costs
        (
            {"model": "offline:evaluator", "price": {"input": 1, "output": 2}},
            Price(input=Decimal(1), output=Decimal(2)),
        ),
    ],
)
def test_the_price_that_needs_no_list_is_the_workshops(alias: dict[str, Any], price: Price | None) -> None:
    assert stated_price(ModelAlias.model_validate(alias)) == price


@pytest.mark.parametrize("given", [[], ["p:a", ""], ["p:a,p:b"], {"model": "p:a,p:b", "settings": {"seed": 1}}])
def test_an_alias_for_several_models_names_them_and_nothing_else(given: object) -> None:
    with pytest.raises(ValidationError, match=r"names at least one|says nothing else"):
        ModelAlias.model_validate(given)
