"""`grants` and `revoke`: what was remembered for a run, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.messages.approvals import Grant


async def grants(
    run: str,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """List the remembered decisions of a run that are in force.

    Parameters
    ----------
    run
        Id of the run.
    as_json
        Print a JSON list.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import ago, print_table

    async with opened(location) as session:
        found = await session.client.grants(run)
    if as_json:
        print_json([_as_json(grant) for grant in found], pretty=True)
    elif found:
        rows = [
            (grant.approval, grant.tool, grant.verdict.decision, grant.verdict.by or "somebody", when, grant.summary)
            for grant, when in ((grant, ago(grant.verdict.at)) for grant in found)
        ]
        print_table(("ID", "TOOL", "DECISION", "BY", "WHEN", "SUMMARY"), rows)
        say(f"\ntake one back with: {location.command(f'revoke {run} {found[0].approval}')}")
    else:
        say(f"nothing is remembered for run {run}")
    return 0


async def revoke(
    run: str,
    grant: Annotated[str, Parameter(name="ID")],
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Take back a remembered decision: identical calls are asked about again.

    Parameters
    ----------
    run
        Id of the run.
    grant
        Id of the approval that it came from, like a3; `grants` lists them.
    """
    from llm_do_temporal.cli.session import opened

    async with opened(location) as session:
        await session.client.revoke(run, grant, login_name())
    say(f"revoked: the decision of {grant} is no longer remembered for run {run}")
    return 0


def _as_json(grant: Grant) -> dict[str, Any]:
    verdict = grant.verdict
    return {
        "id": grant.approval,
        "tool": grant.tool,
        "summary": grant.summary,
        "decision": verdict.decision,
        "args": verdict.args,
        "by": verdict.by,
        "note": verdict.note,
        "at": verdict.at.isoformat(),
    }
