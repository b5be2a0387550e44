"""Problems of a workshop whose files are open in an editor: those of `check`, of texts as they are held.

No Python of the workshop is run: opening a folder must run nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.language.edited_file import EditedFile, held_bytes, plain_lines
from llm_do_temporal.definitions.yaml.problems import Problem
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, read_bytes, unsaved


def find_problems(root: Path, held: Mapping[Path, EditedFile]) -> list[Problem]:
    """Return the problems of a workshop; `held` are the open texts, by their real paths."""
    with unsaved(held_bytes(held)):
        found = check_workshop(root, run_python=False)
    ours = [one for one in held.values() if one.root == root]
    new = (problem for one in ours if not one.path.exists() for problem in one.own_problems())
    return [*found, *new, *(problem for one in ours for problem in _saved_otherwise(one))]


def _saved_otherwise(file: EditedFile) -> Iterator[Problem]:
    """Yield what is wrong with a file whose text an editor can show, and nobody else can read."""
    try:
        saved = read_bytes(file.path, file.root)
    except Unreadable:
        return
    try:
        decode(saved, file.label)
    except Unreadable as error:
        yield Problem(file.label, None, str(error), next_step="Save it as UTF-8.")


def saved_lines(file: str, root: Path) -> Sequence[str]:
    """Return the lines of a file of the workshop, as it is on disk; none of one that the workshop may not read."""
    try:
        return plain_lines(read_bytes(root / file, root).decode("utf-8", "replace")).split("\n")
    except (Unreadable, ValueError):
        return ()
