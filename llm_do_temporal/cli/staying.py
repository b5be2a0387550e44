"""`watch` and `result`: staying with a run that exists."""

from __future__ import annotations

from llm_do_temporal.cli.options import Location, Output, Timeout, check_timeout
from llm_do_temporal.cli.recording import NOTHING, Recording


async def watch(
    run: str,
    /,
    *,
    output: Output = "text",
    timeout: Timeout = None,
    recording: Recording = NOTHING,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show a run until it ends: live on a terminal, else until it needs a person.

    Parameters
    ----------
    run
        Id of the run.
    output
        What goes to stdout: the result (default), one JSON object, or events as JSON lines.
    timeout
        Seconds to stay at most; the run goes on.
    """
    check_timeout(timeout)
    recording.check()
    from llm_do_temporal.cli.watching import Manner, attend, choose_stay

    return await attend(location, run, Manner(choose_stay(output, recording), output, timeout, recording))


async def result(
    run: str,
    /,
    *,
    output: Output = "text",
    timeout: Timeout = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Wait for the end of a run, whoever it waits for, and print the result.

    Parameters
    ----------
    run
        Id of the run.
    output
        What goes to stdout: the result (default), one JSON object, or events as JSON lines.
    timeout
        Seconds to wait at most; the run goes on.
    """
    check_timeout(timeout)
    from llm_do_temporal.cli.watching import Manner, attend

    return await attend(location, run, Manner("until_end", output, timeout))
