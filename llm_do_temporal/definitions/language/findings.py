"""Problems of a workshop whose files are open in an editor: those of `check`, of texts as they are held.

No Python of the workshop is run: opening a folder must run nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.language.edited_file import EditedFile, held_bytes, plain_lines
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.definitions.yaml.text_files import Unreadable, read_bytes, unsaved


def find_problems(root: Path, held: Mapping[Path, EditedFile]) -> list[Problem]:
    """Return the problems of a workshop; `held` are the open texts, by their real paths."""
    with unsaved(held_bytes(held)):
        found = check_workshop(root, run_python=False)
    new = (one for path, one in held.items() if one.root == root and not path.exists())
    return [*found, *(problem for one in new for problem in one.own_problems())]


def saved_lines(file: str, root: Path) -> Sequence[str]:
    """Return the lines of a file of the workshop, as it is on disk; none of one that the workshop may not read."""
    try:
        return plain_lines(read_bytes(root / file, root).decode("utf-8", "replace")).split("\n")
    except (Unreadable, ValueError):
        return ()
