"""`check`: all mistakes of a workshop's files, once or after each save. Needs no server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.text import say
from llm_do_temporal.errors import DefinitionError, UsageError

if TYPE_CHECKING:
    from llm_do_temporal.cli.reports.problems import ProblemFormat

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


async def check(
    path: Path | None = None,
    /,
    *,
    watch: Annotated[bool, Parameter(negative="")] = False,
    output_format: Literal["text", "json", "github", "sarif"] = "text",
    location: Location = Location(),  # noqa: B008 - frozen
) -> int:
    """Check every file of a workshop.

    Parameters
    ----------
    path
        The workshop's folder, or one file of it.
    watch
        Stay, and check again after each save; Ctrl-C ends with the exit code of the last check.
    output_format
        How problems are written: as lines, as JSON, as annotations of GitHub Actions, or as SARIF.
    """
    folder, only = _scope(path, location)
    if not watch:
        return _check(folder, only, output_format)
    from llm_do_temporal.cli.saved_files import SavedFiles, until_saved

    while True:
        saved = SavedFiles(lambda: _files(folder), any_change=True)
        if sys.stdout.isatty() and output_format == "text":
            print(_CLEAR, end="")
        code = _check(folder, only, output_format)
        sys.stdout.flush()
        if not await until_saved(saved, "watching; Ctrl-C ends"):
            return code


def _check(folder: Path, only: str | None, written: ProblemFormat) -> int:
    """Check once, print what is found, and return the exit code."""
    from llm_do_temporal.cli.reports.problems import problem_lines, summary_line
    from llm_do_temporal.definitions.check import check_workshop

    problems = [problem for problem in check_workshop(folder) if only is None or problem.file == only]
    for line in problem_lines(problems, written, folder):
        print(line)
    errors = sum(problem.severity == "error" for problem in problems)
    say(summary_line(errors, len(problems) - errors))
    return DefinitionError.exit_code if errors else 0


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that decide what `check` finds: definitions, and whatever these name."""
    from llm_do_temporal.definitions.registry.registry import worker_files
    from llm_do_temporal.definitions.workers.places import SHIPPED, known_names, places_of
    from llm_do_temporal.extension import definition_files
    from llm_do_temporal.workshop_search import WORKSHOP_FILE

    yield folder / WORKSHOP_FILE
    for files in definition_files():
        yield from files.find(folder)
    for name in known_names(root=folder, shipped=SHIPPED):
        for place in places_of(name, root=folder, shipped=SHIPPED):
            yield from () if place.shipped else worker_files(place)


def _scope(path: Path | None, location: Location) -> tuple[Path, str | None]:
    """Return the workshop to check and the name of one file in it; None stands for all files."""
    if path is None:
        return location.find_workshop(), None
    if not path.exists():
        raise UsageError(f"there is no file or folder '{path}'; name a workshop's folder or a file of it")
    if path.is_dir():
        return replace(location, workshop=path).find_workshop(), None
    from llm_do_temporal.definitions.workshop import find_workshop

    folder = find_workshop(path.parent)
    return folder, path.resolve().relative_to(folder).as_posix()
