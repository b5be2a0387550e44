"""`acp`: a worker as the agent of an editor."""

from __future__ import annotations

from llm_do_temporal.cli.commands.doors.pipes import begin_pipes, check_packages, check_pipes
from llm_do_temporal.cli.options import Location
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
    check_pipes("acp")
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.start import load_local_worker
    from llm_do_temporal.doors.acp.transport import serve
    from llm_do_temporal.doors.service import DoorService

    async with opened(location) as session:
        if session.workshop is not None:
            load_local_worker(session.workshop, worker)
        begin_pipes("an editor")
        await serve(DoorService(session.client, session.workshop, embedded=session.embedded), worker)
    return 0
