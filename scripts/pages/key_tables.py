"""Holds the tables of keys in the reference pages to the models that read these keys.

A table stands below a line `<!-- keys: NAME -->`, NAME being one of `TABLES`. Its rows must be the fields of these
models, no more and no fewer. Types and defaults that the model states (numbers, true and false, choices, variables) are
written by this module; meanings, and types and defaults that a model does not state in a word, are the page's own text.
Run it after a change of a key; `check_docs` compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from llm_do_temporal.definitions.keys.files import SlackSettings, WorkerFile, WorkshopConfig
from llm_do_temporal.definitions.keys.toolsets import PythonToolOptions
from llm_do_temporal.extension import installed
from llm_do_temporal.policy.approvals import ApprovalRules, Rule
from llm_do_temporal.policy.budget import Limits
from llm_do_temporal.policy.files.attachments import AttachmentPolicy
from llm_do_temporal.policy.files.sandbox import WorkerSandbox, WorkshopSandbox
from llm_do_temporal.policy.kinds.kind import AllowEntry
from llm_do_temporal.policy.models import ModelAlias
from llm_do_temporal.policy.notifications import NotifyTarget
from llm_do_temporal.policy.queues import ProviderKeys
from llm_do_temporal.policy.shell import ShellPolicy, ShellRule
from worker_service.settings import Settings

TABLES: dict[str, tuple[tuple[str, type[BaseModel]], ...]] = {
    "worker file": (("", WorkerFile),),
    "workshop file": (("", WorkshopConfig),),
    "attachment_policy": (("", AttachmentPolicy),),
    "sandbox": (("", WorkshopSandbox), ("", WorkerSandbox)),
    "custom": (("", PythonToolOptions),),
    "shell": (("", ShellPolicy), ("rules: ", ShellRule)),
    "limits": (("", Limits),),
    "model alias": (("", ModelAlias),),
    "provider": (("", ProviderKeys),),
    "approvals": (("", ApprovalRules),),
    "allow": (("", AllowEntry),),
    "rule": (("", Rule),),
    "notify": (("", NotifyTarget),),
    "slack": (("", SlackSettings),),
    "settings": (("", Settings),),
}
"""The models of each table, each after what stands before its keys in the first column. Those of capabilities come
from their DefinitionFiles; the names of such tables begin with that of the capability and a colon."""
MARK = re.compile(r"^<!-- keys: (?P<name>.+) -->$")
_CELLS = re.compile(r"(?<!\\)\|")
_KEY = re.compile(r"`([^`]+)`")


@cache
def tables() -> dict[str, tuple[tuple[str, type[BaseModel]], ...]]:
    """Return the models of all tables, those of the capabilities that are installed included."""
    found = dict(TABLES)
    for extension in installed():
        for files in extension.definition_files():
            found |= {f"{extension.name}: {name}": (("", model),) for name, model in files.tables().items()}
    return found


class TableError(Exception):
    """A table that lacks a key, or has one too many; the message names both."""


@dataclass(frozen=True)
class Key:
    """A key of a file, and what its model states about it."""

    name: str
    field: FieldInfo
    variable: str | None
    """The environment variable that says the same, where there is one."""

    def cell(self, column: str, written: str) -> str:
        """Return the text of one cell of the key's row; `written` is what the page has there, and stays where the
        model says nothing better."""
        match column:
            case "type":
                return _type_of(self.field.annotation) or written
            case "default":
                return _default_of(self.field) or written
            case "variable":
                return f"`{self.variable}`"
            case _:
                return written


def keys_of(table: str) -> dict[str, Key]:
    """Return the keys of a table by their names. The first of several models that has a key describes it."""
    found: dict[str, Key] = {}
    for prefix, model in tables()[table]:
        for name, field in model.model_fields.items():
            found.setdefault(prefix + name, Key(prefix + name, field, _variable(model, name, field)))
    return found


def render(text: str) -> str:
    """Return a page with all of its tables as their models say. Raises TableError."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if mark := MARK.match(line):
            end = next((n for n in range(number + 1, len(lines)) if not lines[n].startswith("|")), len(lines))
            lines[number + 1 : end] = list(_table(mark["name"], lines[number + 1 : end]))
    return "\n".join(lines)


def _table(name: str, lines: list[str]) -> Iterator[str]:
    if name not in tables():
        capability, colon, _ = name.partition(": ")
        if colon and capability not in [one.name for one in installed()]:
            yield from lines
            return
        raise TableError(f"there is no table '{name}'; there are: {', '.join(tables())}")
    keys = keys_of(name)
    columns = split_row(lines[0]) if lines else []
    written = [key for line in lines[2:] for key in _KEY.findall(split_row(line)[0])]
    if missing := [key for key in keys if key not in written]:
        raise TableError(f"the table '{name}' lacks {', '.join(missing)}")
    if unknown := [key for key in written if key not in keys]:
        raise TableError(f"the table '{name}' has {', '.join(unknown)}, which no file has")
    yield from lines[:2]
    for line in lines[2:]:
        # A row with no key is the page's own.
        yield _row(columns, split_row(line), keys) if _KEY.search(split_row(line)[0]) else line


def _row(columns: list[str], cells: list[str], keys: Mapping[str, Key]) -> str:
    # Where one row has several keys, what it says holds for all of them.
    first = keys[_KEY.findall(cells[0])[0]]
    for index, column in enumerate(columns[1:], 1):
        cells[index] = first.cell(column, cells[index])
    return f"| {' | '.join(cells)} |"


def split_row(line: str) -> list[str]:
    """Return the cells of a row of a table."""
    return [cell.strip() for cell in _CELLS.split(line.strip())[1:-1]]


def _type_of(annotation: Any) -> str | None:
    """Return the type in a word; None where a person says it better."""
    kind = _inner(annotation)
    if kind is bool:
        return "true, false"
    if kind in (int, float, Decimal):
        return "number"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{choice.value}`" for choice in kind)
    return None


def _inner(annotation: Any) -> Any:
    """Return the type without None and without what is only checked of it."""
    if get_origin(annotation) is Annotated:
        return _inner(get_args(annotation)[0])
    others = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _inner(others[0]) if NoneType in get_args(annotation) and len(others) == 1 else annotation


def _default_of(field: FieldInfo) -> str | None:
    """Return the default as a page has it; None where it is nothing, or more than a word."""
    if field.is_required():
        return "required"
    match field.default:
        case bool(value):
            return "true" if value else "false"
        case int(value) | float(value):
            return f"{value:g}" if isinstance(value, float) else str(value)
        case str(value) if value:
            return f"`{value}`"
        case _:
            return None


def _variable(model: type[BaseModel], name: str, field: FieldInfo) -> str | None:
    if not issubclass(model, Settings):
        return None
    alias = field.validation_alias
    return alias if isinstance(alias, str) else f"{model.model_config.get('env_prefix', '')}{name.upper()}"


def main(root: Path) -> None:
    """Write the tables of all pages anew."""
    for path in sorted((root / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        try:
            wanted = render(text)
        except TableError as error:
            raise SystemExit(f"{path}: {error}") from error
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
