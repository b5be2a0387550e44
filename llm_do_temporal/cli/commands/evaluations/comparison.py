"""`eval compare`: whether one experiment is better than another one, by the cases of both."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.errors import UsageError


async def compare(
    one: str,
    other: str,
    /,
    *,
    worst: int = 5,
    fail_if_worse: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    output_format: Annotated[Literal["text", "markdown"], Parameter(name="--format")] = "text",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Compare two experiments case by case: wins, ties and losses, what is certain and what is not, the worst first.

    An experiment is named by its evaluation (the newest one), NAME@-1 (the one before), the beginning of its digest, or
    its id. Experiments with other cases, evaluators or judges are refused.

    Parameters
    ----------
    one
        The experiment that is compared with, A.
    other
        The experiment that is judged, B.
    worst
        Cases of each metric that are listed among those that got worse.
    fail_if_worse
        Exit with 1 where the second experiment is worse by any metric.
    as_json
        Print a JSON object with every case.
    output_format
        Text for the terminal (default), or Markdown for a pull request.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.reports.evaluations.comparison import comparison_lines
    from llm_do_temporal.cli.reports.evaluations.markdown import comparison_markdown
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.client.evaluations.comparison import compare_records
    from llm_do_temporal.client.evaluations.records import read_pair

    if worst < 1:
        raise UsageError(f"--worst {worst} is not a number above zero")
    async with opened(location, "reading") as session:
        first, second = await read_pair(session.client.temporal, one, other)
    compared = compare_records(first.record, second.record)
    if as_json:
        print_json(compared.as_json(), pretty=sys.stdout.isatty())
    elif output_format == "markdown":
        print(comparison_markdown(compared), end="", flush=True)
    else:
        print("\n".join(comparison_lines(compared, width_of(sys.stdout), worst=worst)), flush=True)
    return int(fail_if_worse and compared.is_worse)
