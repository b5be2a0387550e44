"""Aliases with an address: what they are called, how they travel, and that no key travels with them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from inspect import getsource
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_ai.providers import infer_provider_class

from llm_do_temporal.errors import ModelRefusal, UsageError
from llm_do_temporal.offline.plain import PLAIN
from llm_do_temporal.policy.key_shapes import looks_like_key
from llm_do_temporal.policy.models import (
    NOTHING_TO_PAY,
    OFFLINE_MODELS,
    PROVIDERS,
    ModelAlias,
    ModelDoubt,
    ModelSources,
    Price,
    check_models,
    check_no_secret,
    cut_reason,
    cut_words,
    first_kept,
    full_name,
    has_batches,
    is_full_name,
    label,
    merged_settings,
    model_doubt,
    next_look,
    play_of,
    read_serving_id,
    resolve_model,
    serving_id,
    stated_price,
)

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


CHAIN = ("force", "worker", "caller", "run", "workshop", "environment")


@pytest.mark.parametrize("first", range(len(CHAIN)))
@pytest.mark.parametrize("missing", [None, ""], ids=["absent", "empty"])
def test_the_first_source_that_names_a_model_wins(first: int, missing: str | None) -> None:
    named = {name: f"p:{name}" if index >= first else missing for index, name in enumerate(CHAIN)}
    model = resolve_model(
        ModelSources(
            force_model=named["force"],
            run_model=named["run"],
            workshop_model=named["workshop"],
            environment_model=named["environment"],
        ),
        worker="w",
        worker_model=named["worker"],
        caller_model=named["caller"],
        compatible=None,
    )
    assert model == f"p:{CHAIN[first]}"


def test_without_any_source_the_error_names_the_ways_to_set_one() -> None:
    with pytest.raises(ModelRefusal, match="no model for worker 'w'") as refused:
        resolve_model(ModelSources(), worker="w", worker_model=None, caller_model=None, compatible=None)
    for way in ("model:", "workshop.yaml", "--model", "LLM_DO_MODEL"):
        assert way in (refused.value.next_step or "")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("fast", "anthropic:haiku"),
        ("anthropic:haiku", "anthropic:haiku"),
    ],
)
def test_an_alias_stands_for_a_model(named: str, expected: str) -> None:
    sources = ModelSources(aliases={"fast": "anthropic:haiku"})
    assert resolve_model(sources, worker="w", worker_model=named, caller_model=None, compatible=None) == expected


@pytest.mark.parametrize(
    "named",
    [
        # an alias is a whole name
        "Fast",
        # and is looked up once
        "again",
        # what people type who know another program
        "claude-sonnet-4",
    ],
)
def test_a_model_without_a_provider_is_refused(named: str) -> None:
    sources = ModelSources(aliases={"fast": "anthropic:haiku", "again": "fast"})
    with pytest.raises(ModelRefusal, match="names no provider") as refused:
        resolve_model(sources, worker="w", worker_model=named, caller_model=None, compatible=None)
    assert "provider:name" in (refused.value.next_step or "")


@pytest.mark.parametrize(
    ("model", "compatible", "fits"),
    [
        ("anthropic:sonnet", ("anthropic:*",), True),
        ("anthropic:sonnet", ("ANTHROPIC:*",), True),
        ("Anthropic:Sonnet", ("anthropic:sonnet",), True),
        ("anthropic:sonnet", ("openai:*", "*sonnet"), True),
        ("anthropic:sonnet", ("*",), True),
        ("anthropic:sonnet", ("openai:*",), False),
        ("anthropic:sonnet", ("anthropic",), False),
        # nothing is compatible with an empty list
        ("anthropic:sonnet", (), False),
        # the alias's model is what counts
        ("fast", ("anthropic:*",), True),
        ("fast", ("fast",), False),
    ],
)
def test_the_model_must_match_one_of_the_compatible_ones(model: str, compatible: tuple[str, ...], fits: bool) -> None:
    sources = ModelSources(aliases={"fast": "anthropic:haiku"})
    if fits:
        resolve_model(sources, worker="w", worker_model=model, caller_model=None, compatible=compatible)
        return
    with pytest.raises(ModelRefusal, match="worker 'w' does not work with model"):
        resolve_model(sources, worker="w", worker_model=model, caller_model=None, compatible=compatible)


def test_a_forced_model_must_be_compatible_too() -> None:
    with pytest.raises(ModelRefusal, match="does not work with model 'openai:x'; compatible: anthropic:\\*"):
        resolve_model(
            ModelSources(force_model="openai:x"),
            worker="w",
            worker_model="anthropic:sonnet",
            caller_model=None,
            compatible=("anthropic:*",),
        )


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("p:a,p:b", "p:a,p:b"),
        ("p:a, fast", "p:a,anthropic:haiku"),
        # an alias for several, and one of them again
        ("both", "p:a,anthropic:haiku"),
        ("p:c,both,p:a", "p:c,p:a,anthropic:haiku"),
    ],
)
def test_several_models_are_one_choice(named: str, expected: str) -> None:
    sources = ModelSources(aliases={"fast": "anthropic:haiku", "both": "p:a,fast"})
    chosen = resolve_model(sources, worker="w", worker_model=named, caller_model=None, compatible=None)
    assert chosen == expected
    # a callee inherits all of it
    assert resolve_model(sources, worker="x", worker_model=None, caller_model=chosen, compatible=None) == expected


@pytest.mark.parametrize("named", [",", "p:a,b", "loop", "alias:{},p:a"])
def test_each_of_several_models_is_checked(named: str) -> None:
    sources = ModelSources(aliases={"both": "p:a,p:b", "loop": "both,loop"})
    with pytest.raises(ModelRefusal, match="names no provider"):
        resolve_model(sources, worker="w", worker_model=named, caller_model=None, compatible=None)


def test_each_of_several_models_must_be_compatible() -> None:
    with pytest.raises(ModelRefusal, match="does not work with model 'q:b'"):
        resolve_model(ModelSources(), worker="w", worker_model="p:a,q:b", caller_model=None, compatible=("p:*",))


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


SHORT_ALIASES = {"fast": "openai:gpt-5", "wrong": "opnai:gpt-5", "several": "fast, test:a"}


@pytest.mark.parametrize("named", [[None], ["fast"], ["several", "fast"], ["test:a,fast"], ["gateway/openai:gpt-5"]])
def test_models_of_a_start_that_are_known_are_not_doubted(named: list[str | None]) -> None:
    assert check_models(SHORT_ALIASES, named) == []


@pytest.mark.parametrize("named", [["opnai:gpt-5"], ["fast,opnai:gpt-5"], [None, "wrong"], ["quux:m", "offline:nots"]])
def test_a_start_with_a_name_that_is_surely_misspelt_is_refused(named: list[str | None]) -> None:
    with pytest.raises(UsageError) as refused:
        check_models(SHORT_ALIASES, named)
    assert (refused.value.next_step or "").startswith("Did you mean 'o")


def test_what_only_the_worker_service_may_know_is_a_warning() -> None:
    (provider, alias) = check_models(SHORT_ALIASES, ["quux:m", "slow", "quux:m"])
    assert provider.startswith("no provider 'quux' is known, of the model 'quux:m': a run may fail for that. Known are")
    assert alias.startswith("the workshop has no alias 'slow': a run may fail for that. A model is an alias, or")
    assert check_models(None, ["slow"]) == []


@pytest.mark.parametrize(
    ("spent", "cost"),
    [
        ({"told": 1_000_000, "written": 0}, "2"),
        ({"told": 0, "written": 500_000}, "5"),
        # without a price of its own, the cache costs what is told
        ({"told": 1_000_000, "written": 0, "cache_write": 1_000_000}, "2"),
        ({"told": 1_000_000, "written": 0, "cache_read": 500_000}, "1.25"),
        # no count takes money back
        ({"told": 10, "written": 0, "cache_read": 1_000_000}, "0.5"),
    ],
)
def test_a_turn_costs_its_tokens(spent: dict[str, int], cost: str) -> None:
    price = Price.model_validate({"input": 2, "output": 10.0, "cache_read": "0.5"})
    assert price.cost_of(**spent) == Decimal(cost)


def test_free_is_a_price() -> None:
    assert Price.model_validate("free") == NOTHING_TO_PAY
    assert NOTHING_TO_PAY.cost_of(told=5_000_000, written=5_000_000) == 0


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"input": -1, "output": 1}, "greater than or equal to 0"),
        ({"input": "cheap", "output": 1}, "'cheap' is not a number of US dollars"),
        ({"input": "NaN", "output": 1}, "finite"),
        # half a price would be half of the cost
        ({"input": 1}, "output"),
        ({"input": 1, "output": 1, "cached": 1}, "cached"),
        ("gratis", "a price is `free`, or has keys"),
        (0.25, "a price is `free`, or has keys"),
    ],
)
def test_what_is_no_price_is_refused(written: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Price.model_validate(written)


def test_a_price_survives_the_way_to_an_activity() -> None:
    price = Price.model_validate({"input": 0.1, "output": 0.3, "cache_read": 0.01})
    assert Price.model_validate(price.model_dump(mode="json")) == price
    assert Price.model_validate_json(price.model_dump_json()) == price


@pytest.mark.parametrize(
    ("model", "has"),
    [
        ("openai:gpt-5", True),
        ("openai-responses:gpt-5", True),
        ("anthropic:claude-sonnet-5-5", True),
        ("google:gemini-2.5-pro", True),
        # the library batches responses, and no chat completions
        ("openai-chat:gpt-4o", False),
        ("google-cloud:gemini-2.5-pro", False),
        ("groq:llama", False),
        # scripts answer at once
        ("offline:echo", True),
        ("test:x", True),
    ],
)
def test_three_providers_have_batches(model: str, has: bool) -> None:
    assert has_batches(model) is has


@pytest.mark.parametrize(
    ("age", "wait"),
    [
        (0, 30),
        (59, 30),
        # half of its age
        (120, 60),
        (1_200, 600),
        # at most twenty times the first
        (80_000, 600),
    ],
)
def test_an_old_batch_is_looked_at_less_often(age: int, wait: int) -> None:
    assert next_look(timedelta(seconds=age), timedelta(seconds=30)) == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("sizes", "max_tokens", "left_out"),
    [
        pytest.param([], 10, 0, id="nothing was said"),
        pytest.param([4000, 4000], None, 0, id="no limit"),
        pytest.param([20, 20], 10, 0, id="exactly at the limit"),
        pytest.param([20, 21], 10, 1, id="one character more: down to half"),
        pytest.param([10, 10, 10, 10, 1], 10, 3, id="as many as it takes"),
        pytest.param([10, 10, 10, 10, 1, 10, 10], 10, 3, id="no more until it is full again"),
        pytest.param([10, 10, 10, 10, 1, 10, 10, 10], 10, 6, id="then again"),
        pytest.param([500], 10, 0, id="the newest stays, however long"),
        pytest.param([5, 500], 10, 1, id="and nothing else then"),
    ],
)
def test_what_is_left_out_of_a_long_conversation(sizes: list[int], max_tokens: int | None, left_out: int) -> None:
    assert first_kept(sizes, max_tokens) == left_out


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("stop", None),
        ("tool_call", None),
        ("error", None),
        (None, None),
    ],
)
def test_only_a_limit_and_a_filter_cut_an_answer(finish_reason: str | None, reason: str | None) -> None:
    assert cut_reason(finish_reason) == reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", "the answer was cut off at its provider's limit"),
        ("content_filter", "the answer was cut off by its provider's content filter"),
        ("weather", "the answer was cut off"),
        (None, "the answer was cut off"),
        (["length"], "the answer was cut off"),
    ],
)
def test_a_reason_of_any_kind_has_words(reason: Any, words: str) -> None:
    assert cut_words(reason) == words
