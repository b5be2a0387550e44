"""Choice of the model that an invocation uses.

One chain, first that exists: forced by the run, the worker's own, the caller's effective model, the run's `--model`,
the workshop's, `LLM_DO_MODEL`. In a workshop with `model_resolution: isolated` nothing is inherited: `--model` counts
for the entry worker alone, and before its own. The choice is then checked against the worker's `compatible_models`:
each of its models, where it names several.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pydantic import Field

from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.policy.models.ids import ALIAS_ID, Aliases, alias_of, chain_of, full_name
from llm_do_temporal.policy.values import Value


class ModelSources(Value):
    """Sources of a model in a run, besides the worker and its caller."""

    force_model: str | None = None
    run_model: str | None = None
    workshop_model: str | None = None
    environment_model: str | None = None
    aliases: Aliases = Field(default_factory=dict)
    """Aliases, each as `provider:name`, or as the whole alias where it says more."""
    isolated: bool = False
    """Whether workers inherit no model."""


def resolve_model(
    sources: ModelSources,
    *,
    worker: str,
    worker_model: str | None,
    caller_model: str | None,
    compatible: Sequence[str] | None,
) -> str:
    """Return the model of a worker whose caller's effective model is `caller_model` (None: it has no caller).

    The result is `provider:name`, or the name of an alias that says more than that; several have commas between them.
    Raises ModelRefusal where no source names a model, or a chosen model has no provider or matches none of
    `compatible`.
    """
    if sources.isolated:
        entry = None if caller_model else sources.run_model
        chain = (sources.force_model, entry, worker_model, sources.workshop_model, sources.environment_model)
    else:
        chain = (
            sources.force_model,
            worker_model,
            caller_model,
            sources.run_model,
            sources.workshop_model,
            sources.environment_model,
        )
    named = next((name for name in chain if name), None)
    if named is None:
        raise ModelRefusal(
            f"no model for worker '{worker}'",
            next_step="Set `model:` in the worker or in workshop.yaml, pass --model, or set LLM_DO_MODEL.",
        )
    return ",".join(dict.fromkeys(_checked(sources.aliases, name, worker, compatible) for name in _all(sources, named)))


def _all(sources: ModelSources, named: str) -> Sequence[str]:
    return chain_of(sources.aliases, named) or (named,)


def _checked(aliases: Aliases, named: str, worker: str, compatible: Sequence[str] | None) -> str:
    """Return a model in the form in which it travels. Raises ModelRefusal."""
    model = full_name(aliases, named)
    if ":" not in model or "," in model or model.startswith(ALIAS_ID):
        raise ModelRefusal(
            f"model '{model}' names no provider",
            next_step="Write it as provider:name, like anthropic:claude-sonnet-5-5, or give it an alias in "
            "workshop.yaml under `models:`.",
        )
    if compatible is not None and not any(fnmatchcase(model.lower(), pattern.lower()) for pattern in compatible):
        raise ModelRefusal(
            f"worker '{worker}' does not work with model '{model}'; compatible: {', '.join(compatible)}",
            next_step="Choose another with --model, or change `compatible_models`.",
        )
    return model if alias_of(aliases, named) is None else named
