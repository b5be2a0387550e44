"""Choice of an evaluation among the files of a workshop, and of what of it is run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.evaluations.evaluation_file import evaluation_files, load_evaluation
from llm_do_temporal.definitions.workers.places import EVALUATION_SUFFIX
from llm_do_temporal.errors import UnknownHere, UsageError
from llm_do_temporal.policy.evaluations.spec import MAX_REPEATS, EvaluationSpec


def evaluation_names(folder: Path) -> list[str]:
    """Return the names of the workshop's evaluations, of files of one name one."""
    return list(dict.fromkeys(path.name.removesuffix(EVALUATION_SUFFIX) for path in evaluation_files(folder)))


def evaluation_named(name: str, folder: Path, worker: str | None) -> EvaluationSpec:
    """Return the evaluation of this name, of no other place than the workshop. Raises DefinitionError, UnknownHere."""
    found = [path for path in evaluation_files(folder) if path.name == f"{name}{EVALUATION_SUFFIX}"]
    if len(found) == 1:
        return load_evaluation(found[0], folder, worker=worker)
    known = ", ".join(evaluation_names(folder)[:10])
    what = f"{len(found)} evaluations are called" if found else "there is no evaluation"
    raise UnknownHere(f"{what} '{name[:80]}'", next_step=f"This workshop has: {known}." if known else None)


def chosen_cases(spec: EvaluationSpec, repeats: int | None, cases: Collection[str]) -> EvaluationSpec:
    """Return the evaluation with these repeats and cases alone; None and no cases: as it is. Raises UsageError."""
    changes: dict[str, Any] = {}
    if repeats is not None:
        if not 1 <= repeats <= MAX_REPEATS:
            raise UsageError(f"--repeats {repeats}: it is a number from 1 to {MAX_REPEATS}")
        changes["repeats"] = repeats
    unknown = [one for one in cases if spec.case(one) is None]
    if unknown:
        known = ", ".join(f"'{one.id}'" for one in spec.cases[:10])
        raise UsageError(f"the evaluation has no case '{unknown[0]}'", next_step=f"It has: {known}.")
    if cases:
        changes["cases"] = tuple(one for one in spec.cases if one.id in cases)
    return spec.model_copy(update=changes)
