"""Ids of experiments and of the runs that they start; from such an id, which case it is of.

The ids are a wire contract: lists tell the runs of evaluations from others by them, and an experiment that goes on
finds its runs by them.
"""

from __future__ import annotations

import hashlib
import re

from llm_do_temporal.policy.values import Value

EXPERIMENT_PREFIX = "eval-"
"""Beginning of the workflow id of every experiment."""
_NAME_CHARS = 40
"""Most characters of an evaluation's name, and of a case's id, in an id."""
_DIGEST_CHARS = 12
_ENDING = re.compile(
    r"(?P<case>.+)-r(?P<repeat>\d{1,9})(?:-(?P<round>\d{1,9}))?(?P<judge>-judge(?:-\d{1,9})?(?:-other-order)?)?",
    re.DOTALL,
)


class CaseRun(Value):
    """Part that a run has in an experiment."""

    experiment: str
    """Workflow id of the experiment."""
    case: str
    """Id of the case, as it stands in the id of the run."""
    repeat: int
    """Number of the repeat, from 1."""
    is_judge: bool = False
    """Whether it judges the case's answer, which another run has given."""

    @property
    def words(self) -> str:
        """The part in words, without the experiment."""
        repeat = f", repeat {self.repeat}" if self.repeat > 1 else ""
        return f"{'judge of ' if self.is_judge else ''}case {self.case}{repeat}"


def experiment_id(name: str, digest: str) -> str:
    """Return the workflow id of the experiment of an evaluation with this digest."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")[:_NAME_CHARS] or "evaluation"
    return f"{EXPERIMENT_PREFIX}{plain}-{digest.partition('-')[2][:_DIGEST_CHARS]}"


def case_run_id(experiment: str, case: str, repeat: int, *, round_: int = 1) -> str:
    """Return the id of the run of a case, which no other one has; `round_` counts the starts of the experiment."""
    return f"{experiment}-{case_in_id(case)}-r{repeat}" + (f"-{round_}" if round_ > 1 else "")


def judge_run_id(case_run: str, *, attempt: int = 1, other_order: bool = False) -> str:
    """Return the id of the run that judges a case's run; `attempt` is the number of the case's attempt, from 1."""
    again = f"-{attempt}" if attempt > 1 else ""
    return f"{case_run}-judge{again}{'-other-order' if other_order else ''}"


def case_in_id(case: str) -> str:
    """Return a case's id as part of the id of a run: as it is, or its letters and digits and a digest."""
    if re.fullmatch(rf"[A-Za-z0-9_.-]{{1,{_NAME_CHARS}}}", case):
        return case
    plain = re.sub(r"[^A-Za-z0-9_.]+", "-", case).strip("-")[: _NAME_CHARS - 9]
    return f"{plain}-{hashlib.sha256(case.encode()).hexdigest()[:8]}"


def read_run_id(run: str, parent: str) -> CaseRun | None:
    """Return the part of a run in an experiment; None where its parent, "" for none, is no experiment."""
    if not parent.startswith(EXPERIMENT_PREFIX) or not run.startswith(f"{parent}-"):
        return None
    found = _ENDING.fullmatch(run, len(parent) + 1)
    if found is None:
        return None
    return CaseRun(
        experiment=parent, case=found["case"], repeat=int(found["repeat"]), is_judge=found["judge"] is not None
    )
