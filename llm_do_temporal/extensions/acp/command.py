"""`acp`: a worker as the agent of an editor."""

from __future__ import annotations

import os
import stat
import sys
from typing import TextIO

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import begin_pipes, check_packages
from llm_do_temporal.errors import UsageError
from llm_do_temporal.signals import leave_when_told


async def acp(
    worker: str,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Be the agent of an editor by the Agent Client Protocol, over stdin and stdout: each session is a run.

    Parameters
    ----------
    worker
        The worker that answers.
    """
    leave_when_told()
    check_packages("the Agent Client Protocol", "acp", "acp")
    _check_pipes()
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.start import load_local_worker
    from llm_do_temporal.doors.service import DoorService
    from llm_do_temporal.extensions.acp.agent import serve

    async with opened(location) as session:
        if session.workshop is not None:
            load_local_worker(session.workshop, worker)
        begin_pipes("an editor")
        await serve(DoorService(session.client, session.workshop, embedded=session.embedded), worker)
    return 0


def _check_pipes() -> None:
    """Raise UsageError where stdin or stdout is a file or closed: no editor is at the other end."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if not _is_pipe(stream):
            raise UsageError(
                f"acp speaks to an editor over pipes, and its {name} is none",
                next_step="Name it in the settings of an editor, which starts it: docs/how-to/acp.md.",
            )


def _is_pipe(stream: TextIO | None) -> bool:
    try:
        descriptor = -1 if stream is None else stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
