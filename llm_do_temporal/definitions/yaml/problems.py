"""Problems with files of a workshop, as values, so that all of them can be reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from llm_do_temporal.errors import DefinitionError


@dataclass(frozen=True)
class Problem:
    """Problem with a file."""

    file: str
    """Path relative to the workshop, or `pkg:…` for a file that ships with the package."""
    line: int | None
    message: str
    severity: Literal["error", "warning"] = "error"
    next_step: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.message}"


def problem_of(error: DefinitionError, *, file: str) -> Problem:
    """Return the problem that `error` describes; `file` is used where the error names no file."""
    return Problem(file=error.file or file, line=error.line, message=error.problem, next_step=error.next_step)


def raise_first(problems: Sequence[Problem]) -> None:
    """Raise DefinitionError for the first problem that is an error, with the number of the others; else do nothing."""
    errors = [problem for problem in problems if problem.severity == "error"]
    if not errors:
        return
    first, steps = errors[0], [errors[0].next_step] if errors[0].next_step else []
    if len(errors) > 1:
        more = "1 more problem" if len(errors) == 2 else f"{len(errors) - 1} more problems"
        steps.append(f"{more}: `llm-do-temporal check` lists all of them.")
    raise DefinitionError(first.message, file=first.file, line=first.line, next_step=" ".join(steps) or None)
