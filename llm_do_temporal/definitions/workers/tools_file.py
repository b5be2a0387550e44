"""Text of a worker's `tools.py`: where it may stand, and which names it defines. Runs nothing of it."""

from __future__ import annotations

import ast
from pathlib import Path

from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.yaml.text_files import Unreadable, decode, label_of, read_bytes

TOOLS_FILE = "tools.py"


def has_function(name: str, place: WorkerPlace) -> bool:
    """Return whether a `tools.py` of the worker defines this name, or has mistakes that have to be reported.

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
    """Return whether a module defines the name, or may do so in a way that only running it would tell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.alias) and (node.name == "*" or name == (node.asname or node.name.partition(".")[0])):
            return True
    return False


def tools_folders(place: WorkerPlace) -> list[Path]:
    """Return the folders in which a worker's `tools.py` may stand: its own, the one around its file, the root."""
    own = place.root / place.name if place.shipped else place.root / "workers" / place.name
    return list(dict.fromkeys((own, place.path.parent, place.root)))


def tools_files(place: WorkerPlace) -> list[Path]:
    """Return the `tools.py` files that are there, in the order in which a function is looked for."""
    paths = [folder / TOOLS_FILE for folder in tools_folders(place)]
    return [path for path in paths if path.exists() or path.is_symlink()]
