"""Finding the workshop that a person stands in, without reading it. Imports nothing slow: every command needs it."""

from __future__ import annotations

from pathlib import Path

from llm_do_temporal.errors import WorkshopNotFound

WORKSHOP_FILE = "workshop.yaml"


def search_upwards(start: Path, *, named: bool = False) -> Path:
    """The folder with `workshop.yaml`: `start` or the nearest one above it.

    One workshop inside another is only used where a person `named` it: a command that a model ran can have made it,
    and it decides which Python is loaded. Raises WorkshopNotFound.
    """
    found = [folder for folder in (start, *start.parents) if (folder / WORKSHOP_FILE).is_file()]
    if not found:
        raise WorkshopNotFound(
            f"no {WORKSHOP_FILE} in this folder or in one above it",
            next_step="Go to the workshop's folder, or name it with --workshop DIR. "
            "`llm-do-temporal init` makes a workshop.",
        )
    if len(found) > 1 and not (named and found[0] == start):
        raise WorkshopNotFound(
            f"'{found[0]}' is a workshop inside the workshop '{found[1]}'",
            next_step="Name the one that is meant with --workshop DIR.",
        )
    return found[0]
