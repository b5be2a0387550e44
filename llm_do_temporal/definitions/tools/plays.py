"""Scripted models of a workshop: functions marked with `@play`, named as `offline:FILE.py:FUNCTION`.

Whoever starts a run may choose its model. So no file is run for a name before its text shows that its author has marked
the function: other Python of a workshop is never a model.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.python_syntax import parse_python
from llm_do_temporal.definitions.tools.authors_code import PythonFile
from llm_do_temporal.definitions.tools.python_tools import load_callable, read_source
from llm_do_temporal.definitions.workers.places import PACKAGE_PREFIX
from llm_do_temporal.errors import DefinitionError

PLAY_MARK = "__llm_do_play__"
"""Attribute of a function that is marked with `llm_do_temporal.testing.play`."""
_TESTING = "llm_do_temporal.testing"


def read_play(play: tuple[str, str], *, root: Path) -> PythonFile:
    """Read the file of a play, whose path is relative to the workshop, and run nothing. Raises DefinitionError."""
    path, name = play
    if path.startswith(PACKAGE_PREFIX):
        raise DefinitionError(f"'{path}' is no file of the workshop")
    file = read_source(path, root=root)
    try:
        found, is_marked = _function(file.text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        raise DefinitionError(f"{type(error).__name__}: {error}", file=file.label, line=line) from error
    if found is None:
        raise DefinitionError(f"'{file.label}' has no function '{name}'", next_step=f"Write `def {name}(seen)` there.")
    if not is_marked:
        step = "Write `@play` above it, with `from llm_do_temporal.testing import play`."
        raise DefinitionError(f"'{name}' is not marked as a model", file=file.label, line=found.lineno, next_step=step)
    if isinstance(found, ast.AsyncFunctionDef):
        raise DefinitionError(f"'{name}' is `async`; a play is a plain function", file=file.label, line=found.lineno)
    return file


def load_play(play: tuple[str, str], *, root: Path) -> tuple[PythonFile, Callable[[Any], object]]:
    """Return the file of a play, and its function as the file is now. Raises DefinitionError."""
    file = read_play(play, root=root)
    found = load_callable(file, play[1])
    if not getattr(found, PLAY_MARK, False):
        raise DefinitionError(f"'{play[1]}' in '{file.label}' is not marked with `llm_do_temporal.testing.play`")
    return file, found


@lru_cache(maxsize=64)
def _function(text: str, name: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, bool]:
    """Return the last function of this name at the top of a text, and whether it is marked.

    Kept, as each turn of a model asks for it.
    """
    module, kinds = parse_python(text), (ast.FunctionDef, ast.AsyncFunctionDef)
    found = next((one for one in reversed(module.body) if isinstance(one, kinds) and one.name == name), None)
    marks = _marks(module)
    return found, found is not None and any(ast.unparse(one) in marks for one in found.decorator_list)


def _marks(module: ast.Module) -> set[str]:
    """Return what a text calls the mark: a name that it imports from our module, and gives to nothing of its own."""
    marks: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == _TESTING:
            marks |= {one.asname or "play" for one in node.names if one.name in ("play", "*")}
        elif isinstance(node, ast.ImportFrom) and node.module == _TESTING.partition(".")[0]:
            marks |= {f"{one.asname or one.name}.play" for one in node.names if one.name == "testing"}
        elif isinstance(node, ast.Import):
            marks |= {f"{one.asname or one.name}.play" for one in node.names if one.name == _TESTING}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks.discard(node.name)
        elif isinstance(node, ast.Assign):
            marks -= {ast.unparse(target) for target in node.targets}
    return marks
