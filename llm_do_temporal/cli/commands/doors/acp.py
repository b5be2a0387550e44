"""`acp`: a worker as the agent of an editor."""

from __future__ import annotations

from importlib.util import find_spec

from llm_do_temporal.cli.options import Location
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
    if find_spec("acp") is None:
        raise UsageError(
            "the package for the Agent Client Protocol is not installed",
            next_step="Install it: pip install 'llm-do-temporal[acp]'",
        )
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.start import load_local_worker
    from llm_do_temporal.doors.acp.transport import serve
    from llm_do_temporal.doors.service import DoorService

    async with opened(location) as session:
        if session.workshop is not None:
            load_local_worker(session.workshop, worker)
        await serve(DoorService(session.client, session.workshop, embedded=session.embedded), worker)
    return 0
