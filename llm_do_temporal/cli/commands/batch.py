"""`start --each` and its relatives: one run for many inputs.

Owns the flags, and which of them go together. Must not connect to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.messages.batches import Batch
    from llm_do_temporal.messages.runs import StartRunInput
    from llm_do_temporal.policy.files.attachments import Attachment

_BATCH = Group("Many inputs", sort_key=4)


@Parameter(name="*", group=_BATCH)
@dataclass(frozen=True, kw_only=True)
class BatchFlags:
    """Flags of a run for many inputs: the worker is called once for each, and a failure stops no other call."""

    each: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Run the worker once for each file that matches, like 'decks/*.pdf', quoted."),
    ] = ()
    each_line: Annotated[
        Path | None, Parameter(help="Run it once for each line of a file: a prompt, or JSON where it ends in .jsonl.")
    ] = None
    concurrency: Annotated[int | None, Parameter(help="How many are worked on at once; 8 by default.")] = None
    retry_failed: Annotated[
        str | None, Parameter(help="Start a new run for what has failed, or was never done, in this run.")
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether the flags name any items."""
        return bool(self.each or self.each_line)

    def check(self, worker: str | None, *, others: Sequence[Any]) -> None:
        """Raise UsageError for flags that do not go together; `others` are prompt, input and files."""
        from llm_do_temporal.messages.batches import MAX_CONCURRENCY

        if self.each and self.each_line is not None:
            raise UsageError("--each and --each-line exclude each other; give one of them")
        if self.concurrency is not None and not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise UsageError(f"--concurrency {self.concurrency} is not a number from 1 to {MAX_CONCURRENCY}")
        if self.retry_failed is not None:
            if self.wanted or any(others):
                raise UsageError(
                    "--retry-failed takes the items, the prompt and the files of the run it names; give none here"
                )
        elif worker is None:
            raise UsageError("name the worker to run", next_step="llm-do-temporal start WORKER [PROMPT]")
        elif self.concurrency is not None and not self.wanted:
            raise UsageError("--concurrency says nothing without --each, --each-line or --retry-failed")

    def batch(self, attach: Callable[[Sequence[Path]], tuple[Attachment, ...]]) -> Batch | None:
        """Return the batch, None without items; `attach` takes the files of an item. Raises UsageError."""
        if not self.wanted:
            return None
        from llm_do_temporal.client.batches import items_of_lines, matching_files
        from llm_do_temporal.messages.batches import DEFAULT_CONCURRENCY, Batch, BatchItem

        if self.each_line is not None:
            items = items_of_lines(self.each_line)
        else:
            items = [BatchItem(name=name, attachments=attach([file])) for name, file in matching_files(self.each)]
        return Batch(items=tuple(items), concurrency=self.concurrency or DEFAULT_CONCURRENCY)

    def again(self, before: StartRunInput, worker: str | None, changes: dict[str, Any]) -> StartRunInput:
        """Return the request for the items that another run left over, with the changes. Raises UsageError."""
        if worker is not None and worker != before.worker:
            raise UsageError(
                f"run '{self.retry_failed}' ran worker '{before.worker}', not '{worker}'",
                next_step="Leave the worker out.",
            )
        limits = changes.pop("limits").over(before.limits)
        batch = before.batch
        if batch is not None and self.concurrency is not None:
            batch = batch.model_copy(update={"concurrency": self.concurrency})
        chosen = {name: value for name, value in changes.items() if value is not None}
        return before.model_copy(update={**chosen, "limits": limits, "batch": batch})


NO_BATCH = BatchFlags()
