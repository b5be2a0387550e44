"""`eval export`: an experiment for the readers of other programs, and for continuous integration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.messages.experiments.results import ExperimentRecord

Format = Literal["json", "pydantic-evals", "inspect", "junit", "markdown", "csv"]
_FORMS: dict[str, tuple[Format, ...]] = {
    ".json": ("json", "pydantic-evals", "inspect"),
    ".xml": ("junit",),
    ".md": ("markdown",),
    ".csv": ("csv",),
}


async def export_experiment(
    experiment: str,
    /,
    *,
    output_format: Annotated[Format | None, Parameter(name="--format")] = None,
    against: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Write an experiment down, with the answers and scores of all of its cases.

    Parameters
    ----------
    experiment
        The experiment: a name, NAME@-1, the beginning of a digest, or an id.
    output_format
        Our own JSON, a report of pydantic-evals, a log of Inspect AI, JUnit XML, Markdown for a pull request, or CSV
        with one row for each repeat of a case. Default: the format of FILE's suffix, without one json.
    against
        With markdown: the experiment that it is compared with.
    output
        Write to this file instead of stdout; a file that is there is replaced. `inspect view` wants one that ends with
        .json.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.text import printed_table
    from llm_do_temporal.cli.written_files import check_place, form_of, write_whole
    from llm_do_temporal.client.evaluations.records import read_experiment, read_pair

    form: Format = form_of(output, output_format, _FORMS, "json")
    if against is not None and form != "markdown":
        raise UsageError("--against is for --format markdown alone; `eval compare` compares two experiments")
    if output is not None:
        check_place(output, "--output")
    before = None
    async with opened(location, "reading") as session:
        client = session.client.temporal
        if against is None:
            record = (await read_experiment(client, experiment)).record
        else:
            compared, found = await read_pair(client, against, experiment)
            before, record = compared.record, found.record
    text = written(record, form, before)
    if form == "csv":
        text = printed_table(text, output)
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(output, text, "--output")
    return 0


def written(record: ExperimentRecord, form: Format, before: ExperimentRecord | None) -> str:
    """Return the experiment in a format; `before` is the one that Markdown compares it with, None: none."""
    from llm_do_temporal.cli.output import dump_json
    from llm_do_temporal.cli.reports.evaluations.junit import junit_xml
    from llm_do_temporal.cli.reports.evaluations.markdown import gate_markdown
    from llm_do_temporal.client.evaluations.exports.inspect import inspect_log
    from llm_do_temporal.client.evaluations.exports.pydantic_evals import pydantic_evals_report
    from llm_do_temporal.client.evaluations.exports.table import experiment_csv

    if form == "csv":
        return experiment_csv(record)
    if form == "junit":
        return junit_xml(record)
    if form == "markdown":
        return gate_markdown(record, before)
    if form == "pydantic-evals":
        value = pydantic_evals_report(record)
    elif form == "inspect":
        value = inspect_log(record)
    else:
        value = record.model_dump(mode="json")
    return f"{dump_json(value, pretty=True)}\n"
