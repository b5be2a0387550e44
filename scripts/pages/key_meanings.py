"""Writes the meaning of each key of the files that people write, for editors, into one file of the package.

A meaning is taken from the reference page's table of the key; a key of no table has its field's docstring. So there is
one text of each. Run it after a change of a key, a docstring or a table; `check_docs` compares.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

from llm_do_temporal.definitions.keys.files import WorkerFile, WorkshopConfig
from llm_do_temporal.definitions.schemas.published import MEANINGS_FILE
from llm_do_temporal.extension import definition_files
from scripts.pages.docstrings import assigned
from scripts.pages.key_tables import MARK, split_row, tables

_COLUMNS = ("meaning", "counts")
"""Columns that say what a key means; the first one that a table has counts."""
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_KEY = re.compile(r"`([^`]+)`")
_Place = tuple[type[BaseModel], str]


class MeaningError(Exception):
    """Keys that neither a table nor a docstring explains; the message names them."""


def render(root: Path = Path(__file__).parents[2]) -> str:
    """Return the file's content, made of the pages of a checkout and the models. Raises MeaningError."""
    tables = dict(_tables(root))
    found: dict[str, dict[str, str]] = {}
    missing: list[str] = []
    for model in sorted(models(), key=lambda one: one.__name__):
        written = docstrings(model)
        for key in _keys(model):
            text = tables.get((_owner(model, key), key)) or written.get(key)
            if text is None:
                missing.append(f"{model.__name__}.{key}")
            else:
                found.setdefault(model.__name__, {})[key] = " ".join(text.split())
    if missing:
        raise MeaningError(f"no table and no docstring explains {', '.join(missing)}")
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def models() -> set[type[BaseModel]]:
    """Return every model whose keys people write."""
    found: set[type[BaseModel]] = set()
    waiting: list[Any] = [WorkerFile, WorkshopConfig, *(one for files in definition_files() for one in files.models())]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            if one not in found:
                found.add(one)
                waiting += [field.annotation for field in one.model_fields.values()]
                waiting.append(get_type_hints(one).get("__pydantic_extra__"))
        else:
            waiting += get_args(one)
    return found


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, its bases' included."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            assert isinstance(tree, ast.ClassDef)
            found |= assigned(tree.body)
    return found


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that people write. What a model's own name says, a Literal with that one default, nobody does."""
    return [key for key, field in model.model_fields.items() if field.default != model.__name__]


def _owner(model: type[BaseModel], key: str) -> type[BaseModel]:
    """Return the class that has the field in its text."""
    return next(kind for kind in model.__mro__ if key in inspect.get_annotations(kind))


def _tables(root: Path) -> Iterator[tuple[_Place, str]]:
    for path in sorted((root / "docs").rglob("*.md")):
        lines = path.read_text("utf-8").split("\n")
        for number, line in enumerate(lines):
            if (mark := MARK.match(line)) is not None and mark["name"] != "settings":
                yield from _meanings(mark["name"], lines[number + 1 :])


def _meanings(table: str, lines: list[str]) -> Iterator[tuple[_Place, str]]:
    header = split_row(lines[0])
    column = header.index(next(name for name in _COLUMNS if name in header))
    for line in lines[2:]:
        if not line.startswith("|"):
            return
        cells = split_row(line)
        text = _LINK.sub(r"\1", cells[column]).replace("\\|", "|")
        for written in _KEY.findall(cells[0]) if text else ():
            for prefix, model in tables().get(table, ()):
                key = written.removeprefix(prefix)
                if written.startswith(prefix) and key in model.model_fields:
                    yield (_owner(model, key), key), text if text.startswith(("true", "false")) else _capital(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def main(root: Path) -> None:
    """Write the file anew."""
    try:
        (root / MEANINGS_FILE).write_text(render(root), encoding="utf-8")
    except MeaningError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
