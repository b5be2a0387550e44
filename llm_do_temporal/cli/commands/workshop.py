"""`init`, `import` and `check`: a new workshop, a workshop made of other programs' workers, and all mistakes in one.

None of them needs a server.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.definitions.yaml.problems import Problem


def init(directory: Path = Path(), /, *, example: Annotated[str | None, Parameter(name="--example")] = None) -> None:
    """Make a workshop that runs at once, with no key and no server. Nothing is overwritten.

    Parameters
    ----------
    directory
        The workshop's folder; it is made where it is missing. The current one by default.
    example
        Make this example instead of a workshop with one small worker: pitch-decks, which evaluates five pitch decks.
    """
    from llm_do_temporal.definitions.starter import WORKER, make_workshop

    for name in make_workshop(directory, example):
        print(visible_line(str(directory / name)))
    where = "" if directory == Path() else f" --workshop {shlex.quote(str(directory))}"
    command = f"{WORKER} 'buy bread'" if example is None else "pitch_orchestrator 'evaluate every deck'"
    say("\nNow try, in a terminal; it asks you before it writes a file:")
    say(f"  {PROGRAM} start {command}{where}")
    say(f"  {PROGRAM} doctor{where}")


def import_command(path: Path, /, *, into: Annotated[Path | None, Parameter(name="--into")] = None) -> int:
    """Make a workshop from workers of llm-do, from .agent files or from Claude Code agents.

    Parameters
    ----------
    path
        The folder, or one file, to import. Nothing in it is changed or run.
    into
        The new workshop's folder, which must be new or empty; default: the name of PATH with '-workshop'.
    """
    from llm_do_temporal.definitions.conversion import import_workers

    if not path.exists():
        raise UsageError(f"there is no file or folder '{path}'", next_step="Name what to import.")
    target = into or Path(f"{path.resolve().stem}-workshop")
    report = import_workers(path, target)
    for note in report.notes:
        say(visible_line(str(note)))
    if not report.workers:
        say(f"{PROGRAM}: nothing in '{path}' could be imported")
        return DefinitionError.exit_code
    for name, file in report.workers.items():
        print(visible_line(f"{name}  {file}"))
    count = len(report.workers)
    say(f"{count} {'worker' if count == 1 else 'workers'} imported into '{target}'; see `{PROGRAM} check {target}`")
    return 0


def check(
    path: Path | None = None,
    /,
    *,
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Check every file of a workshop.

    Parameters
    ----------
    path
        The workshop's folder, or one file of it.
    """
    from llm_do_temporal.definitions.check import check_workshop

    folder, only = _scope(path, location)
    problems = [problem for problem in check_workshop(folder) if only is None or problem.file == only]
    for problem in problems:
        print(problem_line(problem))
    errors = sum(problem.severity == "error" for problem in problems)
    say(summary_line(errors, len(problems) - errors))
    return DefinitionError.exit_code if errors else 0


def problem_line(problem: Problem) -> str:
    """Return `file:line: severity: message (next step)` for a problem."""
    where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    line = f"{where}: {problem.severity}: {problem.message}"
    return visible_line(f"{line} ({problem.next_step})" if problem.next_step else line)


def summary_line(errors: int, warnings: int) -> str:
    """Return the numbers of errors and warnings in words, on one line."""
    if not errors and not warnings:
        return "no problems"
    return f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _scope(path: Path | None, location: Location) -> tuple[Path, str | None]:
    """Return the workshop to check and the name of one file in it; None stands for all files."""
    if path is None:
        return location.find_workshop(), None
    if not path.exists():
        raise UsageError(f"there is no file or folder '{path}'; name a workshop's folder or a file of it")
    if path.is_dir():
        return replace(location, workshop=path).find_workshop(), None
    from llm_do_temporal.definitions.workshop.workshop import find_workshop

    folder = find_workshop(path.parent)
    return folder, path.resolve().relative_to(folder).as_posix()
