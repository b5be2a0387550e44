"""A worker's `tools.py`, as text: where it may stand, and which names it gives a meaning. Runs nothing of it."""

from __future__ import annotations

import ast
from pathlib import Path

from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, label_of, read_bytes

TOOLS_FILE = "tools.py"


def has_function(name: str, place: WorkerPlace) -> bool:
    """Whether a `tools.py` of the worker has something of this name, or is so wrong that it has to be reported.

    Known from its text: nothing of it is run.
    """
    for path in tools_files(place):
        try:
            text = decode(read_bytes(path, place.root), label_of(path, place.root))
            if _gives_name(ast.parse(text), name):
                return True
        except (Unreadable, SyntaxError, ValueError, RecursionError, MemoryError):
            return True
    return False


def _gives_name(tree: ast.Module, name: str) -> bool:
    """Whether a module gives the name a meaning, or may do so in a way that only running it would tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.alias) and (node.name == "*" or name == (node.asname or node.name.partition(".")[0])):
            return True
    return False


def tools_folders(place: WorkerPlace) -> list[Path]:
    """Where a worker's `tools.py` may stand: in its own folder, beside its file, at the top."""
    own = place.root / place.name if place.shipped else place.root / "workers" / place.name
    return list(dict.fromkeys((own, place.path.parent, place.root)))


def tools_files(place: WorkerPlace) -> list[Path]:
    """Return the `tools.py` files that are there, in the order in which a function is looked for."""
    paths = [folder / TOOLS_FILE for folder in tools_folders(place)]
    return [path for path in paths if path.exists() or path.is_symlink()]
