"""`fork`: a run once more, with changes, and with everything reused that these leave as it was."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from llm_do_temporal.cli.options import Location, Output, OutputFormat, Timeout, check_timeout
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import LlmDoError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.forks.fork import ForkPlan, ForkRequest

_CHANGES = Group("Changes", sort_key=1)
_Several = Annotated[tuple[str, ...], Parameter(negative=())]


@Parameter(name="*", group=_CHANGES)
@dataclass(frozen=True, kw_only=True)
class ForkFlags:
    """Changes of a fork. Without any, all is reused, and the result is the same."""

    at: Annotated[
        _Several, Parameter(help="PATH@TURN: ask the model anew from this turn of an invocation on; may be repeated.")
    ] = ()
    worker: Annotated[
        Path | None, Parameter(help="Worker file that is used for the worker of its name, in the place of the old one.")
    ] = None
    set: Annotated[
        _Several,
        Parameter(name="--set", help="[WORKER:]KEY=VALUE: give a key of a worker's file, as it is now, another value."),
    ] = ()
    model: Annotated[str | None, Parameter(help="Model of workers that name none, as for `start`.")] = None
    decide: Annotated[
        _Several,
        Parameter(help='a3=approve, a3=reject:"reason" or a3=modify:@FILE: decide otherwise about what was asked.'),
    ] = ()
    result: Annotated[
        _Several, Parameter(help="PATH@TURN=VALUE, or PATH@TURN#N=@FILE: have a call come to something else.")
    ] = ()
    no_reuse: Annotated[
        _Several, Parameter(name="--no-reuse", help="PATH: do an invocation, and all below it, anew.")
    ] = ()
    files: Annotated[
        Literal["then", "now"],
        Parameter(help="Whether what was read of files and workers counts as it was then (default), or is read now."),
    ] = "then"

    def request(self) -> ForkRequest:
        """Return the changes as the client takes them."""
        from llm_do_temporal.client.forks.fork import ForkRequest

        return ForkRequest(
            at=self.at,
            worker=self.worker,
            settings=self.set,
            model=self.model,
            decide=self.decide,
            results=self.result,
            no_reuse=self.no_reuse,
            then=self.files == "then",
        )


async def fork(
    run: str,
    /,
    *,
    changes: ForkFlags = ForkFlags(),
    dry_run: Annotated[bool, Parameter(name="--dry-run")] = False,
    yes: bool = False,
    id: Annotated[str | None, Parameter(name="--id")] = None,  # noqa: A002 - the name of the option
    detach: bool = False,
    output: Output = "text",
    timeout: Timeout = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Do a run once more with changes, reuse everything that these leave as it was, and stay with it.

    What it changes of files stays in a layer: nothing of the workshop is touched.

    Parameters
    ----------
    run
        Id of the run to fork.
    dry_run
        Say what would be reused, what would run and what that may cost, and start nothing.
    yes
        Do not ask on the terminal before a model is asked anything.
    id
        Id of the fork.
    detach
        Print the id and leave at once.
    output
        What goes to stdout: the result (default), one JSON object, or events as JSON lines.
    timeout
        Seconds to stay at most; the fork goes on.
    """
    from llm_do_temporal.cli.output import RunOutcome, failure, report

    try:
        check_timeout(timeout)
        plan = await _planned(run, changes, location)
        _tell(plan, output, dry_run=dry_run)
        if dry_run:
            return 0
        if not plan.estimate.is_free and not yes and output == "text":
            await _confirm(run)
        started = await _started(plan, id, location)
    except LlmDoError as error:
        return report(failure(error), output)
    if detach:
        if output == "text":
            print(started, flush=True)
        return report(RunOutcome(started, "running"), output)
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

    say(f"run {started}")
    code = await attend(location, started, AttendOptions(choose_stay(output), output, timeout))
    await _say_reused(started, location)
    return code


def _tell(plan: ForkPlan, output: OutputFormat, *, dry_run: bool) -> None:
    """Print the plan: on stdout where nothing else comes, else for people."""
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.reports.fork import plan_json, plan_lines

    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run and output != "text":
        print_json(plan_json(plan), pretty=output == "json")
        return
    for line in plan_lines(plan):
        if dry_run:
            print(line, flush=True)
        else:
            say(line)


async def _planned(run: str, changes: ForkFlags, location: Location) -> ForkPlan:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.forks.fork import plan_fork

    async with opened(location) as session:
        if session.workshop is None:
            raise UsageError(
                "a run can be forked only in its workshop, where what it reuses is kept, and none is known here",
                next_step="Go to the workshop's folder, or name it with --workshop DIR.",
            )
        return await plan_fork(session.client.temporal, run, changes.request(), session.workshop)


async def _started(plan: ForkPlan, run: str | None, location: Location) -> str:
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.storage.places import workshop_blobs

    async with opened(location) as session:
        assert session.workshop is not None
        return await session.client.start(plan.prepared(workshop_blobs(session.workshop)), run=run)


async def _confirm(run: str) -> None:
    """Raise UsageError where a person at the terminal does not want it; without a terminal nobody is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print("Start it? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in ("y", "yes"):
        raise UsageError(f"run '{run}' was not forked")


async def _say_reused(run: str, location: Location) -> None:
    """Say how much was reused, where the fork has completed."""
    from llm_do_temporal.cli.session import opened

    try:
        async with opened(location) as session:
            if (await session.client.status(run)).status != "completed":
                return
            usage = (await session.client.result(run)).usage
    except LlmDoError:
        return
    saved = 0 if usage.saved is None else usage.saved.requests
    turns = saved + usage.requests
    say(f"reused {saved} of {turns} {'turn' if turns == 1 else 'turns'}")
