"""Changes of workflow code that apply only to workflows which had not come to them before."""

from __future__ import annotations

from typing import Final

from temporalio import workflow

from llm_do_temporal.redaction.shown_names import shown_name

READS_ARGUMENTS: Final = "reads-arguments"
"""Patch: arguments that can be read in one way only are read, and their call is carried out."""
SHARES_STEPS: Final = "shares-steps"
"""Patch: all decisions that come as signals in one task of a workflow are checked with the steps of one validation."""
RECORDS_IGNORED: Final = "records-ignored"
"""Patch: the history keeps why a signal to a run was ignored."""
FAILS_CALLS: Final = "fails-calls"
"""Patch: a call that stays wrong fails, and no longer its invocation."""
YIELDS_PLACES: Final = "yields-places"
"""Patch: items of a batch that wait for a person let others begin."""
SHOWS_NAMES: Final = "shows-names"
"""Patch: the summary of a question has names of files as people are shown them."""


def is_patched(patch: str) -> bool:
    """Whether the workflow that runs now goes by the changed code; True outside of a workflow."""
    return not workflow.in_workflow() or workflow.patched(patch)


def name_in_summary(path: str) -> str:
    """Return a path as the summary of a question has it: two paths that differ are never shown as one."""
    shown = shown_name(path)
    return shown if shown != path and is_patched(SHOWS_NAMES) else path
