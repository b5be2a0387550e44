"""Files of a workshop, as they are named on a machine that has it, for runs that read them when they begin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from llm_do_temporal.errors import AttachmentRefusal, UsageError
from llm_do_temporal.messages.batches import DEFAULT_CONCURRENCY, InputFiles
from llm_do_temporal.policy.files.sandbox import check_input_path


def input_files(
    workshop: Path,
    *,
    attach: Sequence[Path] = (),
    each: Sequence[str] = (),
    each_line: Path | None = None,
    concurrency: int | None = None,
) -> InputFiles | None:
    """Return files and patterns, which count from here, by their paths below the workshop; None without any.

    Raises UsageError for those that lie elsewhere, or are hidden.
    """
    if not attach and not each and each_line is None:
        return None
    return InputFiles(
        attach=tuple(_below(workshop, str(path)) for path in attach),
        each=tuple(_below(workshop, pattern) for pattern in each),
        each_line="" if each_line is None else _below(workshop, str(each_line)),
        concurrency=concurrency or DEFAULT_CONCURRENCY,
    )


def _below(workshop: Path, given: str) -> str:
    """Return what was typed as a path below the workshop, by its text alone."""
    whole = Path(os.path.normpath(Path.cwd() / given))
    # A link on the way to the workshop is not one of its own.
    for root in (workshop.absolute(), workshop.resolve()):
        if whole.is_relative_to(root) and whole != root:
            relative = whole.relative_to(root).as_posix()
            try:
                check_input_path(relative)
            except AttachmentRefusal as refusal:
                raise UsageError(refusal.message, next_step=refusal.next_step) from refusal
            return relative
    raise UsageError(
        f"'{given[:200]}' lies outside of the workshop: runs that begin by themselves read files of its folder alone",
        next_step="Put the file there, or have its bytes kept as they are now: --pin.",
    )
