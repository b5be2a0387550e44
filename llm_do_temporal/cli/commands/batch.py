"""`start --each` and its relatives: one run for many inputs.

Owns the flags, and which of them go together. Must not connect to anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.messages.runs import Batch, StartRunInput
    from llm_do_temporal.policy.files.attachments import Attachment

_BATCH = Group("Many inputs", sort_key=4)
_SHOWN_FOLDERS = 20


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
    strict_inputs: Annotated[
        bool, Parameter(help="Start nothing where a file of --each cannot be used; else its item alone fails.")
    ] = False
    concurrency: Annotated[int | None, Parameter(help="How many are worked on at once; 8 by default.")] = None
    retry_failed: Annotated[
        str | None, Parameter(help="Start a new run for what has failed, or was never done, in this run.")
    ] = None
    as_it_was: Annotated[
        bool, Parameter(help="With --retry-failed: take files as they were, also those that were mended since.")
    ] = False
    no_reuse: Annotated[
        bool,
        Parameter(negative="", help="With --retry-failed: ask models again what they have answered, and do all again."),
    ] = False

    def _check_spread(self, attached: Sequence[Path], typed: Sequence[str | None]) -> None:
        """Raise UsageError where a shell has put files in the place of a pattern, and one became another argument."""
        line = () if self.each_line is None else (str(self.each_line),)
        given = (("--each", self.each), ("--each-line", line), ("--attach", tuple(map(str, attached))))
        for option, files in given:
            for file in files:
                beside = next((text for text in typed if text and _is_sibling(text, file)), None)
                if beside is not None:
                    raise UsageError(
                        f"{option} has the file '{file}', and '{beside}' stands beside it as another argument: the "
                        "shell has put files in the place of a pattern",
                        next_step="Quote the pattern, like --each 'in/*.txt', or give each file an option of its own.",
                    )

    @property
    def wanted(self) -> bool:
        """Whether the flags name any items."""
        return bool(self.each or self.each_line)

    def check(self, worker: str | None, *, attached: Sequence[Path] = (), others: Sequence[Any]) -> None:
        """Raise UsageError for flags that do not go together; `others` are prompt, input and parameters."""
        from llm_do_temporal.messages.runs import MAX_CONCURRENCY

        self._check_spread(attached, [worker, *(one for one in others if isinstance(one, str))])
        if self.each and self.each_line is not None:
            raise UsageError("--each and --each-line exclude each other; give one of them")
        if self.concurrency is not None and not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise UsageError(f"--concurrency {self.concurrency} is not a number from 1 to {MAX_CONCURRENCY}")
        if self.strict_inputs and not self.each:
            raise UsageError("--strict-inputs says nothing without --each")
        if self.as_it_was and self.retry_failed is None:
            raise UsageError("--as-it-was says nothing without --retry-failed")
        if self.no_reuse and self.retry_failed is None:
            raise UsageError("--no-reuse says nothing without --retry-failed")
        if self.retry_failed is not None:
            if self.wanted or attached or any(others):
                raise UsageError(
                    "--retry-failed takes the items, the prompt and the files of the run it names; give none here"
                )
        elif worker is None:
            raise UsageError("name the worker to run", next_step="llm-do-temporal start WORKER [PROMPT]")
        elif self.concurrency is not None and not self.wanted:
            raise UsageError("--concurrency says nothing without --each, --each-line or --retry-failed")

    def batch(self, attach: Callable[[Sequence[Path]], tuple[Attachment, ...]]) -> Batch | None:
        """Return the batch, None without items; `attach` takes the files of an item. Raises UsageError.

        Files that cannot be used are told on stderr.
        """
        if not self.wanted:
            return None
        from llm_do_temporal.client.batches import items_of_files, items_of_lines, matching_files, unread_folders
        from llm_do_temporal.messages.runs import DEFAULT_CONCURRENCY, Batch

        if self.each_line is not None:
            items = items_of_lines(self.each_line)
        else:
            files = matching_files(self.each)
            self._tell_unread(unread_folders(self.each))
            items, notes = items_of_files(files, attach)
            self._tell_unusable(notes, len(items))
        return Batch(items=tuple(items), concurrency=self.concurrency or DEFAULT_CONCURRENCY)

    def _tell_unread(self, folders: Sequence[str]) -> None:
        """Say on stderr in which folders no files could be looked for. Raises UsageError as `_tell_unusable` does."""
        if not folders:
            return
        from llm_do_temporal.sandbox.listing import folders_in_words

        words = f"permission to read was denied for {folders_in_words(folders, _SHOWN_FOLDERS)}"
        if self.strict_inputs:
            raise UsageError(words, next_step="Nothing was started.")
        say(visible_line(f"{words}; files in them are no items (--strict-inputs would start nothing)", 4_000))

    def _tell_unusable(self, notes: Sequence[str], total: int) -> None:
        """Say on stderr which files cannot be used, and why. Raises UsageError where that is to stop the start."""
        if not notes:
            return
        head = f"{len(notes)} of {total} files cannot be used"
        if self.strict_inputs:
            raise UsageError("\n  ".join((f"{head}:", *notes)), next_step="Nothing was started.")
        say(f"{head}; their items fail, the others are done (--strict-inputs would start nothing):")
        for note in notes:
            say(f"  {visible_line(note, 400)}")

    def files(self) -> dict[str, Path]:
        """Return the files that --each names, by the names of their items; empty without it. Raises UsageError."""
        from llm_do_temporal.client.batches import matching_files

        return dict(matching_files(self.each)) if self.each else {}

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

    def with_files(self, request: StartRunInput, workshop: Path | None) -> tuple[StartRunInput, dict[str, Path]]:
        """Return a request that `again` made with the files as they are now, and the files by the names of the items.

        They stay as they were with --as-it-was, and where they are not known here. What differs is told on stderr.
        Raises UsageError where no item can be done.
        """
        from llm_do_temporal.client.batches import remembered_files, with_files_of_now
        from llm_do_temporal.client.start import load_local_worker

        run, batch, notes = self.retry_failed or "", request.batch, list[str]()
        if batch is None:
            return request, {}
        files = {} if workshop is None else remembered_files(workshop, run)
        if files and workshop is not None and not self.as_it_was:
            worker = load_local_worker(workshop, request.worker, request.params)
            batch, notes = with_files_of_now(
                batch, files, lambda paths: worker.attach(paths, beside=request.attachments)
            )
        if all(item.unusable for item in batch.items):
            reasons = [f"{item.name}: {item.unusable}" for item in batch.items]
            raise UsageError("\n  ".join(("no file can be used:", *reasons)), next_step="Nothing was started.")
        items = "1 item" if len(batch.items) == 1 else f"{len(batch.items)} items"
        say(f"{items} of run {run} again" + (", with files as they were then" if self.as_it_was else ""))
        for note in notes:
            say(f"  {visible_line(note, 400)}")
        return request.model_copy(update={"batch": batch}), files


NO_BATCH = BatchFlags()


def _is_sibling(text: str, file: str) -> bool:
    """Return whether a word that was typed is the path of a file beside this one, as a pattern would match both."""
    try:
        one, other = Path(text), Path(file)
        return one.parent == other.parent and one.suffix == other.suffix and one.is_file() and other.is_file()
    except (OSError, ValueError):
        return False
