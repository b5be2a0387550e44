"""`rules`: entries of a workshop that need no person, those that past decisions speak for, and trials of a policy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from llm_do_temporal.cli.options import Json, Location, read_duration_flag
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.extensions.rules.policy.verdicts import Policy
    from llm_do_temporal.extensions.rules.trial import PastCalls, RuleAdvice


def rules(
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """List the calls that need no person: entries of `approvals: allow:` in workshop.yaml, each as a sentence."""
    from llm_do_temporal.cli.tables import print_table
    from llm_do_temporal.definitions.workshop import load_workshop

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
    as_json: Json = False,
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
    from llm_do_temporal.definitions.workshop import load_workshop
    from llm_do_temporal.extensions.rules.trial import PastCallReader, advice_on, proposed_change

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
        found = {"asked": advice.asked, "left": advice.left, "wrong": advice.wrong, "runs": past.runs}
        found |= {"locked": list(past.locked), "cut": past.is_cut}
        print_json({**found, "entries": [one.as_json() for one in advice.entries], "diff": diff}, pretty=True)
    else:
        sys.stdout.write(diff)
        sys.stdout.flush()
    for line in _sentences(advice, past, since):
        say(line)
    return 0


def _sentences(advice: RuleAdvice, past: PastCalls, since: str) -> Iterator[str]:
    number = len(advice.entries)
    times = "once" if advice.asked == 1 else f"{advice.asked:,} times"
    days, unit = int(since[:-1]), {"s": "second", "m": "minute", "h": "hour", "d": "day"}[since[-1]]
    asked = f"asked {times} in {days} {unit}{'' if days == 1 else 's'}"
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


_GOES_AGAINST = 1
"""Exit code where a call newly passes that a person rejected or changed."""


async def try_rules(
    file: Path | None = None,
    /,
    *,
    add: list[str] | None = None,
    since: str = "30d",
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Try rules on past calls. Nothing is asked, changed or run.

    Without FILE and --add, the workshop's rules of today are compared with what happened. Ends with exit code 1 where a
    call newly passes that a person rejected or changed.

    Parameters
    ----------
    file
        A changed workshop.yaml, to be compared with the workshop's own.
    add
        An entry of `approvals: allow:`, as YAML; may be repeated.
    since
        How far back to look, like 12h or 30d.
    as_json
        Print a JSON object.
    """
    import sys

    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.extensions.rules.report import left_out, trial_lines, trial_sentence
    from llm_do_temporal.extensions.rules.trial import PastCallReader, try_policy

    begin = datetime.now(UTC) - read_duration_flag(since, "--since", is_age=True)
    policy, today = _policies(file, add or [], location)
    async with opened(location) as session:
        past = await PastCallReader(session.client.temporal).read(begin)
    trial = try_policy(policy, past, today=today)
    if as_json:
        print_json(trial.as_json(), pretty=True)
    else:
        print("\n".join(trial_lines(trial, width_of(sys.stdout))), flush=True)
    for line in left_out(trial):
        say(line)
    say(trial_sentence(trial, since))
    return _GOES_AGAINST if trial.against else 0


def _policies(file: Path | None, added: list[str], location: Location) -> tuple[Policy, Policy | None]:
    """Return the policy that is tried, and the one that it is compared with; None: with what happened.

    Raises UsageError, DefinitionError, WorkshopNotFound.
    """
    from llm_do_temporal.extensions.rules.trial import policy_of_file, policy_of_workshop, with_entries

    if file is None and not added:
        return policy_of_workshop(location.find_workshop()), None
    folder = location.find_workshop() if file is None else location.local_workshop()
    today = None if folder is None else policy_of_workshop(folder)
    tried = policy_of_file(file) if file is not None else today
    assert tried is not None
    return with_entries(tried, added), today
