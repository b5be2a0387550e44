"""Decisions that stand for further calls of a run: `grants`, `revoke`, and the kinds that a call is one of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from llm_do_temporal.cli.options import HERE, JsonList, Location, Run
from llm_do_temporal.cli.text import say, value_line
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.messages.approvals import Grant
    from llm_do_temporal.policy.kinds.kind import KindGrant


async def grants(run: Run, /, *, as_json: JsonList = False, location: Location = HERE) -> int:
    """List the remembered decisions and granted kinds of a run."""
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import print_table

    async with opened(location, "reading") as session:
        found = await session.client.grants(run)
    if as_json:
        print_json([_grant_json(grant) for grant in found], pretty=True)
    elif found:
        print_table(*grants_table(found))
        say(f"\ntake one back with: {location.command(f'revoke {run} {found[0].approval}')}")
    else:
        say(f"nothing is remembered for run {run}")
    return 0


async def revoke(run: Run, grant: Annotated[str, Parameter(name="ID")], /, *, location: Location = HERE) -> int:
    """Take back a remembered decision or a granted kind: the calls that it covered are asked about again.

    Parameters
    ----------
    grant
        Id of the approval that it came from, like a3; `grants` lists them.
    """
    from llm_do_temporal.cli.session import opened

    async with opened(location, "decision") as session:
        await session.client.revoke(run, grant, login_name())
    say(f"revoked: the decision of {grant} is no longer remembered for run {run}")
    return 0


async def show_kinds(location: Location, run: str | None, approval: str | None, *, as_json: bool) -> int:
    """Print the kinds that the call of an approval is one of, with what each would have covered so far.

    Raises UsageError where no single approval is named.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import kind_lines
    from llm_do_temporal.client.decisions import read_kinds

    if run is None or approval is None:
        raise UsageError("--kinds is about one approval: name the run and its id, like `approvals RUN a3 --kinds`")
    async with opened(location, "reading") as session:
        offers = await read_kinds(session.client, run, approval)
    if as_json:
        print_json([offer.as_json() for offer in offers], pretty=True)
    elif not offers:
        say(f"no kind of calls fits the call of {approval}: it is asked about by itself")
    else:
        print("\n".join(kind_lines(offers)), flush=True)
        say(f"\napprove with one of them: {location.command(f'approve {run} {approval} --kind 1 --times 20 --for 1h')}")
    return 0


async def chosen_grant(
    client: LlmDoClient, run: str, approval: str, kind: int, times: int | None, time: str | None
) -> KindGrant:
    """Return the grant of the kind with this number. Raises UsageError where there is none, or its bounds are none."""
    from pydantic import ValidationError

    from llm_do_temporal.client.decisions import read_kinds
    from llm_do_temporal.policy.kinds.kind import KindGrant

    offers = await read_kinds(client, run, approval)
    if not 1 <= kind <= len(offers):
        known = f"it has {len(offers)}" if offers else "it has none, and is asked about by itself"
        raise UsageError(
            f"--kind {kind} is no kind of the call of {approval}: {known}",
            next_step=f"`llm-do-temporal approvals {run} {approval} --kinds` shows them.",
        )
    bounds = {"times": times, "seconds": time}
    given = {name: value for name, value in bounds.items() if value is not None}
    try:
        return KindGrant.model_validate({"kind": offers[kind - 1].kind, **given})
    except ValidationError as error:
        first = error.errors()[0]
        option = "--times" if first["loc"][:1] == ("times",) else "--for"
        raise UsageError(f"{option}: {first['msg'].removeprefix('Value error, ')}") from error


def grants_table(found: list[Grant]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows; what is left of a granted kind has columns where there is any."""
    from llm_do_temporal.cli.tables import ago

    columns = {
        "ID": [one.approval for one in found],
        "TOOL": [one.tool for one in found],
        "DECISION": [one.verdict.decision.value for one in found],
        "BY": [one.verdict.by or "somebody" for one in found],
        "WHEN": [ago(one.verdict.at) for one in found],
    }
    if any(one.granted for one in found):
        columns["USED"] = [f"{one.used} of {one.granted.times}" if one.granted else "" for one in found]
        columns["UNTIL"] = [_until(one) for one in found]
    columns["SUMMARY"] = [value_line(one.sentence) for one in found]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _until(grant: Grant) -> str:
    from llm_do_temporal.cli.tables import ahead

    if grant.until is None or grant.granted is None:
        return ""
    if grant.used >= grant.granted.times:
        return "used up"
    return "over" if grant.until <= datetime.now(UTC) else ahead(grant.until)


def _grant_json(grant: Grant) -> dict[str, Any]:
    verdict = grant.verdict
    kind: dict[str, Any] | None = None
    if grant.granted is not None and grant.until is not None:
        given = grant.granted
        kind = {
            "kind": given.kind.as_mapping(),
            "sentence": grant.sentence,
            "times": given.times,
            "used": grant.used,
            "until": grant.until.isoformat(),
        }
    return {
        "id": grant.approval,
        "tool": grant.tool,
        "summary": grant.summary,
        "decision": verdict.decision,
        "args": verdict.args,
        "by": verdict.by,
        "note": verdict.note,
        "at": verdict.at.isoformat(),
        "granted": kind,
    }
