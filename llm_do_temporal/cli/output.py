"""The result of a run on stdout, as text, as one object, or as lines of events.

Owns the shape of `-o json` and `-o jsonl`. Must not print anything else on stdout.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO

from llm_do_temporal.cli.options import OutputFormat
from llm_do_temporal.cli.text import PROGRAM, say, visible_block, visible_line
from llm_do_temporal.errors import LlmDoError, RunCancelled
from llm_do_temporal.redaction.configured_keys import without_keys

if TYPE_CHECKING:
    from llm_do_temporal.client.views.run_view import RunView, ViewEvent
    from llm_do_temporal.extension import RunPart
    from llm_do_temporal.messages.budget import Saved, Usage
    from llm_do_temporal.messages.runs import ItemCounts

WAITING = 3
"""Exit code of a command that leaves because a person is needed."""
_COUNTS = ("requests", "tool_calls", "input_tokens", "output_tokens")
Status = Literal["completed", "failed", "cancelled", "waiting", "running"]


@dataclass(frozen=True)
class RunOutcome:
    """State of a run at the moment when a command stops looking at it."""

    run: str | None
    """Id of the run; None where the command failed before there was one."""
    status: Status
    exit_code: int = 0
    output: Any = None
    truncated: str | None = None
    """Reason why the answer that is the output was cut; None: it was not."""
    usage: Usage | None = None
    duration_ms: int | None = None
    pending: tuple[dict[str, Any], ...] = ()
    error: LlmDoError | None = None
    items: tuple[dict[str, Any], ...] | None = None
    """Results of a batch, item by item; None for any other run."""
    counts: ItemCounts | None = None
    """Counts of these items."""

    def as_json(self) -> dict[str, Any]:
        """Return the object of `-o json`."""
        usage = self.usage
        return {
            "type": f"run.{self.status}",
            "status": self.status,
            "is_error": self.error is not None,
            "output": self.output,
            **truncated_json(self.truncated),
            "run": self.run,
            "usage": usage_json(usage),
            **cost_json(usage),
            "duration_ms": self.duration_ms,
            "pending_approvals": list(self.pending),
            "error": None if self.error is None else _error_json(self.error),
            **counts_json(self.counts),
            **({} if self.items is None else {"items": list(self.items)}),
        }


def truncated_json(reason: str | None) -> dict[str, str]:
    """Return the key `truncated` of an output whose answer was cut; nothing for any other."""
    return {} if reason is None else {"truncated": reason}


def usage_json(usage: Usage | None) -> dict[str, int]:
    """Return the counts of requests, tool calls and tokens; zeros for None."""
    counts = {name: getattr(usage, name, 0) for name in _COUNTS}
    estimated = 0 if usage is None else usage.estimated
    return {**counts, "estimated_requests": estimated} if estimated else counts


def cost_json(usage: Usage | None) -> dict[str, Any]:
    """Return the cost of the turns with a known price (None if no turn has one), and the models of the other turns.

    Of a fork that has reused turns, `saved` has what these have spent in the other run.
    """
    if usage is None:
        return {"cost_usd": None, "unpriced_models": []}
    cost = None if usage.cost_usd is None else float(usage.cost_usd)
    saved = {} if usage.saved is None else {"saved": _saved_json(usage.saved)}
    return {"cost_usd": cost, "unpriced_models": list(usage.unpriced), **saved}


def _saved_json(saved: Saved) -> dict[str, Any]:
    cost = None if saved.cost_usd is None else float(saved.cost_usd)
    return {name: getattr(saved, name) for name in ("requests", "input_tokens", "output_tokens")} | {"cost_usd": cost}


def failure(error: LlmDoError, *, run: str | None = None, view: RunView | None = None) -> RunOutcome:
    """Return the outcome of a run that ended with `error`, or of a command that could not start one."""
    status = "cancelled" if isinstance(error, RunCancelled) else "failed"
    return RunOutcome(run, status, exit_code=error.exit_code, error=error, **seen_of(view))


def seen_of(view: RunView | None) -> dict[str, Any]:
    """Return the fields of an outcome that come from the view of a run; none without a view."""
    if view is None:
        return {}
    items = tuple(item.as_json() for item in view.items.values()) if view.items else None
    return {"usage": view.usage, "duration_ms": duration_ms(view), "items": items, "counts": view.counts}


def part_json(part: RunPart | None) -> dict[str, Any]:
    """Return the key with the part of a run that a capability has started; nothing for any other run."""
    return {} if part is None else {part.kind: dict(part.facts)}


def counts_json(counts: ItemCounts | None) -> dict[str, Any]:
    """Return the key `item_counts` of a batch; nothing for any other run.

    Of a batch that a list shows while it is open, only the total is known.
    """
    if counts is None:
        return {}
    if counts.completed is None:
        return {"item_counts": {"total": counts.total}}
    rest = counts.total - counts.completed - counts.failed
    shown = {"total": counts.total, "completed": counts.completed, "failed": counts.failed, "not_done": rest}
    return {"item_counts": shown}


def duration_ms(view: RunView) -> int | None:
    """Return the milliseconds from start to end of a run, or to now while it is open; None before its start."""
    if view.started_at is None:
        return None
    from datetime import UTC, datetime

    until = view.ended_at or datetime.now(UTC).replace(tzinfo=None)
    return max(0, round((until - view.started_at).total_seconds() * 1000))


def report(outcome: RunOutcome, output: OutputFormat) -> int:
    """Print the result on stdout and the error on stderr; return the exit code."""
    if output != "text":
        print_json(outcome.as_json(), pretty=output == "json" and sys.stdout.isatty())
    elif outcome.status == "completed" and outcome.items is None:
        print_value(outcome.output)
    if outcome.truncated is not None:
        from llm_do_temporal.policy.models import cut_words

        say(f"{PROGRAM}: the result is not whole: {cut_words(outcome.truncated)}")
    if outcome.error is not None:
        say_error(outcome.error)
    return outcome.exit_code


def print_value(value: Any) -> None:
    """Print a worker's output: text as it is, anything else as JSON."""
    if not isinstance(value, str):
        print_json(value, pretty=True)
        return
    # A pipe gets every byte; a terminal would obey control characters that a model wrote.
    print(visible_block(value) if sys.stdout.isatty() else value, flush=True)


def print_json(value: Any, *, pretty: bool) -> None:
    """Print a JSON value on stdout, on one line unless `pretty`."""
    print(dump_json(value, pretty=pretty), flush=True)


def dump_json(value: Any, *, pretty: bool) -> str:
    """Return JSON text that no terminal obeys: control characters are escaped as JSON has it."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if pretty else None)
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def say_error(error: LlmDoError) -> None:
    """Print a line with the message and, if the error has a next step, a line with that."""
    say(f"{PROGRAM}: {error.message}")
    if error.next_step:
        say(f"  {error.next_step}")


class EventLines:
    """Prints events as numbered lines of JSON, and none again that is read anew after a reconnection."""

    def __init__(self, *, enabled: bool, stream: TextIO | None = None, from_seq: int = 1) -> None:
        """Print to `stream`, None is stdout, beginning with the number `from_seq`."""
        self.enabled = enabled
        self._stream = stream
        self._seq = 0
        self._printed = from_seq - 1

    def begin_reading(self) -> None:
        """Begin to count anew: the histories are read from their beginning, again or for the first time."""
        self._seq = 0

    def tell(self, event: ViewEvent) -> None:
        """Print the next event of the run. The end of the run is left out: the last line has it, with the result."""
        if not self.enabled or event.type in _ends():
            return
        self._seq += 1
        if self._seq <= self._printed:
            return
        self._printed = self._seq
        from llm_do_temporal.client.views.run_view import event_json

        line = event_json(event, self._seq)
        print(dump_json(line, pretty=False), file=self._stream, flush=True)


class ItemLines:
    """Prints one line for each item of a batch that has ended."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._printed_paths: set[str] = set()

    def tell(self, view: RunView) -> None:
        """Print the items that have ended since the last call."""
        if not self._enabled:
            return
        from llm_do_temporal.policy.models import cut_words

        for item in view.items.values():
            if item.is_open or item.path in self._printed_paths:
                continue
            self._printed_paths.add(item.path)
            result = item.output if item.error is None else item.error["message"]
            text = result if isinstance(result, str) else dump_json(result, pretty=False)
            cut = "" if item.truncated is None else f"  ({cut_words(item.truncated)})"
            print(f"{item.status:9}  {visible_line(item.name)}  {visible_line(text.strip(), 200)}{cut}", flush=True)


def _ends() -> frozenset[str]:
    from llm_do_temporal.client.views.run_view import RUN_ENDS

    return RUN_ENDS


def _error_json(error: LlmDoError) -> dict[str, Any]:
    texts = {"message": error.message, "next": error.next_step}
    return {"code": error.code, **without_keys(texts)}


def _escaped(char: str) -> str:
    return char if char == " " else json.dumps(char)[1:-1]
