"""Groups of similar questions as tables for people, and decisions about several questions at once.

A table has what is the same in all, and a line for each with what differs. Those to be decided are shown whole,
confirmed, and told about one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from llm_do_temporal.cli.options import Location, Several
from llm_do_temporal.cli.output import WAITING, print_json
from llm_do_temporal.cli.session import opened
from llm_do_temporal.cli.tables import TASK_CHARS, ago, format_table, locked_line, width_of
from llm_do_temporal.cli.terminal.prompts import read_line
from llm_do_temporal.cli.text import say, value_line, visible_line
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.decisions import Fate, QuestionOutcome, counted, with_asked_again
from llm_do_temporal.client.open_questions import InboxEntry, QuestionGroup, read_group, read_groups, read_run
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.policy.run_filter import RunFilter

SHOWN_ROWS = 10
"""Questions of each group in a list of groups, unless somebody wants more."""
KEY_CHARS = 8
"""Beginning of a group's key in a list: enough to name it by."""
_INDENT = "  "
_CELL_CHARS = 100


async def list_groups(location: Location, run: str | None, *, limit: int | None, as_json: bool) -> int:
    """Print what waits, in groups, the one with the oldest question first; of each group at most `limit` lines."""
    async with opened(location, "reading") as session:
        client = session.client
        found = await read_groups(client) if run is None else await read_run(client, run)
        is_empty = not (as_json or found.groups or found.locked)
        nothing = await nothing_waits_lines(client, run, location) if is_empty else ()
    if as_json:
        print_json([group_json(group) for group in found.groups], pretty=True)
        return 0
    for group in found.groups:
        print("\n".join(group_lines(group, width_of(sys.stdout), limit or SHOWN_ROWS)), end="\n\n", flush=True)
    if several := [group for group in found.groups if group.key and len(group.entries) > 1]:
        say(f"decide all of a group with: {location.command(f'approve --group {several[0].key[:KEY_CHARS]}')}")
    for line in nothing:
        say(line)
    if found.unlisted:
        say(f"not shown: {_questions(found.unlisted)} of runs that ask more than a list has room for")
    for locked in found.locked:
        say(locked_line(locked))
    return 0


async def nothing_waits_lines(client: LlmDoClient, run: str | None, location: Location) -> tuple[str, ...]:
    """Return the lines for an empty list of questions, of one run or of all runs.

    They say, too, whether runs go on that may still ask.
    """
    nothing = "nothing waits for approval"
    if run is None:
        goes_on = bool(await client.runs(RunFilter(state="open"), limit=1))
    else:
        goes_on = (await client.status(run)).ended_at is None
    if not goes_on:
        return (nothing,)
    who, watch = ("runs go on", "approvals watch") if run is None else ("the run goes on", f"approvals watch {run}")
    return (nothing, f"{who}, and may ask: `{location.command(watch)}` shows what comes")


def group_lines(group: QuestionGroup, width: int | None, limit: int | None = None) -> list[str]:
    """Return the lines of a group: its head, what all share, and a table of what differs.

    With `limit` at most so many rows, cut at `width`; None: all of them to be decided, with nothing cut. A table that
    is too wide has a line for each value then.
    """
    entries = group.entries[:limit]
    runs = "" if len(group.entries) == 1 else f" of {group.runs} {'run' if group.runs == 1 else 'runs'}"
    key = f"{group.key[:KEY_CHARS]}  " if group.key else ""
    lines = [f"{key}{_questions(len(group.entries))}{runs}: {value_line(group.title)}"]
    if group.differences:
        lines.append(f"  they differ in {visible_line(group.differences)}")
    if group.common:
        same = ", ".join(f"{visible_line(name)} {value_line(text)}" for name, text in group.common.items())
        lines.append(f"  the same in all: {same}")
    table = format_table(*_table(group, limit), None)
    is_narrow = limit is None and width is not None and max(map(len, table)) > width - len(_INDENT)
    if is_narrow:
        lines += [f"{_INDENT}task: {visible_line(group.task)}"] if group.task else []
        lines += [line for entry in entries for line in _apart(group, entry)]
    else:
        lines += [f"{_INDENT}{line}" for line in table]
    if left := len(group.entries) - len(entries):
        lines.append(f"  and {left:,} more")
    if group.in_part:
        part = "its" if len(group.entries) == 1 else f"{group.in_part} of them: not"
        tail = " arguments are not shown whole here" if part == "its" else " all arguments are shown whole here"
        lines.append(f"  {part}{tail}")
    if width is None:
        return lines
    if limit is None:
        return [part for line in lines for part in _wrapped(line, width)]
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]


def _apart(group: QuestionGroup, entry: InboxEntry) -> Iterator[str]:
    """Yield the lines of one question of a group whose table is too wide for the screen, one for each value."""
    of_run = f" of {visible_line(entry.run)}" if group.runs > 1 else ""
    task = f" ({visible_line(entry.task, TASK_CHARS)})" if entry.task and not group.task else ""
    by = f" by {visible_line(entry.worker)}" if group.tells_workers else ""
    told = zip(group.columns, group.cells(entry), strict=True)
    cells = [f"{visible_line(name)}: {value_line(cell)}" for name, cell in told]
    first, *others = cells or [visible_line(entry.summary)]
    yield f"{_INDENT}{entry.id}{of_run}{by}{task}  {first}"
    yield from (f"{_INDENT * 3}{other}" for other in others)


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts of the width; what goes on begins further in, so that it cannot pass for another line."""
    inner = _INDENT * 4
    room = max(width - len(inner), 1)
    rest = line[width:]
    return [line[:width], *(f"{inner}{rest[at : at + room]}" for at in range(0, len(rest), room))]


def group_json(group: QuestionGroup) -> dict[str, Any]:
    """Return a group as `approvals --group --json` prints it."""
    return {
        "group": group.key or None,
        "title": group.title,
        "runs": group.runs,
        "common": group.common,
        "values": group.values,
        "questions": [
            {
                "run": entry.run,
                "task": entry.task,
                "id": entry.id,
                "digest": entry.digest or None,
                "worker": entry.worker,
                "path": entry.path,
                "tool": entry.tool,
                "summary": entry.summary,
                "asked_at": entry.asked_at.isoformat(),
                "args": dict(zip(group.columns, group.cells(entry), strict=True)),
                "whole": entry.group is not None and entry.group.is_whole,
            }
            for entry in group.entries
        ],
    }


def _table(group: QuestionGroup, limit: int | None) -> tuple[list[str], list[list[str]]]:
    entries, is_alone = group.entries[:limit], len(group.entries) == 1
    columns = {"RUN": [entry.run for entry in entries], "ID": [entry.id for entry in entries]}
    if any(entry.task for entry in entries):
        columns["TASK"] = [visible_line(entry.task, TASK_CHARS) for entry in entries]
    if group.tells_workers:
        columns["WORKER"] = [entry.worker for entry in entries]
    columns["ASKED"] = [ago(entry.asked_at) for entry in entries]
    if is_alone:
        columns["ABOUT"] = [entry.summary for entry in entries]
    cells = [[value_line(cell, _CELL_CHARS) for cell in group.cells(entry)] for entry in entries]
    # A model may name an argument like a column.
    columns |= {f"{name}:": [row[number] for row in cells] for number, name in enumerate(group.columns)}
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _questions(count: int) -> str:
    return f"{count:,} {'question' if count == 1 else 'questions'}"


_WORDS = {
    Fate.TAKEN: "taken",
    Fate.AGREED: "waiting for others",
    Fate.SENT: "sent, no worker service has answered yet",
    Fate.LATE: "late, somebody was faster",
    Fate.CHANGED: "changed meanwhile",
    Fate.GONE: "gone, nobody needs an answer any more",
    Fate.REFUSED: "refused",
    Fate.UNKNOWN: "unknown, the connection was lost",
    Fate.AGAIN: "not carried out and asked again",
}


async def decide_several(location: Location, run: str | None, several: Several, decision: Decision) -> int:
    """Decide all questions of a run, or of a group; return the exit code.

    0: each was taken, or is on its way; WAITING: each was taken, and calls are asked about again."""
    if several.all and several.group is not None:
        raise UsageError("--all is about one run and --group about all; give one of them")
    if several.group is not None and run is not None:
        raise UsageError(f"--group is about all runs; leave '{run}' out, or use --all for all that it asks")
    if several.group is None and run is None:
        raise UsageError("--all is about one run; name it: RUN --all")
    async with opened(location, "decision") as session:
        if several.group is None:
            found = (await read_run(session.client, run or "")).groups
        else:
            group = await read_group(session.client, several.group)
            found = [] if group is None else [group]
        groups = [group for group in found if all(entry.view is None for entry in group.entries)]
        views = {view.noun: view for group in found for entry in group.entries if (view := entry.view) is not None}
        for view in views.values():
            say(f"{view.noun}s are answered one by one: {location.command(view.command(run or ''))}")
        questions = [question for group in groups for question in group.frozen()]
        if not questions:
            say("nothing of it waits for approval")
            return 0
        say("\n".join(line for one in groups for line in (*group_lines(one, width_of(sys.stderr)), "")))
        these = "this one" if len(questions) == 1 else f"these {len(questions):,}"
        verb = "reject" if decision.decision is DecisionKind.REJECT else "approve"
        if not several.yes and not await _is_meant(f"{verb} {these}"):
            say("nothing was decided")
            return 1
        outcomes = await with_asked_again(session.client, await session.client.decide_many(questions, decision))
    if several.as_json:
        print_json([outcome.as_json() for outcome in outcomes], pretty=True)
    say("\n".join(outcome_lines(outcomes)))
    if any(not outcome.fate.counts for outcome in outcomes):
        return DecisionRefused.exit_code
    return WAITING if any(outcome.fate is Fate.AGAIN for outcome in outcomes) else 0


def outcome_lines(outcomes: Sequence[QuestionOutcome]) -> list[str]:
    """Return what became of the questions: counts, and a line for each that was not simply taken or sent."""
    counts = ", ".join(f"{count:,} {_WORDS[fate]}" for fate, count in counted(outcomes).items())
    told = [one for one in outcomes if one.words]
    rows = [(one.question.run, one.question.id, one.fate.value, visible_line(one.words, 300)) for one in told]
    table = format_table(("RUN", "ID", "OUTCOME", ""), rows, None) if rows else []
    return [f"{len(outcomes):,} decided: {counts}", *(f"  {line}" for line in table)]


async def _is_meant(what: str) -> bool:
    """Whether the person at the terminal agrees. Raises UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"nobody can be asked here whether to {what}; nothing was decided", next_step="Add --yes.")
    typed = await read_line(f"{what}? [y/N] ")
    return (typed or "").strip().lower() in ("y", "yes")
