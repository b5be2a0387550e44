"""`gc`: removing stored files and values that no run needs any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from llm_do_temporal.cli.options import Json, Location, read_duration_flag
from llm_do_temporal.cli.text import PROGRAM
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from llm_do_temporal.client.maintenance.gc import Collected
    from llm_do_temporal.storage.blobs import StoredBlob


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
    from llm_do_temporal.client.maintenance.gc import collect, discard_commits
    from llm_do_temporal.storage.places import workshop_blobs

    age = read_duration_flag(older_than, "--older-than", is_age=True)
    workshop = location.find_workshop()
    check_one_server(location, workshop, "gc")
    async with opened(location) as session:
        blobs = workshop_blobs(workshop)
        collected = await collect(session.client.temporal, blobs, older_than=age, dry_run=dry_run)
        commits = await discard_commits(session.client.temporal, workshop, older_than=age, dry_run=dry_run)
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
