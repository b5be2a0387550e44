"""Which model an invocation uses.

One chain, first that exists: forced by the run, the worker's own, the caller's effective model, the
run's `--model`, the workshop's, `LLM_DO_MODEL`. The choice is then checked against the worker's
`compatible_models`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from llm_do_temporal.errors import ModelRefusal
from llm_do_temporal.policy.values import Value


class ModelSources(Value):
    """Where a run can get a model from, besides the worker and its caller."""

    force_model: str | None = None
    run_model: str | None = None
    workshop_model: str | None = None
    environment_model: str | None = None
    aliases: Mapping[str, str] = {}


def resolve_model(
    sources: ModelSources,
    *,
    worker: str,
    worker_model: str | None,
    caller_model: str | None,
    compatible: Sequence[str] | None,
) -> str:
    """The model, as `provider:name`, for a worker called by somebody whose effective model is `caller_model`.

    Raises ModelRefusal when no source names one, or the one chosen has no provider or matches none of `compatible`.
    """
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
    model = sources.aliases.get(named, named)
    if ":" not in model:
        raise ModelRefusal(
            f"model '{model}' names no provider",
            next_step="Write it as provider:name, like anthropic:claude-sonnet-4-5, or give it an alias in "
            "workshop.yaml under `models:`.",
        )
    if compatible is not None and not any(fnmatchcase(model.lower(), pattern.lower()) for pattern in compatible):
        raise ModelRefusal(
            f"worker '{worker}' does not work with model '{model}'; compatible: {', '.join(compatible)}",
            next_step="Choose another with --model, or change `compatible_models`.",
        )
    return model
