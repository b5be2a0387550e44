"""`rules`: the entries of a workshop that need no person, and those that past decisions speak for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location, read_duration_flag
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.rules.advice import RuleAdvice
    from llm_do_temporal.client.rules.past_calls import PastCalls


def rules(
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """List the calls that need no person: entries of `approvals: allow:` in workshop.yaml, each as a sentence."""
    from llm_do_temporal.cli.tables import print_table
    from llm_do_temporal.definitions.workshop.workshop import load_workshop

    allow = load_workshop(location.find_workshop()).config.approvals.allow
    if allow:
        print_table(("NO", "CALLS", "WHY"), [(str(no), one.sentence, one.why) for no, one in enumerate(allow, 1)])
    else:
        say("workshop.yaml has no `approvals: allow:`; " + f"`{location.command('rules suggest')}` proposes entries")
    return 0


async def suggest(
    *,
    since: str = "30d",
    min_runs: int = 3,
    min_days: int = 2,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Propose rules that would have answered what people approved again and again, as a diff of workshop.yaml.

    Parameters
    ----------
    since
        How far back past calls are read, like 12h or 30d; default: 30d.
    min_runs
        Fewest runs in which people approved such calls.
    min_days
        Fewest days on which they did.
    as_json
        Print the entries with their numbers, and the diff, as one JSON object.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened, task_queue
    from llm_do_temporal.client.rules.advice import advice_on
    from llm_do_temporal.client.rules.past_calls import PastCallReader
    from llm_do_temporal.client.rules.proposal import proposed_change
    from llm_do_temporal.definitions.workshop.workshop import load_workshop

    begin = datetime.now(UTC) - read_duration_flag(since, "--since", is_age=True)
    for name, number in (("--min-runs", min_runs), ("--min-days", min_days)):
        if number < 1:
            raise UsageError(f"{name} {number} is not a number above zero")
    folder = location.find_workshop()
    workshop = load_workshop(folder)
    async with opened(location) as session:
        past = await PastCallReader(session.client.temporal, task_queue=task_queue()).read(begin)
    advice = advice_on(past.calls, workshop.config.approvals, min_runs=min_runs, min_days=min_days)
    diff = proposed_change(folder, advice)
    if as_json:
        print_json(_as_json(advice, past, diff), pretty=True)
    else:
        sys.stdout.write(diff)
        sys.stdout.flush()
    _tell(advice, past, since)
    return 0


def _tell(advice: RuleAdvice, past: PastCalls, since: str) -> None:
    for line in _sentences(advice, past, since):
        say(line)


def _sentences(advice: RuleAdvice, past: PastCalls, since: str) -> Iterator[str]:
    number = len(advice.entries)
    asked = f"asked {_times(advice.asked)} in {_days(since)}"
    if number:
        these = "this rule leaves" if number == 1 else f"these {number} rules leave"
        wrong = "none" if advice.wrong == 0 else str(advice.wrong)
        passed = "it newly passes" if number == 1 else "they newly pass"
        yield f"{asked}; {these} {advice.left}; {passed} {wrong} that was rejected or changed"
    else:
        yield f"{asked}; nothing was approved often enough, and never refused, to make a rule of it"
    if past.locked:
        runs = "1 run" if len(past.locked) == 1 else f"{len(past.locked)} runs"
        yield f"not read: {runs} whose key or blob store is missing here, like {past.locked[0]}"
    if past.is_cut:
        yield f"not read: all but the newest {past.runs} runs; a shorter --since reads what it names whole"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _days(since: str) -> str:
    number, unit = int(since[:-1]), {"s": "second", "m": "minute", "h": "hour", "d": "day"}[since[-1]]
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _as_json(advice: RuleAdvice, past: PastCalls, diff: str) -> dict[str, Any]:
    return {
        "asked": advice.asked,
        "left": advice.left,
        "wrong": advice.wrong,
        "runs": past.runs,
        "locked": list(past.locked),
        "cut": past.is_cut,
        "entries": [one.as_json() for one in advice.entries],
        "diff": diff,
    }
