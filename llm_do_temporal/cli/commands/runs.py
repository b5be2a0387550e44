"""`list`, `show`, `watch`, `result` and `cancel`: looking at runs, staying with one, and stopping one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.options import (
    HERE,
    JsonList,
    JsonObject,
    Location,
    Output,
    OutputFormat,
    Run,
    StayTimeout,
    Timeout,
    check_limit,
    check_timeout,
)
from llm_do_temporal.cli.terminal.recorder import NOTHING, Recording
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from temporalio.client import Client

    from llm_do_temporal.client.views.run_list import RunSummary
    from llm_do_temporal.messages.budget import Usage
    from llm_do_temporal.policy.run_filter import RunFilter


_SAID_EVERY = 5_000
"""Runs after which a search says how far it is; a multiple of what the server lists at once."""


async def list_runs(
    *,
    state: str = "",
    worker: str = "",
    who: str = "",
    since: str = "",
    until: str = "",
    text: str = "",
    view: str = "",
    schedule: str = "",
    evaluations: Annotated[bool, Parameter(negative="")] = False,
    limit: int = 50,
    cost: Annotated[bool, Parameter(negative="")] = False,
    as_json: JsonList = False,
    location: Location = HERE,
) -> int:
    """List runs, the open ones first, then those that ended last.

    Those that evaluations have started, of their cases and judges, are left out, and a line says how many.

    Parameters
    ----------
    state
        Only those that are open, running, waiting, completed, partly failed, failed, cancelled, terminated, timed out.
    worker
        Only those of this entry worker.
    who
        Only those that this person started.
    since
        Only those that began since then: 7d, 12h, 2026-11-01 or 2026-11-01T08:30, in UTC.
    until
        Only those that began until then.
    text
        Only those with these words in the task or in the id.
    view
        Name of a view that `views:` of workshop.yaml has; other flags come before what it says.
    schedule
        Only those that this schedule has started.
    evaluations
        With those that evaluations have started.
    limit
        How many at most.
    cost
        With what each has cost so far, for which the end of each history is read.
    """
    from llm_do_temporal.client.views.run_list import read_filter

    flags = {"state": state, "worker": worker, "who": who, "since": since, "until": until, "text": text}
    check_limit(limit)
    asked: dict[str, Any] = flags | {"schedule": schedule, "evaluations": evaluations}
    wanted = read_filter(_view(location, view) | {name: value for name, value in asked.items() if value})
    runs, spent, left_out = await _read(location, wanted, limit=limit, cost=cost)
    _print_list(runs, spent, as_json=as_json)
    for line in _notes(wanted, left_out, found=as_json or bool(runs)):
        say(line)
    return 0


def _print_list(runs: list[RunSummary], spent: dict[str, Usage] | None, *, as_json: bool) -> None:
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.tables import print_table

    if as_json:
        print_json([_summary_json(run, spent) for run in runs], pretty=True)
    elif runs:
        print_table(*runs_table(runs, spent))


def _notes(wanted: RunFilter, left_out: int, *, found: bool) -> list[str]:
    """Return what is said beside a list, which has runs if some were `found`."""
    lines: list[str] = []
    if not found and wanted.given:
        said = ", ".join(f"{name} {value}" for name, value in wanted.given.items())
        lines.append(f"no run is like that: {said}")
    elif not found and not left_out:
        lines.append("there are no runs; begin one with `llm-do-temporal start WORKER`")
    return [*lines, _left_out_line(left_out, wanted)] if left_out else lines


def _left_out_line(count: int, wanted: RunFilter) -> str:
    runs = "1 run" if count == 1 else f"{count:,} runs"
    about = f"up to {runs} like that" if wanted.needs_memo else f"{runs} like that" if wanted.given else runs
    return f"not in this list: {about} of evaluations; `list --evaluations` has them, `eval list` the experiments"


async def _read(
    location: Location, wanted: RunFilter, *, limit: int, cost: bool
) -> tuple[list[RunSummary], dict[str, Usage] | None, int]:
    """Return the first runs that are wanted, their usage, and how many runs of evaluations are left out.

    The usage is None unless `cost` asks for it.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.views.run_list import count_left_out, every_run

    told = _say_looked_at if wanted.needs_memo else None
    async with opened(location, "reading") as session:
        temporal = session.client.temporal
        listed = [run async for run in every_run(temporal, wanted, limit=limit, told=told)]
        spent = await _spent(temporal, listed) if cost else None
        left_out = await count_left_out(temporal, wanted)
    return listed, spent, left_out


def _say_looked_at(runs: int) -> None:
    """Say from time to time how far a search is: a server lists a few thousand runs a second."""
    if runs % _SAID_EVERY == 0:
        say(f"looked at {runs:,} runs so far")


async def _spent(temporal: Client, listed: Sequence[RunSummary]) -> dict[str, Usage]:
    """Return the usage of the runs in the list, as far as it can be read."""
    from llm_do_temporal.client.views.run_list import read_all_spent
    from llm_do_temporal.client.views.tree import Accounts

    return {run.run: spent.total for run, spent in await read_all_spent(Accounts(temporal), listed) if _is_read(run)}


def _is_read(run: RunSummary) -> bool:
    return run.has_history and not run.missing_key


def runs_table(runs: list[RunSummary], spent: Mapping[str, Usage] | None = None) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table; people have a column where not all runs are of the same one.

    `spent` has the usage of the runs; None: there is no column for it.
    """
    from llm_do_temporal.cli.reports.show import price
    from llm_do_temporal.cli.tables import TASK_CHARS, ago, rough

    columns = {
        "TASK": [visible_line(run.task, TASK_CHARS) or "-" for run in runs],
        "RUN": [run.run for run in runs],
        "WORKER": [run.worker for run in runs],
        "STATUS": [_status(run) for run in runs],
        "APPROVALS": [str(run.pending or "") for run in runs],
        "STARTED": [ago(run.started_at) for run in runs],
        "TOOK": ["" if run.ended_at is None else rough(run.ended_at - run.started_at) for run in runs],
    }
    if any(run.fork_of for run in runs):
        columns["FORK OF"] = [run.fork_of for run in runs]
    if any(run.schedule for run in runs):
        columns["SCHEDULE"] = [run.schedule for run in runs]
    for kind in dict.fromkeys(run.part.kind for run in runs if run.part is not None):
        parts = [None if run.part is None or run.part.kind != kind else run.part for run in runs]
        columns[kind.upper()] = ["" if part is None else part.words for part in parts]
    if spent is not None:
        columns["COST"] = [price(spent[run.run]) if run.run in spent else "?" for run in runs]
    if len({run.started_by for run in runs}) > 1:
        columns["BY"] = [run.started_by for run in runs]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _view(location: Location, name: str) -> dict[str, str]:
    """Return what a view of the workshop's file lets through; everything without a name. Raises UsageError."""
    from llm_do_temporal.definitions.workshop import load_workshop

    if not name:
        return {}
    workshop = location.local_workshop()
    views = {} if workshop is None else load_workshop(workshop).config.views
    if name not in views:
        known = f"there are {', '.join(views)}" if views else "workshop.yaml has no `views:`"
        raise UsageError(f"there is no view '{name}'; {known}")
    return views[name].given


async def show(run: Run, /, *, cost: bool = False, as_json: JsonObject = False, location: Location = HERE) -> int:
    """Show a run: its task, tree, result, files and cost, and every approval with who, when and what.

    Parameters
    ----------
    cost
        Show what every invocation and every model has cost instead.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.reports.show import cost_lines, print_record, read_record, record_json
    from llm_do_temporal.cli.session import opened

    async with opened(location, "reading") as session:
        summary = await session.client.status(run)
        view, decided, story = await read_record(session.client, run, served_since=session.served_since)
    if as_json:
        print_json(record_json(summary, view, decided, story), pretty=True)
    elif cost:
        print("\n".join(cost_lines(view)), flush=True)
    else:
        print_record(summary, view, decided, story)
    return 0


async def cancel(run: Run, /, *, location: Location = HERE) -> int:
    """Ask a run, and everything below it, to stop."""
    from llm_do_temporal.cli.session import opened

    async with opened(location, "decision") as session:
        summary = await session.client.status(run)
        if summary.ended_at is not None:
            raise UsageError(f"run '{run}' has already ended: {summary.status}")
        await session.client.cancel(run)
    say(f"asked run {run} to stop")
    return 0


def _status(run: RunSummary) -> str:
    from llm_do_temporal.client.views.run_view import with_counts

    if run.missing_key:
        return f"{run.status}, key '{run.missing_key}' is missing"
    return with_counts(run.status, run.items)


def _summary_json(run: RunSummary, spent: Mapping[str, Usage] | None) -> dict[str, Any]:
    from llm_do_temporal.cli.output import cost_json, counts_json, part_json

    return {
        "run": run.run,
        "task": run.task or None,
        "worker": run.worker,
        "started_by": run.started_by or None,
        "status": run.status,
        **counts_json(run.items),
        "pending_approvals": run.pending,
        "started_at": run.started_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "missing_key": run.missing_key or None,
        **({"fork_of": run.fork_of} if run.fork_of else {}),
        **({"schedule": run.schedule} if run.schedule else {}),
        **part_json(run.part),
        **(cost_json(spent[run.run]) if spent is not None and run.run in spent else {}),
    }


async def watch(
    run: Run,
    /,
    *,
    output: Output = "text",
    timeout: StayTimeout = None,
    from_seq: Annotated[int | None, Parameter(name="--from-seq")] = None,
    recording: Recording = NOTHING,
    location: Location = HERE,
) -> int:
    """Show a run until it ends: live on a terminal, else until it needs a person.

    Parameters
    ----------
    from_seq
        With -o jsonl: the first event to print, by its `seq`. Events have the same numbers on every reading.
    """
    check_timeout(timeout)
    check_from_seq(from_seq, output)
    recording.check()
    from llm_do_temporal.cli.terminal.attend import AttendOptions, attend, choose_stay

    options = AttendOptions(choose_stay(output, recording), output, timeout, recording, from_seq or 1)
    return await attend(location, run, options)


async def result(run: Run, /, *, output: Output = "text", timeout: Timeout = None, location: Location = HERE) -> int:
    """Wait for the end of a run, whoever it waits for, and print the result.

    Parameters
    ----------
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
