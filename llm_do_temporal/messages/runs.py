"""Starting and finishing runs and invocations."""

from __future__ import annotations

from pydantic import Field

from llm_do_temporal.messages.base import Json, Message, Strict
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.attachments import Attachment
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


class Usage(Message):
    """What was spent; adds up over a tree."""

    requests: int = 0
    tool_calls: int = 0
    """Calls that models asked for, whatever became of them; giving a structured result is none."""
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(
            requests=self.requests + other.requests,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


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
