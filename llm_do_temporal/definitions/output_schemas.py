"""The JSON Schema of a worker's result: written in the worker file, or taken from a class of the author's.

Loading a class runs the author's Python; whatever goes wrong there becomes a DefinitionError.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel

from llm_do_temporal.definitions.text_files import Unreadable, decode, find_file, label_of, read_bytes
from llm_do_temporal.definitions.yaml_lines import KeyPath
from llm_do_temporal.errors import DefinitionError

_DEFS = "#/$defs/"
_IMPORTS = threading.RLock()
_FORMS = "Write 'schemas.py:Class' for a file of the workshop, or 'module.Class' for an importable module."


def check_output_schema(schema: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """What is wrong with a schema for a worker's result, and where in it."""
    # Imported here: most workers have no schema, and the import takes as long as everything else together.
    from jsonschema.exceptions import ValidationError, best_match  # pyright: ignore[reportUnknownVariableType]
    from jsonschema.validators import Draft202012Validator

    # Results are validated as this draft, whatever `$schema` says.
    validator = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    problems: list[tuple[KeyPath, str]] = []
    for error in validator.iter_errors(cast("Any", schema)):  # pyright: ignore[reportUnknownMemberType]
        closest = cast("ValidationError", best_match([error]) or error)
        # A wrong `type` breaks every alternative alike; the one that lists the types is the one that helps.
        closest = next((inner for inner in closest.context or () if inner.validator == "enum"), closest)
        path = tuple(closest.absolute_path)
        where = f" at '{'.'.join(map(str, path))}'" if path else ""
        problems.append((path, f"not valid JSON Schema{where}: {closest.message[:300]}"))
    if not problems and schema.get("type") != "object" and "$ref" not in schema:
        problems.append((("type",), "the type of a result must be 'object'"))
    return problems or list(_reference_problems(schema))


def load_output_schema(reference: str, *, folder: Path, root: Path) -> dict[str, Any]:
    """The JSON Schema of the pydantic model that `reference` names.

    `folder` is the worker's, `root` the one that files may not leave. Raises DefinitionError; it names a file
    only where the mistake is in the author's Python.
    """
    where, colon, name = reference.rpartition(":")
    if colon:
        module = _load_file(where, folder=folder, root=root)
    else:
        where, dot, name = reference.rpartition(".")
        if not dot:
            raise DefinitionError(f"'{reference}' names no class", next_step=_FORMS)
        module = _load_module(where, root=root)
    model = _model_in(module, name, where)
    with _authors_code(None, root):
        schema = model.model_json_schema()
    problems = check_output_schema(schema)
    if problems:
        raise DefinitionError(f"'{reference}' cannot describe a result: {problems[0][1]}")
    return schema


def _load_file(name: str, *, folder: Path, root: Path) -> ModuleType:
    if not name.endswith(".py"):
        raise DefinitionError(f"'{name}' is not a Python file", next_step=_FORMS)
    try:
        path = find_file(name, (folder, root), root)
        content = read_bytes(path, root)
        text = decode(content, label_of(path, root))
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    # One module per content, so that an edited file is loaded anew and a running load keeps its own.
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()
    module_name = f"_llm_do_schemas_{digest[:24]}"
    with _IMPORTS, _authors_code(path, root), _importable(root):
        if module_name in sys.modules:
            return sys.modules[module_name]
        module = ModuleType(module_name)
        module.__file__ = str(path)
        sys.modules[module_name] = module  # pydantic looks there for the names in annotations
        try:
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the author's own code
        except BaseException:
            del sys.modules[module_name]
            raise
        return module


def _load_module(name: str, *, root: Path) -> ModuleType:
    with _IMPORTS, _authors_code(None, root), _importable(root):
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise DefinitionError(f"there is no module '{name}'", next_step=_FORMS) from error
            raise


def _model_in(module: ModuleType, name: str, where: str) -> type[BaseModel]:
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    models = sorted(key for key, value in vars(module).items() if _is_own_model(value))
    listed = f"it has {', '.join(models)}" if models else "it has none"
    what = "is not a pydantic BaseModel" if hasattr(module, name) else "does not exist"
    raise DefinitionError(f"the class '{name}' of '{where}' {what}; of models {listed}")


def _is_own_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel) and value is not BaseModel


@contextmanager
def _importable(root: Path) -> Generator[None]:
    """Let modules of the workshop be imported, after everything that is installed."""
    entry = str(root)
    sys.path.append(entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


@contextmanager
def _authors_code(path: Path | None, root: Path) -> Generator[None]:
    """Turn what the author's code raises into a DefinitionError with the last line of theirs that ran."""
    try:
        yield
    except DefinitionError:
        raise
    except (Exception, SystemExit) as error:
        file, line = _raised_at(error, root)
        file = file or (None if path is None else label_of(path, root))
        words = str(error).replace(f"{root}/", "").strip().split("\n")[0][:300]
        raise DefinitionError(f"{type(error).__name__}: {words}", file=file, line=line) from error


def _raised_at(error: BaseException, root: Path) -> tuple[str | None, int | None]:
    found: tuple[str | None, int | None] = (None, None)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if Path(name).is_relative_to(root):
            found = label_of(Path(name), root), trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(root):
        found = label_of(Path(error.filename), root), error.lineno
    return found


def _reference_problems(schema: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """References that lead nowhere, and those that go in circles: models are given schemas with all inlined."""
    raw = schema.get("$defs")
    definitions = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    graph: dict[str, set[str]] = {"": set(), **{name: set() for name in definitions}}
    for path, target in _references(cast("Any", schema), ()):
        name = target.removeprefix(_DEFS)
        if not target.startswith(_DEFS) or name not in definitions:
            yield path, f"'$ref: {target}' leads nowhere; a reference is '{_DEFS}NAME' with NAME under '$defs'"
            return
        graph[str(path[1]) if path[0] == "$defs" and len(path) > 2 else ""].add(name)
    for name in definitions:
        if name in _reachable(graph, name):
            yield ("$defs", name), f"'{name}' refers to itself; a recursive schema cannot describe a result"


def _references(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key == "$ref" and isinstance(value, str):
                yield (*path, key), value
            else:
                yield from _references(value, (*path, key))
    elif isinstance(node, list):
        for place, item in enumerate(cast("list[Any]", node)):
            yield from _references(item, (*path, place))


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    pending = list(graph[start])
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(graph[name])
    return found
