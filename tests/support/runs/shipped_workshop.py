"""The workshop that ships, served to a test."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.runs.place import Place

SHIPPED = Path(__file__).parents[3] / "workers"


def install_shipped_workshop(place: Place) -> list[str]:
    """Put the shipped workshop in place and return the names of its decks."""
    shutil.copytree(SHIPPED, place.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".llm-do", "evaluations"))
    return sorted(path.stem for path in (place.folder / "files/pipeline").glob("*.pdf"))
