"""`watch` and `result`: staying with a run that exists."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location, Output, OutputFormat, Timeout, check_timeout
from llm_do_temporal.cli.terminal.recorder import NOTHING, Recording
from llm_do_temporal.errors import UsageError


async def watch(
    run: str,
    /,
    *,
    output: Output = "text",
    timeout: Timeout = None,
    from_seq: Annotated[int | None, Parameter(name="--from-seq")] = None,
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
    from_seq
        With -o jsonl: the first event to print, by its `seq`. Events have the same numbers on every reading.
    """
    check_timeout(timeout)
    check_from_seq(from_seq, output)
    recording.check()
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

    options = AttendOptions(choose_stay(output, recording), output, timeout, recording, from_seq or 1)
    return await attend(location, run, options)


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
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend

    return await attend(location, run, AttendOptions("until_end", output, timeout))


def check_from_seq(number: int | None, output: OutputFormat) -> None:
    """Raise UsageError for a number that no event can have, or where no event is printed."""
    if number is None:
        return
    if output != "jsonl":
        raise UsageError("--from-seq says nothing without -o jsonl")
    if number < 1:
        raise UsageError(f"--from-seq {number} is not a number above zero")
