"""`init`: a new workshop. It needs no server."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from llm_do_temporal.cli.text import PROGRAM, say, visible_line


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
