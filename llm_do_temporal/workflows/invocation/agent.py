"""The generic agent that runs every worker.

Built at import for workflow code, and once for the activities of each worker service. All differences between workers
(instructions, tools, model, output) are arguments that the workflow gives to `AGENT.run(...)`. Its name is part of the
activity's name, and so of the wire format.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import ResolveModelId
from pydantic_ai.durable_exec.temporal import TemporalDurability, TemporalRunContext
from pydantic_ai.usage import RunUsage
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

from llm_do_temporal.activities.models.builder import build_model
from llm_do_temporal.activities.models.turns import ResolveAttachments, TurnStore
from llm_do_temporal.messages.base import AGENT_NAME
from llm_do_temporal.messages.sizes import TOO_LARGE
from llm_do_temporal.workflows.invocation.capabilities import (
    InvocationHooks,
    go_on_as_new,
)
from llm_do_temporal.workflows.runtime.activities import HEARTBEAT_TIMEOUT

TURN_TIMEOUT = timedelta(minutes=30)
"""Longest single attempt of a model turn; thinking models on long documents take many minutes."""
OUTPUT_RETRIES = 3
"""Largest number of times that a model may correct its structured output."""

_NEVER_USED_UP = 1_000_000
"""Retries of tools that do not exist; `Slips` counts them."""


class LeanRunContext(TemporalRunContext[Any]):
    """Run context of a model turn with the fields that its activity needs; the others are equal in every turn and stay
    in the workflow."""

    @classmethod
    def serialize_run_context(cls, ctx: RunContext[Any]) -> dict[str, Any]:
        """See TemporalRunContext."""
        carried = super().serialize_run_context(ctx)
        return {name: value for name, value in carried.items() if name not in _NOT_CARRIED}

    @classmethod
    def deserialize_run_context(cls, ctx: dict[str, Any], deps: Any) -> TemporalRunContext[Any]:
        """See TemporalRunContext."""
        return super().deserialize_run_context({**_NOT_CARRIED, **ctx}, deps)


_NOT_CARRIED: dict[str, Any] = {
    "run_id": None,
    "conversation_id": None,
    "metadata": None,
    "retries": {},
    "tool_call_id": None,
    "tool_name": None,
    "tool_call_approved": False,
    "tool_call_metadata": None,
    "retry": 0,
    "max_retries": 0,
    "partial_output": False,
    "usage": RunUsage(),
    "usage_limits": None,
    "deadline": None,
    "loaded_capability_ids": set(),
    "discovered_tool_names": set(),
    "_anchored_evidence": {"discovered_tool_names": [], "loaded_capability_ids": []},
    "available_tool_names": set(),
    "_tool_names_by_kind": {},
    "active_capability_ids": set(),
    "_deferred_capability_ids": set(),
    "capability_active": True,
}
"""Fields that `LeanRunContext` leaves out, with the values that stand for them in the activity, where no code of ours
reads them."""


def build_agent(store: TurnStore) -> Agent[object, Any]:
    """Return the agent, whose activity has this store for its turns."""
    return Agent(
        "placeholder:none",
        name=AGENT_NAME,
        retries={"tools": _NEVER_USED_UP, "output": OUTPUT_RETRIES},
        capabilities=[
            InvocationHooks(),
            ResolveModelId(partial(build_model, workshop=store.workshop)),
            ResolveAttachments(store),
            TemporalDurability(
                model_activity_config=ActivityConfig(
                    start_to_close_timeout=TURN_TIMEOUT,
                    heartbeat_timeout=HEARTBEAT_TIMEOUT,
                    # Unlimited attempts: a provider that is down for an hour leaves a run that waits and goes on.
                    # Errors that another attempt cannot mend, or that are left to another model, are marked
                    # non-retryable where they are raised.
                    retry_policy=RetryPolicy(
                        # After the death of a worker service mostly another one takes over at once.
                        initial_interval=timedelta(milliseconds=250),
                        maximum_interval=timedelta(minutes=2),
                        non_retryable_error_types=[TOO_LARGE],
                    ),
                    summary="LLM turn",
                ),
                continue_as_new=go_on_as_new,
                run_context_type=LeanRunContext,
            ),
        ],
    )


AGENT = build_agent(TurnStore())
"""The agent of workflow code, which sends nothing."""
