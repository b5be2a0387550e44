"""`import`: a workshop made of other programs' workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.errors import DefinitionError, UsageError


def import_command(path: Path, /, *, into: Annotated[Path | None, Parameter(name="--into")] = None) -> int:
    """Make a workshop from workers of llm-do, from .agent files or from Claude Code agents.

    Parameters
    ----------
    path
        The folder, or one file, to import. Nothing in it is changed or run.
    into
        The new workshop's folder, which must be new or empty; default: the name of PATH with '-workshop'.
    """
    from llm_do_temporal.extensions.importers.convert import import_workers

    if not path.exists():
        raise UsageError(f"there is no file or folder '{path}'", next_step="Name what to import.")
    target = into or Path(f"{path.resolve().stem}-workshop")
    report = import_workers(path, target)
    for note in report.notes:
        say(visible_line(str(note)))
    if not report.workers:
        found = "" if report.notes else ": there is no file in it"
        say(f"{PROGRAM}: nothing in '{path}' could be imported{found}")
        return DefinitionError.exit_code
    for name, file in report.workers.items():
        print(visible_line(f"{name}  {file}"))
    count = len(report.workers)
    say(f"{count} {'worker' if count == 1 else 'workers'} imported into '{target}'; see `{PROGRAM} check {target}`")
    return 0
