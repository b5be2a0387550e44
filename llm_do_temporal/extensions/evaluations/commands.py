"""`eval`: runs an evaluation or goes on with it; lists, shows, compares and exports experiments; adds a case."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.options import Json, Location
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import ItemsFailed, RunCancelled, RunFailed, UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.extensions.evaluations.messages import EvaluationMemo, ExperimentRecord, StartedExperiment


_LOOK_SECONDS = 0.5
_TOLD = 10
"""Times that progress is told where there is no terminal."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reports:
    """Forms in which an experiment is told once it has ended."""

    as_json: Annotated[bool, Parameter(name="--json", help="Print one JSON object with all results.")] = False
    junit: Annotated[Path | None, Parameter(help="File to write as JUnit XML.")] = None
    markdown: Annotated[Path | None, Parameter(help="File to write as Markdown, for a pull request.")] = None

    def check(self) -> None:
        """Raise UsageError for files that cannot be written."""
        from llm_do_temporal.cli.files import check_place

        for given, option in ((self.junit, "--junit"), (self.markdown, "--markdown")):
            if given is not None:
                check_place(given, option)

    def write(self, record: ExperimentRecord) -> None:
        """Write the files, and print the experiment. Raises UsageError."""
        from llm_do_temporal.cli.files import write_whole
        from llm_do_temporal.cli.output import print_json
        from llm_do_temporal.cli.tables import width_of
        from llm_do_temporal.extensions.evaluations.report import (
            experiment_json,
            experiment_lines,
            gate_markdown,
            junit_xml,
        )

        if self.junit is not None:
            write_whole(self.junit, junit_xml(record), "--junit")
        if self.markdown is not None:
            write_whole(self.markdown, gate_markdown(record, None), "--markdown")
        if self.as_json:
            print_json(experiment_json(record), pretty=sys.stdout.isatty())
        else:
            print("\n".join(experiment_lines(record, width_of(sys.stdout))), flush=True)


NO_REPORTS = Reports()


async def evaluate(
    file: Path,
    /,
    *,
    repeats: int | None = None,
    case: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    worker: str | None = None,
    retry_errors: Annotated[bool, Parameter(negative=())] = False,
    detach: bool = False,
    reports: Reports = NO_REPORTS,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Run an evaluation, go on with one that was interrupted, or show the finished one.

    The same file, workers, models and settings are the same experiment, which never runs twice. With any of them
    changed it is another one, which takes over every result that depends on nothing of what has changed.

    Parameters
    ----------
    file
        The evaluation file, NAME.eval.yaml, or NAME alone.
    repeats
        Times that each case is run, in the place of the file's number.
    case
        Id of a case that is run, in the place of all; may be repeated.
    worker
        Worker to evaluate, in the place of the file's.
    retry_errors
        Run the cases again that ended in an error; their first attempts are kept.
    detach
        Print the experiment's id and leave at once.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.evaluations.client import read_experiment
    from llm_do_temporal.extensions.evaluations.start import (
        begin_experiment,
        chosen_cases,
        draft_evaluation,
        find_evaluation,
    )

    reports.check()
    folder = location.find_workshop()
    spec = chosen_cases(find_evaluation(file, folder, worker), repeats, case)
    async with opened(location) as session:
        draft = await draft_evaluation(
            session.client,
            spec,
            folder,
            environment_model=os.environ.get("LLM_DO_MODEL") or None,
            started_by=login_name(),
        )
        begun = await begin_experiment(session.client, draft, retry_errors=retry_errors)
        _tell(begun)
        if detach:
            print(begun.experiment, flush=True)
            return 0
        ended = await _wait(session, begun)
        found = await read_experiment(session.client.temporal, begun.experiment)
    record = found.record.judged_by(spec.thresholds)  # somebody else may have begun it with others
    reports.write(record)
    if ended is not None:
        raise ended
    return _exit_code(record)


def _tell(begun: StartedExperiment) -> None:
    words = {
        "started": f"experiment {begun.experiment}: {begun.total} runs",
        "resumed": f"experiment {begun.experiment} goes on: {begun.taken} of {begun.total} runs are there",
        "attached": f"experiment {begun.experiment} is running",
        "finished": f"experiment {begun.experiment} is finished; nothing it depends on has changed",
    }
    if begun.how == "resumed" and begun.taken == begun.total:
        words["resumed"] = (
            f"experiment {begun.experiment}: all {begun.total} results are there; thresholds are judged again"
        )
    say(words[begun.how])
    if begun.differs:
        say(f"another experiment than {begun.differs_from}:")
        for line in begun.differs[:10]:
            say(f"  {line}")
        if begun.taken:
            say(f"taken over: {begun.taken} of {begun.total} results")


async def _wait(session: Session, begun: StartedExperiment) -> RunFailed | None:
    """Tell of progress until the experiment has ended; return the error that it ended with, None without one."""
    from llm_do_temporal.extensions.evaluations.client import read_progress

    told, on_terminal = -1, sys.stderr.isatty()
    while True:
        state, memo = await read_progress(session.client.temporal, begun.experiment)
        step = memo.done * _TOLD // max(begun.total, 1)
        if begun.how != "finished" and (on_terminal or step != told):
            told = step
            _show(memo, begun.total, on_terminal=on_terminal)
        if state != "running":
            break
        await asyncio.sleep(_LOOK_SECONDS)
    if on_terminal and begun.how != "finished":
        print(file=sys.stderr)
    if state in ("cancelled", "terminated"):
        return RunCancelled(
            f"experiment '{begun.experiment}' was {state}", next_step="The same command goes on with what is missing."
        )
    if state != "completed":
        from llm_do_temporal.extensions.evaluations.client import read_failure

        return await read_failure(session.client.temporal, begun.experiment)
    return None


def _show(memo: EvaluationMemo, total: int, *, on_terminal: bool) -> None:
    errors = f", {memo.errors} in an error" if memo.errors else ""
    cost = "" if memo.cost_usd is None else f", ${memo.cost_usd:.4f}"
    line = visible_line(f"{memo.done} of {total} runs done{errors}{cost}")
    if on_terminal:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    else:
        say(line)


def _exit_code(record: ExperimentRecord) -> int:
    """Return 0 for an experiment that has passed, 1 for one that has not, and that of ItemsFailed where a run ended in
    an error, or could not be scored, that no threshold allows."""
    gate = record.gate
    if gate.passed:
        return 0
    counted = ("errors", "failures", "missing")
    broken = any(not verdict.passed and verdict.metric in counted for verdict in gate.verdicts)
    return ItemsFailed.exit_code if broken else 1


async def list_evaluations(
    *,
    as_json: Json = False,
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
    from llm_do_temporal.extensions.evaluations.client import list_experiments

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
    as_json: Json = False,
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
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.evaluations.client import read_experiment

    async with opened(location, "reading") as session:
        record = (await read_experiment(session.client.temporal, experiment)).record
    Reports(as_json=as_json).write(record)
    return 0


async def compare(
    one: str,
    other: str,
    /,
    *,
    worst: int = 5,
    fail_if_worse: bool = False,
    as_json: Json = False,
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
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.tables import width_of
    from llm_do_temporal.extensions.evaluations.client import compare_records, read_pair
    from llm_do_temporal.extensions.evaluations.report import comparison_lines, comparison_markdown

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
    from llm_do_temporal.cli.files import check_place, form_of, write_whole
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.cli.text import printed_table
    from llm_do_temporal.extensions.evaluations.client import read_experiment, read_pair

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
    from llm_do_temporal.extensions.evaluations.report import (
        experiment_csv,
        gate_markdown,
        inspect_log,
        junit_xml,
        pydantic_evals_report,
    )

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


async def add(
    run: str,
    /,
    *,
    to: Path,
    case_id: Annotated[str | None, Parameter(name="--id")] = None,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Make a case of a run: its task, its files, its answer as the expected one, and the decisions that people took.

    The case stands at the end of the file's cases; comments and order of the file stay as they are. Attached files are
    copied into a folder beside it, by their names; a name that would define something there is changed, and told. Look
    at the answer before you keep it: the run may have been wrong.

    Parameters
    ----------
    run
        The run, which has ended.
    to
        The evaluation file, NAME.eval.yaml in the workshop; one that is not there is made.
    case_id
        Id of the case; default: that of the run.
    """
    from llm_do_temporal.cli.session import opened
    from llm_do_temporal.extensions.evaluations.addition import add_case

    workshop = location.find_workshop()
    async with opened(location) as session:
        added = await add_case(session.client, run, to, workshop, case_id=case_id)
    say(f"added case '{added.id}' to {added.file.name}{_additions(len(added.attachments), added.decisions)}")
    if not added.has_expected:
        say("the run has no answer, so nothing is expected of the case: write `expected_output:` or evaluators")
    for given, copy in added.renamed:
        say(
            f"the copy of '{visible_line(given, 300)}' is called '{visible_line(copy, 300)}', and the worker of the "
            "case is told that name: the other one defines something in a workshop, or begins with a dot"
        )
    if added.other_worker:
        say(f"the evaluation is of '{added.other_worker}', and the run was of another worker")
    return 0


def _additions(files: int, decisions: int) -> str:
    parts = [
        f"{number} {word if number == 1 else words}"
        for number, word, words in ((files, "file", "files"), (decisions, "decision", "decisions"))
        if number
    ]
    return f", with {' and '.join(parts)}" if parts else ""
