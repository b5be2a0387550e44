"""Loading side of protection: no file that a worker could write is used as a definition, or run as Python."""

from __future__ import annotations

from pathlib import Path

from llm_do_temporal.definitions.protection.protected_places import protection_of
from llm_do_temporal.definitions.workers.places import SHIPPED, WorkerPlace
from llm_do_temporal.definitions.yaml.text_files import Unreadable, check_inside, label_of, places_on_the_way
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.files.protection import is_always_protected


def check_protected(path: Path, root: Path, what: str) -> None:
    """Raise Unreadable where a worker could write the file, by its own path or by a link on the way to it.

    `what` names the intended use in the message ("a definition", "Python").
    """
    if root == SHIPPED.resolve():
        return
    check_inside(path, root)
    if all(is_protected(one, root) for one in {label_of(path, root), *places_on_the_way(label_of(path, root), root)}):
        return
    raise Unreadable(
        f"'{label_of(path, root)}' is not used as {what}: it is, or leads to, a file that workers may write; keep what "
        "defines apart from their files, and name it without links"
    )


def check_defining(place: WorkerPlace) -> None:
    """Raise DefinitionError for a definition that workers can write, by a link or because no rule protects it."""
    try:
        if place.path.exists():
            check_protected(place.path, place.root, "a definition")
    except Unreadable as error:
        raise DefinitionError(str(error), file=place.label) from error


def is_protected(relative: str, root: Path) -> bool:
    """Return whether no worker of the workshop can write the file at `relative`, a path below `root`."""
    return is_always_protected(relative) or protection_of(root).protects(relative)
