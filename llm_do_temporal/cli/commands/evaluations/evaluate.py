"""`eval FILE`: runs an evaluation, goes on with it, or shows what came of it."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say, visible_line
from llm_do_temporal.errors import ItemsFailed, RunCancelled, RunFailed, UsageError
from llm_do_temporal.login import login_name

if TYPE_CHECKING:
    from llm_do_temporal.cli.session import Session
    from llm_do_temporal.client.evaluations.start import BegunExperiment
    from llm_do_temporal.messages.experiments.results import EvaluationMemo, ExperimentRecord
    from llm_do_temporal.policy.evaluations.spec import EvaluationSpec

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
        from llm_do_temporal.cli.written_files import check_place

        for given, option in ((self.junit, "--junit"), (self.markdown, "--markdown")):
            if given is not None:
                check_place(given, option)

    def write(self, record: ExperimentRecord) -> None:
        """Write the files, and print the experiment. Raises UsageError."""
        from llm_do_temporal.cli.output import print_json
        from llm_do_temporal.cli.reports.evaluations.experiment import experiment_json, experiment_lines
        from llm_do_temporal.cli.reports.evaluations.junit import junit_xml
        from llm_do_temporal.cli.reports.evaluations.markdown import gate_markdown
        from llm_do_temporal.cli.tables import width_of
        from llm_do_temporal.cli.written_files import write_whole

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
    from llm_do_temporal.client.evaluations.choice import chosen_cases
    from llm_do_temporal.client.evaluations.records import read_experiment
    from llm_do_temporal.client.evaluations.start import begin_experiment, draft_evaluation

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
            print(begun.workflow, flush=True)
            return 0
        ended = await _wait(session, begun)
        found = await read_experiment(session.client.temporal, begun.workflow)
    record = found.record.judged_by(spec.thresholds)  # somebody else may have begun it with others
    reports.write(record)
    if ended is not None:
        raise ended
    return _exit_code(record)


def find_evaluation(file: Path, folder: Path, worker: str | None) -> EvaluationSpec:
    """Return the evaluation in the file. Raises DefinitionError, and UsageError for a file that is none."""
    from llm_do_temporal.definitions.evaluations.evaluation_file import evaluation_files, load_evaluation
    from llm_do_temporal.definitions.workers.places import EVALUATION_SUFFIX

    if not file.name.endswith(EVALUATION_SUFFIX):
        named = [one for one in evaluation_files(folder) if one.name == f"{file.name}{EVALUATION_SUFFIX}"]
        if len(named) == 1 and len(file.parts) == 1:
            return load_evaluation(named[0], folder, worker=worker)
        known = ", ".join(one.relative_to(folder).as_posix() for one in evaluation_files(folder)[:10])
        raise UsageError(
            f"'{file}' is no evaluation file: its name does not end with '{EVALUATION_SUFFIX}'",
            next_step=f"This workshop has: {known}." if known else "See docs/how-to/evaluate.md for how to write one.",
        )
    if not file.is_file():
        raise UsageError(f"there is no evaluation file '{file}'")
    path = file.absolute()
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"'{file}' is not in the workshop '{folder}'",
            next_step="Put it there, or name its workshop with --workshop DIR.",
        )
    return load_evaluation(path.parent.resolve() / path.name, folder.resolve(), worker=worker)


def _tell(begun: BegunExperiment) -> None:
    words = {
        "started": f"experiment {begun.workflow}: {begun.total} runs",
        "resumed": f"experiment {begun.workflow} goes on: {begun.taken} of {begun.total} runs are there",
        "attached": f"experiment {begun.workflow} is running",
        "finished": f"experiment {begun.workflow} is finished; nothing it depends on has changed",
    }
    if begun.how == "resumed" and begun.taken == begun.total:
        words["resumed"] = (
            f"experiment {begun.workflow}: all {begun.total} results are there; thresholds are judged again"
        )
    say(words[begun.how])
    if begun.differs:
        say(f"another experiment than {begun.differs_from}:")
        for line in begun.differs[:10]:
            say(f"  {line}")
        if begun.taken:
            say(f"taken over: {begun.taken} of {begun.total} results")


async def _wait(session: Session, begun: BegunExperiment) -> RunFailed | None:
    """Tell of progress until the experiment has ended; return the error that it ended with, None without one."""
    from llm_do_temporal.client.evaluations.progress import read_progress

    told, on_terminal = -1, sys.stderr.isatty()
    while True:
        state, memo = await read_progress(session.client.temporal, begun.workflow)
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
            f"experiment '{begun.workflow}' was {state}", next_step="The same command goes on with what is missing."
        )
    if state != "completed":
        from llm_do_temporal.client.evaluations.progress import read_failure

        return await read_failure(session.client.temporal, begun.workflow)
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
