"""`rules test`: a policy tried on the calls of the past, before it holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location, read_duration_flag
from llm_do_temporal.cli.text import say

if TYPE_CHECKING:
    from llm_do_temporal.policy.backtest.verdicts import Policy

_GOES_AGAINST = 1
"""Exit code where a call newly passes that a person rejected or changed."""


async def try_rules(
    file: Path | None = None,
    /,
    *,
    add: list[str] | None = None,
    since: str = "30d",
    as_json: Annotated[bool, Parameter(name="--json")] = False,
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
    from llm_do_temporal.cli.reports.trial import left_out, trial_lines, trial_sentence
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.client.rules.past_calls import PastCallReader
    from llm_do_temporal.client.rules.trial import try_policy

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
    from llm_do_temporal.client.rules.policies import policy_of_file, policy_of_workshop, with_entries

    if file is None and not added:
        return policy_of_workshop(location.find_workshop()), None
    folder = location.find_workshop() if file is None else location.local_workshop()
    today = None if folder is None else policy_of_workshop(folder)
    tried = policy_of_file(file) if file is not None else today
    assert tried is not None
    return with_entries(tried, added), today
