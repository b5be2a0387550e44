"""`delete`: removing what a run left behind."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from llm_do_temporal.cli.commands.gc import check_one_server
from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session


async def delete(
    run: str,
    /,
    *,
    cancel: bool = False,
    yes: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Delete a run that has ended: its histories, those of its invocations, and the blobs that no other run needs.

    Files that the run wrote in the workshop stay. It cannot be undone.

    Parameters
    ----------
    run
        Id of the run.
    cancel
        Cancel the run first where it is open.
    yes
        Do not ask.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.maintenance.delete import delete_run
    from llm_do_temporal.client.views.run_list import read_run
    from llm_do_temporal.storage.places import workshop_blobs

    if (workshop := location.local_workshop()) is not None:
        check_one_server(location, workshop, "delete")
    async with opened(location) as session:
        ended = (await read_run(session.client.temporal, run)).ended_at is not None
        if not ended and not cancel:
            again = location.command(f"delete {run} --cancel")
            raise UsageError(f"run '{run}' is open", next_step=f"Cancel and delete it: {again}")
        if not yes:
            await _ask(run)
        if cancel:
            await _stop(session, run, ended=ended)
        blobs = None if session.workshop is None else workshop_blobs(session.workshop)
        deleted = await delete_run(session.client.temporal, run, blobs)
    kept = "; no workshop is known here, so its blobs stay until `gc`" if blobs is None else ""
    count = len(deleted.blobs)
    print(f"deleted run {run}: {deleted.histories} histories, {count} {'blob' if count == 1 else 'blobs'}{kept}")
    return 0


async def _ask(run: str) -> None:
    """Raise UsageError unless a person says yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("deleting cannot be undone, and there is no terminal to ask at", next_step="Add --yes.")
    print(f"Delete run {run} for ever? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError(f"run '{run}' was not deleted")


async def _stop(session: Session, run: str, *, ended: bool) -> None:
    """Ask the run to stop, or, where it has ended without them, what still goes on below it."""
    from llm_do_temporal.client.maintenance.delete import open_parts

    for part in await open_parts(session.client.temporal, run) if ended else [run]:
        say(f"asking {part} to stop …")
        await session.client.cancel(part)
