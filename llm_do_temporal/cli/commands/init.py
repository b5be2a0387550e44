"""`init`: a workshop to begin with. Needs no server."""

from __future__ import annotations

import shlex
from pathlib import Path

from llm_do_temporal.cli.text import PROGRAM, say, visible_line


def init(directory: Path = Path(), /) -> None:
    """Make a workshop that runs at once, with no key and no server. Nothing is overwritten.

    Parameters
    ----------
    directory
        The workshop's folder; it is made where it is missing. The current one by default.
    """
    from llm_do_temporal.definitions.starter import WORKER, make_workshop

    for name in make_workshop(directory):
        print(visible_line(str(directory / name)))
    where = "" if directory == Path() else f" --workshop {shlex.quote(str(directory))}"
    say("\nNow try:")
    say(f"  {PROGRAM} start {WORKER} 'My name is Ada.'{where}")
    say(f"  {PROGRAM} doctor{where}")
