"""`gc`, `doctor` and `delete`: looking after what is stored, saying what is wrong, and deleting runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from llm_do_temporal.cli.options import Json, Location, read_duration_flag
from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.extensions.maintenance.removal import Borrowers, Collected
    from llm_do_temporal.storage.blobs import StoredBlob

_MARKS = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}
_NAMED_FORKS = 5
"""Most forks that a note names."""


async def gc(
    *,
    dry_run: bool = False,
    older_than: str = "1h",
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Remove blobs (attached files, changes, long outputs, big values) that no run of the server needs any more.

    Reads the history of every run that the server still has, open or ended. Journals of commits go, too, once they have
    ended and their run is gone.

    Parameters
    ----------
    dry_run
        Only say what would be removed.
    older_than
        Leave what was stored later than that ago: the run it is for may not have begun; 90s, 30m, 1h (default), 2d.
    as_json
        Print a JSON object.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.maintenance.removal import collect, discard_leftovers
    from llm_do_temporal.storage.places import workshop_blobs

    age = read_duration_flag(older_than, "--older-than", is_age=True)
    workshop = location.find_workshop()
    check_one_server(location, workshop, "gc")
    async with opened(location) as session:
        blobs = workshop_blobs(workshop)
        collected = await collect(session.client.temporal, blobs, older_than=age, dry_run=dry_run)
        commits = await discard_leftovers(session.client.temporal, workshop, older_than=age, dry_run=dry_run)
    if as_json:
        print_json(_as_json(collected, commits, dry_run=dry_run), pretty=True)
    else:
        print(f"{'would remove' if dry_run else 'removed'} {_count(collected.removed)}, left {_count(collected.left)}")
        if commits:
            print(f"{'would remove' if dry_run else 'removed'} the journals of {commits} commits whose runs are gone")
        print(f"read the histories of {collected.workflows} workflows")
    return 0


def check_one_server(location: Location, workshop: Path, command: str) -> None:
    """Raise UsageError if runs of another server than the connected one may need the workshop's blobs."""
    from llm_do_temporal.client.connections import names_server
    from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
    from llm_do_temporal.storage.places import BLOBS_VARIABLE, blobs_elsewhere

    state = workshop.resolve() / STATE_FOLDER
    if not names_server(location.connection()):
        url = blobs_elsewhere(workshop)
        if url is not None:
            raise UsageError(
                f"runs of other servers may need what is in '{url}', and the workshop's own server does not see them",
                next_step=f"Name the server that the blobs belong to, with --address HOST:PORT. For the workshop's own "
                f"set {BLOBS_VARIABLE}={(state / 'blobs').as_uri()}",
            )
    elif (database := workshop / STATE_FOLDER / "temporal.db").exists():
        raise UsageError(
            "a server is named, but the workshop has runs on its own embedded server too, and they share its blobs",
            next_step=f"Delete '{database}' if those runs are no longer wanted, then run `{PROGRAM} {command}` again.",
        )


def _count(blobs: Iterable[StoredBlob]) -> str:
    sizes = [one.bytes for one in blobs]
    return f"{len(sizes)} {'blob' if len(sizes) == 1 else 'blobs'} ({sum(sizes)} bytes)"


def _as_json(collected: Collected, commits: int, *, dry_run: bool) -> dict[str, object]:
    def totals(blobs: Iterable[StoredBlob]) -> dict[str, int]:
        sizes = [one.bytes for one in blobs]
        return {"blobs": len(sizes), "bytes": sum(sizes)}

    return {
        "dry_run": dry_run,
        "workflows": collected.workflows,
        "removed": totals(collected.removed),
        "left": totals(collected.left),
        "commits": commits,
    }


async def doctor(
    *,
    json: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Say what is reachable, registered and missing, and how to mend it. Exits with 1, or 4, where anything is wrong.

    Parameters
    ----------
    json
        Print one object.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.extensions.maintenance.doctor import examine

    findings = await examine(location)
    if json:
        good = not any(one.status == "error" for one in findings)
        print_json({"ok": good, "findings": [one.as_json() for one in findings]}, pretty=sys.stdout.isatty())
    else:
        for one in findings:
            print(f"{_MARKS[one.status]}  {one.what:17}  {visible_line(one.message)}")
            if one.next_step is not None:
                print(f"{'':28}{visible_line(one.next_step)}")
    return max((one.exit_code for one in findings if one.status == "error"), default=0)


async def delete(
    run: str,
    /,
    *,
    cancel: bool = False,
    with_forks: bool = False,
    yes: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Delete a run that has ended: its histories, those of its invocations, and the blobs that no other run needs.

    Files that the run wrote in the workshop stay, and so do forks of it: they hold copies of all that they reuse. It
    cannot be undone.

    Parameters
    ----------
    run
        Id of the run.
    cancel
        Cancel the run first where it is open.
    with_forks
        Delete the runs, too, that reuse its answers: its forks and retries, and those of these.
    yes
        Do not ask.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.views.run_list import read_run
    from llm_do_temporal.extensions.maintenance.removal import read_borrowers

    if (workshop := location.local_workshop()) is not None:
        check_one_server(location, workshop, "delete")
    async with opened(location, "decision") as session:
        client = session.client.temporal
        ended = {run: (await read_run(client, run)).ended_at is not None}
        borrowers = await read_borrowers(client, run)
        for one in borrowers.known if with_forks else ():
            # The list knows a moment late that a run has ended.
            is_over = not one.is_open or (await read_run(client, one.run)).ended_at is not None
            ended = {one.run: is_over, **ended}
        if not cancel and (still := [one for one, is_over in ended.items() if not is_over]):
            again = location.command(f"delete {run} --cancel{' --with-forks' if with_forks else ''}")
            raise UsageError(f"run '{still[0]}' is open", next_step=f"Cancel and delete it: {again}")
        for line in _about(borrowers, with_forks=with_forks):
            say(line)
        if not yes:
            await _confirm(list(ended))
        for one, is_over in ended.items():
            await _delete(session, one, cancel=cancel, ended=is_over)
    return 0


async def _delete(session: Session, run: str, *, cancel: bool, ended: bool) -> None:
    """Delete one run and say so; `cancel` stops it first, or what still goes on of one that has `ended`."""
    from llm_do_temporal.client.batches import forget_files
    from llm_do_temporal.extensions.maintenance.removal import delete_run
    from llm_do_temporal.storage.places import workshop_blobs

    if cancel:
        from llm_do_temporal.extensions.maintenance.removal import open_parts

        for part in await open_parts(session.client.temporal, run) if ended else [run]:
            say(f"asking {part} to stop …")
            await session.client.cancel(part)
    blobs = None if session.workshop is None else workshop_blobs(session.workshop)
    deleted = await delete_run(session.client.temporal, run, blobs)
    if session.workshop is not None:
        forget_files(session.workshop, run)
    kept = "; no workshop is known here, so its blobs stay until `gc`" if blobs is None else ""
    histories = "1 history" if deleted.histories == 1 else f"{deleted.histories} histories"
    blobs_gone = "1 blob" if len(deleted.blobs) == 1 else f"{len(deleted.blobs)} blobs"
    print(f"deleted run {run}: {histories}, {blobs_gone}{kept}")


def _about(borrowers: Borrowers, *, with_forks: bool) -> list[str]:
    """Return lines about the runs that hold copies of answers of the one that is deleted."""
    lines: list[str] = []
    if borrowers.known and not with_forks:
        names = ", ".join(one.run for one in borrowers.known[:_NAMED_FORKS])
        more = f" and {len(borrowers.known) - _NAMED_FORKS} more" if len(borrowers.known) > _NAMED_FORKS else ""
        runs = "1 run reuses" if len(borrowers.known) == 1 else f"{len(borrowers.known)} runs reuse"
        lines.append(
            f"note: {runs} its answers: {names}{more}. Copies of them stay there, and those runs stay complete; "
            "--with-forks deletes them, too"
        )
    if borrowers.locked:
        runs = "1 run" if borrowers.locked == 1 else f"{borrowers.locked} runs"
        lines.append(f"note: {runs} cannot be read with the encryption keys here, and may reuse its answers, too")
    return lines


async def _confirm(runs: Sequence[str]) -> None:
    """Raise UsageError unless a person says yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("deleting cannot be undone, and there is no terminal to ask at", next_step="Add --yes.")
    what = f"run {runs[0]}" if len(runs) == 1 else f"{len(runs)} runs ({', '.join(runs)})"
    print(f"Delete {what} for ever? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError(f"run '{runs[-1]}' was not deleted")
