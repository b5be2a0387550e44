"""`diff`: two runs side by side."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Json, Location


async def diff(
    run: str,
    other: str,
    /,
    *,
    exit_code: Annotated[bool, Parameter(name="--exit-code", negative="")] = False,
    as_json: Json = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show where two runs part first, and what came of it: answers, files, turns, cost, side by side.

    Parameters
    ----------
    run
        Id of the run on the left.
    other
        Id of the run on the right, such as a fork of the first.
    exit_code
        End with 1 where anything differs but times, tokens and cost.
    as_json
        Print a JSON object, with everything in full.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.reports.difference import difference_json, print_difference
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.client.differences.reader import read_difference
    from llm_do_temporal.redaction.configured_keys import without_keys

    async with opened(location, "reading") as session:
        found = await read_difference(session.client.temporal, run, other)
    if as_json:
        print_json(without_keys(difference_json(found)), pretty=True)
    else:
        print_difference(found)
    return 1 if exit_code and not found.difference.is_same else 0
