"""`certify`: proof that a run, or an evaluation, comes to the same end, whichever event a kill follows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.commands.start import read_prompt
from llm_do_temporal.cli.options import Location, read_json
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import print_table
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.client.start import StartRequest
    from llm_do_temporal.extensions.certify.plan import Certificate, ExperimentSubject, Plan, Strike

KindName = Literal["service", "server", "two", "freeze"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Blows:
    """Flags that say which processes are killed, after which events, and how many runs go on at a time."""

    kill: Annotated[
        tuple[KindName, ...],
        Parameter(
            help="What dies: the worker service (default), the server, one of two worker services, or one that is "
            "frozen and replaced; may be repeated."
        ),
    ] = ("service",)
    every: Annotated[int, Parameter(help="Only every N-th event.")] = 1
    event: Annotated[tuple[int, ...], Parameter(help="Only this event, by its number; may be repeated.")] = ()
    jobs: Annotated[int, Parameter(help="Runs at a time.")] = 2
    yes: Annotated[bool, Parameter(help="Do it though a provider charges for every run.")] = False
    fork_at: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Make the run once, and kill forks of it in which this turn and all that follows are done anew, like "
            "main@2; may be repeated.",
        ),
    ] = ()

    def plan(self, workshop: Path, subject: StartRequest | ExperimentSubject) -> Plan:
        """Return the plan of the proof. Raises UsageError for a number below one."""
        from llm_do_temporal.extensions.certify.plan import Plan

        for flag, number in (("--every", self.every), ("--jobs", self.jobs)):
            if number < 1:
                raise UsageError(f"{flag} {number} is not a number above zero")
        kinds = tuple(dict.fromkeys(self.kill))
        return Plan(
            workshop, subject, kinds, self.every, self.event, self.jobs, paid=self.yes, fork_at=self.fork_at or None
        )


async def certify(
    worker: str,
    prompt: str | None = None,
    /,
    *,
    attach: Annotated[tuple[Path, ...], Parameter(name=["--attach", "-a"])] = (),
    input_json: Annotated[str | None, Parameter(name="--input")] = None,
    model: str | None = None,
    blows: Blows = Blows(),
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Prove that a run survives: record it, then do it again for every event, with a SIGKILL right after that event.

    Parameters
    ----------
    worker
        The worker to run; or an evaluation file, NAME.eval.yaml, of which an experiment is done again each time.
    prompt
        What to tell it; `-` reads it from stdin.
    attach
        A file to attach; may be repeated.
    input_json
        Structured input, as JSON or @FILE.
    model
        Model of workers that name none, as provider:name or an alias.
    output
        What goes to stdout: a table (default), or one JSON object.
    """
    from llm_do_temporal.client.start import StartRequest
    from llm_do_temporal.extensions.certify.plan import ExperimentSubject, is_evaluation
    from llm_do_temporal.extensions.certify.plan import certify as prove

    if location.address is not None:
        raise UsageError(
            f"certify kills a server of its own and leaves '{location.address}' alone; leave --address out"
        )
    subject: StartRequest | ExperimentSubject
    if is_evaluation(worker):
        _check_alone(worker, prompt, attach, input_json, model, blows.fork_at)
        subject = ExperimentSubject.of(Path(worker), location.find_workshop())
    else:
        text = read_prompt(prompt)
        value = None if input_json is None else read_json(input_json, "--input")
        subject = StartRequest(
            worker=worker, read_prompt=lambda: text, read_input=lambda: value, files=attach, model=model
        )
    plan = blows.plan(location.find_workshop(), subject)
    certificate = await prove(plan, _tell)
    if output == "json":
        print_json(_as_json(plan, certificate), pretty=sys.stdout.isatty())
    else:
        print_table(("kill", "event", "where", "struck right after", "outcome", "went on after"), _rows(certificate))
    _sum_up(plan, certificate)
    return 1 if certificate.failed else 0


def _check_alone(evaluation: str, *values: object) -> None:
    """Raise UsageError where PROMPT or a flag, in this order, has a value: an evaluation's file has what they say."""
    names = ("PROMPT", "--attach", "--input", "--model", "--fork-at")
    for name, value in zip(names, values, strict=True):
        if value not in (None, ()):
            raise UsageError(
                f"{name} says nothing beside the evaluation '{evaluation}'",
                next_step="Leave it out: the file has the cases, and what they are run with.",
            )


def _tell(row: Strike, number: int, total: int) -> None:
    say(f"{number}/{total}  {row.kind} at event {row.point.number}: {_outcome(row)}")


def _outcome(row: Strike) -> str:
    if not row.passed:
        return f"FAILED: {'; '.join(row.problems)}"
    return "same, the desk asked what happened" if row.doubts else "same"


def _rows(certificate: Certificate) -> list[tuple[str, ...]]:
    return [
        (
            row.kind,
            str(row.point.number),
            row.point.path,
            row.struck_after or row.point.what,
            _outcome(row),
            "-" if row.seconds is None else f"{row.seconds:.1f} s",
        )
        for row in certificate.rows
    ]


def _sum_up(plan: Plan, certificate: Certificate) -> None:
    say(f"\nevents of the recorded run: {len(certificate.run.points)}")
    for kind in plan.kinds:
        rows = [row for row in certificate.rows if row.kind == kind]
        waits = sorted(row.seconds for row in rows if row.seconds is not None)
        doubtful = sum(row.doubts > 0 for row in rows)
        went_on = f"; went on after {waits[len(waits) // 2]:.1f} s, at most {waits[-1]:.1f} s" if waits else ""
        passed = sum(row.passed for row in rows)
        say(f"{kind}: {passed} of {len(rows)} came to the same end, {doubtful} of them asked what happened{went_on}")
    if not certificate.exact:
        say("note: results, files and turns were not compared, since a provider's answers differ from run to run")
    if certificate.kept is not None:
        say(f"logs and files of what failed: {certificate.kept}")


def _as_json(plan: Plan, certificate: Certificate) -> dict[str, Any]:
    return {
        "events": len(certificate.run.points),
        "every": plan.every,
        "exact": certificate.exact,
        "failed": certificate.failed,
        "rows": [
            {
                "kill": row.kind,
                "event": row.point.number,
                "path": row.point.path,
                "recorded": row.point.what,
                "struck_after": row.struck_after,
                "passed": row.passed,
                "problems": list(row.problems),
                "asked": row.doubts,
                "seconds": row.seconds,
            }
            for row in certificate.rows
        ],
    }
