"""The `shell` toolset: judges the text of a command here, leaves running it to an activity."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.exceptions import FailureError

from llm_do_temporal.errors import LayerUnavailable, ShownDiffers
from llm_do_temporal.messages.activities import (
    PREVIEW_COMMAND,
    RUN_COMMAND,
    CommandOutput,
    CommandPreview,
    ShellInput,
    ShellResult,
)
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.shell import (
    MAX_COMMAND_CHARS,
    WITHOUT_ISOLATION,
    JudgedCommand,
    ShellPolicy,
    describe_policy,
    judge_command,
)
from llm_do_temporal.workflows.runtime.activities import run_activity
from llm_do_temporal.workflows.runtime.failures import explain
from llm_do_temporal.workflows.tools.at_most_once import ask_whether_to_repeat, run_at_most_once
from llm_do_temporal.workflows.tools.gated_tool import (
    AsksDesk,
    GatedTool,
    PreparedCall,
    Shown,
    ToolOutcome,
    ToolQuestion,
)
from llm_do_temporal.workflows.tools.working_layer import WorkingLayer, through

DEFAULT_TIMEOUT_SECONDS = 30
LONGEST_TIMEOUT_SECONDS = 300
_AROUND = timedelta(seconds=90)
"""Time of an attempt beyond the command's own: ending its processes, keeping its output."""
_SHOWN_CHARS = 200


def shell_tools(invocation: InvokeWorkerInput, desk: AsksDesk, layer: WorkingLayer | None = None) -> list[GatedTool]:
    """Return the `shell` tool, where the invocation's worker has it; it works on the layer. None: on the files."""
    policy = invocation.worker.shell
    return [] if policy is None else [Shell(invocation, policy, desk, layer)]


@dataclass
class Shell:
    """`shell`."""

    invocation: InvokeWorkerInput
    policy: ShellPolicy
    desk: AsksDesk
    layer: WorkingLayer | None = None
    name: str = "shell"
    _no_layer: str = ""
    """Reason why commands have no layer on the machine that was asked last; empty: they have, or none was asked."""

    def __post_init__(self) -> None:
        self.description = (
            "Run one program and get its exit code and output. There is no shell: no pipes, redirections, variables, "
            "globs or `;`, not even in quotes. Name files relative to the working directory, which is the top of "
            f"your files. {describe_policy(self.policy, self.invocation.tree)}"
        )
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {
                "command": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_COMMAND_CHARS,
                    "description": "The program and its arguments, like: git log -n 3",
                },
                "timeout": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST_TIMEOUT_SECONDS,
                    "default": DEFAULT_TIMEOUT_SECONDS,
                    "description": "Seconds after which it is stopped.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        }

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Judge the command; the preview asks the machine for files and isolation, the effect runs the command once."""
        command = judge_command(self.policy, self.invocation.tree, args["command"])
        request = self._request(command, args.get("timeout", DEFAULT_TIMEOUT_SECONDS))
        summary = f"{self.name} {command.line}"
        layer = None if self._no_layer else self.layer
        question = ToolQuestion(
            (command.use, *command.more),
            args,
            _shortened(summary, _SHOWN_CHARS),
            circumstances=_circumstances(request),
            surroundings=_circumstances(request, but={"argv", "spelled"}),
            # With a network, with capabilities of its own, or where people decide what is read, it does more than to
            # change files.
            in_layer=layer is not None and not request.network and not command.more and not self._reads_ask,
        )

        seen: CommandPreview | None = None

        async def run(asked: ShellInput) -> ToolOutcome:
            if layer is None:
                return ToolOutcome(_for_model(await self._run_once(asked, question, summary)))

            async def in_layer(work: LayerWork) -> ShellResult:
                laid = asked.model_copy(update={"layer": work})
                if not question.in_layer:
                    return await self._run_once(laid, question, summary)
                # It changes nothing but the layer, so it may be run again after a crash.
                allowed = f"(allowed: in the layer) {summary}"
                return await run_activity(RUN_COMMAND, laid, summary=allowed, timeout=_attempt(laid))

            with self._noting_layers():
                return ToolOutcome(_for_model(await layer.change(in_layer)))

        async def preview() -> Shown:
            nonlocal seen
            with self._noting_layers():
                seen = await run_activity(PREVIEW_COMMAND, through(layer, request), summary=f"preview {summary}")
            notes = [] if seen.isolated else [WITHOUT_ISOLATION]
            notes += [seen.note] if seen.note else []
            if self._no_layer:
                notes.append(f"it works on the files themselves, before any review: {self._no_layer}")
            return Shown("", seen.files, "; ".join(notes))

        async def bound(shown: Shown) -> ToolOutcome:
            if seen is None:  # no person had to be asked
                return await run(request)
            expected = {"expected": seen.files, "expected_isolated": seen.isolated}
            return await run(request.model_copy(update=expected))

        return PreparedCall((question,), lambda: run(request), preview, bound)

    async def _run_once(self, asked: ShellInput, question: ToolQuestion, summary: str) -> ShellResult:
        return await run_at_most_once(
            RUN_COMMAND,
            asked,
            summary=summary,
            timeout=_attempt(asked),
            ask=ask_whether_to_repeat(
                self.desk, self.invocation.settings, self, question, what=_shortened(summary, 150)
            ),
        )

    @property
    def _reads_ask(self) -> bool:
        """Whether reading some of the worker's files needs approval: a command can read what it does not name."""
        return any(mount.read_approval for mount in self.invocation.tree.mounts)

    @contextmanager
    def _noting_layers(self) -> Generator[None]:
        """Note that commands have no layers where they run; the call is then prepared anew, and perhaps asked about."""
        try:
            yield
        except FailureError as failure:
            error = explain(failure)
            if not isinstance(error, LayerUnavailable):
                raise
            self._no_layer = error.message
            raise ShownDiffers(error.message) from failure

    def _request(self, command: JudgedCommand, timeout_seconds: int) -> ShellInput:
        return ShellInput(
            argv=command.argv,
            tree=self.invocation.tree,
            cwd=command.cwd,
            timeout_seconds=timeout_seconds,
            sandbox_paths=command.sandbox_paths,
            spelled=command.spelled,
            network=self.policy.network,
            settings=self.invocation.settings.shell,
        )


def _attempt(asked: ShellInput) -> timedelta:
    """Return the longest time of one attempt."""
    return timedelta(seconds=asked.timeout_seconds) + _AROUND


def _circumstances(request: ShellInput, *, but: set[str] | None = None) -> str:
    """Return the digest of a command with its folders, isolation and settings, `but` for these fields.

    Its time limit is among the arguments.
    """
    left_out = {"timeout_seconds", "expected", "expected_isolated"} | (but or set())
    return digest_of(request.model_dump(mode="json", exclude=left_out))


def _shortened(text: str, limit: int) -> str:
    """Return the text cut to `limit` characters, with the number of characters that are left out."""
    if len(text) <= limit:
        return text
    kept = limit - len(f"… ({len(text)} more characters)")
    return f"{text[:kept]}… ({len(text) - kept} more characters)"


def _for_model(result: ShellResult) -> dict[str, Any]:
    """Return the result as the model sees it."""
    answer: dict[str, Any] = {
        "exit_code": result.exit_code,
        "stdout": result.stdout.text,
        "stderr": result.stderr.text,
        "truncated": result.stdout.truncated or result.stderr.truncated,
        "timed_out": result.timed_out,
    }
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        if output.truncated:
            answer[f"{name}_whole"] = _whole(output)
    if result.note is not None:
        answer["note"] = result.note
    return answer


def _whole(output: CommandOutput) -> dict[str, Any]:
    return {"bytes": output.bytes, "sha256": output.sha256, "kept_bytes": output.kept_bytes}
