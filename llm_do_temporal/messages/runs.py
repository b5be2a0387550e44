"""Starting and finishing runs and invocations."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from pydantic import Field

from llm_do_temporal.messages.base import Json, Message, Strict
from llm_do_temporal.messages.conversation import ContinuedInvocation
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.attachments import Attachment
from llm_do_temporal.policy.limits import Dimension, Limits
from llm_do_temporal.policy.sandbox import Tree


class StartRunInput(Strict):
    """Input of `LlmDoRun`. `{"worker": "greeter", "prompt": "hi"}` is enough."""

    worker: str
    prompt: str = ""
    input: Json = None
    attachments: tuple[Attachment, ...] = ()
    model: str | None = None
    force_model: str | None = None
    environment_model: str | None = None
    mode: Mode | None = None
    started_by: str = ""
    depth: int = Field(default=0, ge=0)
    """The level at which the entry worker runs: above 0 for a run that a tool of another run started."""
    limits: Limits = Limits()
    """For the whole run; each one here is used instead of the workshop's."""


class Usage(Message):
    """What was spent; adds up over a tree."""

    requests: int = 0
    tool_calls: int = 0
    """Calls that models asked for, whatever became of them; giving a structured result is none."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    """Of the turns whose price is known; None where there was none."""
    unpriced: tuple[str, ...] = ()
    """The models of the other turns."""

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
            unpriced=tuple(sorted({*self.unpriced, *other.unpriced})),
        )


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """What is known of a sum; None where nothing is."""
    return other if one is None else one if other is None else one + other


class RunResult(Message):
    """Result of `LlmDoRun`."""

    output: Json
    """The worker's text, or its structured value."""
    usage: Usage


class InvokeWorkerInput(Message):
    """Input of `LlmDoWorker`."""

    run: str
    """Workflow id of the run, where the desk is."""
    path: str
    """Position in the tree, like `main/evaluator-2`."""
    depth: int
    worker: PinnedWorker
    settings: RunSettings
    tree: Tree
    """The invocation's own tree, already narrowed."""
    model: str
    """The effective model as `provider:name`."""
    prompt: str = ""
    input: Json = None
    attachments: tuple[Attachment, ...] = ()
    limited: tuple[Dimension, ...] = ()
    """What the run, a caller or the worker itself limits: the desk is asked before any of it is spent."""
    started_at: datetime | None = None
    """When the time of its limits began; None where there are no limits."""
    continued: ContinuedInvocation | None = None
    """Where the invocation stands, when its workflow was continued as new."""


class InvocationResult(Message):
    """Result of `LlmDoWorker`; `usage` includes that of everything it delegated."""

    output: Json
    usage: Usage


class InvocationMemo(Message):
    """Memo of `LlmDoWorker`: what a list of workflows shows without opening a history."""

    path: str
    worker: str
    depth: int
    model: str


class RunMemo(Message):
    """Memo of `LlmDoRun`."""

    worker: str
    started_by: str = ""
