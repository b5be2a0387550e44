"""Which model an invocation uses: the chain, aliases, and what a worker is compatible with."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.policy.models.resolution import ModelSources, resolve_model

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
