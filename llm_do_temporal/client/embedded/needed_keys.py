"""Names of the variables that the open runs of a workshop may need from the environment of its worker service.

Owns `needed.json` in the workshop's state folder, which has names and no values. A run that is started adds those that
are set then. A host that leaves while no run is open removes the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.storage.private_files import write_private

_FILE = "needed.json"
_NAME = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_MOST = 100


def remember_needed(workshop: Path, models: Iterable[str | None]) -> None:
    """Note the variables that are set here and that the workshop, or one of these models, needs.

    A workshop that cannot be read, or a file that cannot be written, leaves the note as it was.
    """
    from llm_do_temporal.definitions.needed_variables import needed_variables
    from llm_do_temporal.definitions.workshop.workshop import load_workshop
    from llm_do_temporal.errors import LlmDoError

    with suppress(LlmDoError, OSError):
        groups = needed_variables(load_workshop(workshop), *(model for model in models if model))
        names = {name for group in groups for name in group if os.environ.get(name)}
        if names - set(noted := _noted(workshop)):
            write_private(state_folder(workshop) / _FILE, json.dumps(sorted(names.union(noted))[:_MOST]))


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
