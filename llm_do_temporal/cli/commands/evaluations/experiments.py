"""`eval list` and `eval show`: experiments of any age, from what the server lists and from their records."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say


async def list_evaluations(
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """List the experiments that the server knows, the newest first.

    Parameters
    ----------
    as_json
        Print a list of JSON objects.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import ago, print_table
    from llm_do_temporal.client.evaluations.listings import list_experiments

    async with opened(location, "reading") as session:
        found = await list_experiments(session.client.temporal)
    if as_json:
        rows = [{"experiment": one.workflow, "state": one.state, **one.facts.model_dump(mode="json")} for one in found]
        print_json(rows, pretty=sys.stdout.isatty())
    elif not found:
        say(f"there are no experiments yet; `{location.command('eval FILE')}` runs an evaluation")
    else:
        passed = {True: "yes", False: "no", None: "-"}
        rows = [
            (
                one.workflow,
                one.facts.worker,
                one.state,
                f"{one.facts.done}/{one.total}",
                str(one.facts.errors),
                passed[one.facts.passed],
                "-" if one.facts.cost_usd is None else f"${one.facts.cost_usd:.4f}",
                ago(one.started_at),
            )
            for one in found
        ]
        print_table(("EXPERIMENT", "WORKER", "STATE", "DONE", "ERRORS", "PASSED", "COST", "STARTED"), rows)
    return 0


async def show_evaluation(
    experiment: str,
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Show an experiment: its figures, its thresholds, and what went wrong.

    Parameters
    ----------
    experiment
        Its evaluation's name (the newest one), NAME@-1 (the one before), the beginning of its digest, or its id.
    as_json
        Print one JSON object with all results.
    """
    from llm_do_temporal.cli.output import print_json
    from llm_do_temporal.cli.reports.evaluations.experiment import experiment_json, experiment_lines
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.client.evaluations.records import read_experiment

    async with opened(location, "reading") as session:
        record = (await read_experiment(session.client.temporal, experiment)).record
    if as_json:
        print_json(experiment_json(record), pretty=sys.stdout.isatty())
    else:
        print("\n".join(experiment_lines(record, width_of(sys.stdout))), flush=True)
    return 0
