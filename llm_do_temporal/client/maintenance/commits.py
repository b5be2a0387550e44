"""Journals of commits in a workshop: which ones nobody needs any more, and which have begun and not ended.

A commit that was made is kept in its journal, so that it is answered and not repeated when its run asks for it again.
Once the run is gone, nobody does. Called by `gc` and `doctor`. Must not carry a commit on: its own run does.
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.maintenance.doctor import Finding
from llm_do_temporal.client.maintenance.gc import QUERY
from llm_do_temporal.errors import ConnectionFailed, EffectFailed
from llm_do_temporal.sandbox.layers.commit import CommitJournal, Disk

_NAMED = 3
"""Most commits that one finding names."""


async def discard_commits(client: Client, workshop: Path, *, older_than: timedelta, dry_run: bool = False) -> int:
    """Remove the journals of ended commits whose runs the server does not have any more; return how many.

    With `dry_run`, only count them. Raises ConnectionFailed; nothing has been removed then.
    """
    journal = CommitJournal(workshop, Disk())
    before = time.time() - older_than.total_seconds()
    ended = [kept for kept in journal.kept() if kept.record.outcome is not None and kept.written_at < before]
    if not ended:
        return 0
    try:
        known = {execution.id async for execution in client.list_workflows(QUERY)}
    except RPCError as error:
        raise ConnectionFailed(
            f"the runs cannot be listed, so no journal of a commit was removed: {error.message}",
            next_step="Try again when the server answers.",
        ) from error
    useless = [kept.record.key for kept in ended if workflow_of(kept.record.key) not in known]
    for key in useless if not dry_run else ():
        journal.discard(key)
    return len(useless)


def workflow_of(key: str) -> str:
    """Return the id of the workflow that made the commit with this key."""
    return key.rpartition("#")[0]


def examine_commits(workshop: Path) -> list[Finding]:
    """Return the findings of `doctor` about commits that have begun and not ended, and journals that are damaged."""
    try:
        unfinished = CommitJournal(workshop, Disk()).unfinished()
    except EffectFailed as error:
        return [Finding("commits", "error", error.message, error.next_step)]
    if not unfinished:
        return []
    keys = [record.key for record in unfinished]
    more = f", and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    files = sum(len({step.path for step in record.steps}) for record in unfinished)
    return [
        Finding(
            "commits",
            "warning",
            f"begun, and not ended: {', '.join(keys[:_NAMED])}{more} ({files} files, some may be changed already)",
            "Start a worker service: the run goes on to the end of it. If the run was terminated or deleted, look at "
            "the files, then remove its journal from '.llm-do/commits'.",
        )
    ]
