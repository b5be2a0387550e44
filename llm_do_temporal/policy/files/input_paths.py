"""Rules about the files of a workshop that a run is given when it begins by itself, named once and read each time.

Judges paths and patterns as text. Where a path really leads is the business of who opens it, and is judged there again.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, Mount, Place, Tree

WORKSHOP = Mount(at="/", root=".", readonly=True)
"""The workshop's folder as a whole."""
WORKSHOP_TREE = Tree(mounts=(WORKSHOP,))
_SHOWN_CHARS = 200


def input_place(path: str) -> Place:
    """Return the place of a file, named by its path below the workshop. Raises AttachmentRefusal."""
    check_input_path(path)
    relative = str(PurePosixPath(path))
    return Place(mount=WORKSHOP, relative=relative, path=relative)


def check_input_path(path: str) -> None:
    """Raise AttachmentRefusal unless a path, or a pattern, stays in the workshop and names nothing hidden."""
    shown = path[:_SHOWN_CHARS]
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise AttachmentRefusal(
            f"'{shown}' leads out of the workshop's folder; a run that begins by itself reads files of that alone",
            next_step="Put the file into the workshop, or have its bytes kept now: --pin.",
        )
    if not parts or "\0" in path or any("\ud800" <= char <= "\udfff" for char in path):
        raise AttachmentRefusal(f"'{shown!r}' is no path of a file")
    if STATE_FOLDER in (part.casefold() for part in parts):
        raise AttachmentRefusal(f"'{shown}' lies in '{STATE_FOLDER}', where the product keeps its own state")
    if is_hidden_path(path):
        raise AttachmentRefusal(
            f"'{shown}' is hidden: a run that begins by itself reads no file whose path has a part that begins with '.'"
        )


def is_hidden_path(path: str) -> bool:
    """Return whether any part of a path begins with a dot."""
    return any(part.startswith(".") for part in PurePosixPath(path).parts)
