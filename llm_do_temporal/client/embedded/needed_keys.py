"""Names of the variables that the open runs of a workshop may need from the environment of its worker service.

Owns `needed.json` in the workshop's state folder, which has names and no values. The worker service of the embedded
server adds those that are set there when a run begins, whoever has started it. A host that leaves while no run is open
removes the file.
"""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.storage.private_files import write_private

if TYPE_CHECKING:
    from llm_do_temporal.definitions.workshop.workshop import Workshop
    from llm_do_temporal.messages.runs import StartRunInput

_FILE = "needed.json"
_NAME = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_MOST = 100
_turn = threading.Lock()
"""Taken to read and write the note: a service begins several runs side by side."""


def remember_needed(workshop: Workshop, start: StartRunInput) -> None:
    """Note the variables that are set here and that the workshop, or a model that the start names, needs.

    A worker that cannot be read, or a file that cannot be written, leaves the note as it was.
    """
    # Imported here: commands look at the note, and read no worker.
    from llm_do_temporal.definitions.needed_variables import needed_variables

    models = (start.model, start.force_model, start.environment_model)
    with suppress(LlmDoError, OSError), _turn:
        groups = needed_variables(workshop, *(model for model in models if model))
        names = {name for group in groups for name in group if os.environ.get(name)}
        if names - set(noted := _noted(workshop.root)):
            write_private(state_folder(workshop.root) / _FILE, json.dumps(sorted(names.union(noted))[:_MOST]))


def lacking(workshop: Path) -> list[str]:
    """Return the variables that open runs may need and that are not set here."""
    return [name for name in _noted(workshop) if not os.environ.get(name)]


def forget_needed(workshop: Path) -> None:
    """Remove the note: no run is open."""
    with suppress(OSError):
        (state_folder(workshop) / _FILE).unlink(missing_ok=True)


def _noted(workshop: Path) -> list[str]:
    try:
        found = json.loads((state_folder(workshop) / _FILE).read_bytes()[:1_000_000])
    except (OSError, ValueError, RecursionError):
        return []
    names = cast("list[Any]", found)[:_MOST] if isinstance(found, list) else []
    return [name for name in names if isinstance(name, str) and _NAME.fullmatch(name)]
