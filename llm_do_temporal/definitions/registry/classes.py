"""Classes of authors that describe a worker's input or result: loading, JSON Schema, validators and prompts.

Loading and using a class runs the author's Python; every failure there becomes a DefinitionError. Values that do not
fit the class of an input are an EffectFailed, which the caller's model is told.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from llm_do_temporal.args import AttachmentPath
from llm_do_temporal.definitions.tools.authors_code import authors_code, import_python, load_python
from llm_do_temporal.definitions.tools.python_functions import misfits
from llm_do_temporal.definitions.tools.python_sources import read_python
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.workers.worker_file import check_output_schema
from llm_do_temporal.definitions.yaml.text_files import Unreadable, find_file
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.delegation import BuiltInput, CheckedOutput

MAX_PROBLEMS = 8
MAX_PROBLEM_CHARS = 500
_FUNCTIONS = frozenset({"function-before", "function-after", "function-wrap", "function-plain"})
_FORMS = "Write 'schemas.py:Class' for a file of the workshop, or 'module.Class' for an importable module."


def load_output_schema(reference: str, *, folder: Path, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of the pydantic model that `reference` names.

    `folder` is the worker's folder, `root` the folder that files may not leave. Raises DefinitionError; it names a file
    only where the mistake is in the author's Python.
    """
    schema = model_schema(load_model(reference, folder=folder, root=root), root=root)
    problems = check_output_schema(schema)
    if problems:
        raise DefinitionError(f"'{reference}' cannot describe a result: {problems[0][1]}")
    return schema


def has_validators(reference: str, *, folder: Path, root: Path) -> bool:
    """Return whether the class checks, or changes, values beyond its JSON Schema. Raises DefinitionError."""
    model = load_model(reference, folder=folder, root=root)
    with authors_code(None, root):
        model.model_rebuild()
    return _runs_functions(model.__pydantic_core_schema__)


def _runs_functions(schema: object) -> bool:
    waiting: list[object] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            known = cast("dict[str, object]", node)
            if known.get("type") in _FUNCTIONS or known.get("post_init") is not None:
                return True
            # What a schema is written out with is no part of checking, and `metadata` is no schema.
            waiting.extend(value for key, value in known.items() if key not in ("serialization", "metadata", "cls"))
        elif isinstance(node, list | tuple):
            waiting.extend(cast("list[object]", node))
    return False


def check_output(reference: str, value: Any, *, folder: Path, root: Path) -> CheckedOutput:
    """Return the value that the class makes of a result that fits its schema, or the problems that the class finds.

    Raises DefinitionError for a failure of the author's code.
    """
    model = load_model(reference, folder=folder, root=root)
    try:
        with authors_code(None, root, passing=(ValidationError,)):
            filled = model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        return CheckedOutput(problems=tuple(one[:MAX_PROBLEM_CHARS] for one in misfits(error, MAX_PROBLEMS)))
    with authors_code(None, root):
        return CheckedOutput(value=filled.model_dump(mode="json", by_alias=True))


def model_schema(model: type[BaseModel], *, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of a class of the author's, which may run code for it. Raises DefinitionError."""
    with authors_code(None, root):
        return model.model_json_schema()


def load_model(reference: str, *, folder: Path, root: Path) -> type[BaseModel]:
    """Return the pydantic model that `reference` names; see `load_output_schema`. Runs the author's Python."""
    where, colon, name = reference.rpartition(":")
    if colon:
        module = _load_file(where, folder=folder, root=root)
    else:
        where, dot, name = reference.rpartition(".")
        if not dot:
            raise DefinitionError(f"'{reference}' names no class", next_step=_FORMS)
        module = _load_module(where, root=root)
    return _model_in(module, name, where)


def _load_file(name: str, *, folder: Path, root: Path) -> ModuleType:
    if not name.endswith(".py"):
        raise DefinitionError(f"'{name}' is not a Python file", next_step=_FORMS)
    try:
        path = find_file(name, (folder, root), root)
    except Unreadable as error:
        raise DefinitionError(str(error)) from error
    return load_python(read_python(path, root))


def _load_module(name: str, *, root: Path) -> ModuleType:
    with authors_code(None, root):
        try:
            return import_python(name, root=root)
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


ATTACHMENTS_FIELD = "attachments"
_PARTS = "input_parts"


def load_input_schema(reference: str, *, folder: Path, root: Path) -> dict[str, Any]:
    """Return the JSON Schema of the class that `reference` names. Raises DefinitionError.

    `folder` is the worker's folder, `root` the folder that files may not leave.
    """
    # Imported here: it takes as long as everything else together, and most workers have no such class.
    from llm_do_temporal.json_schema import check_schema

    schema = model_schema(load_model(reference, folder=folder, root=root), root=root)
    wrong = check_schema(schema)
    if wrong is not None:
        raise DefinitionError(f"'{reference}' cannot describe an input: {wrong}")
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise DefinitionError(
            f"'{reference}' cannot describe an input: it has no fields of its own",
            next_step="Give it at least one field; a model that refers to itself goes into a field of another.",
        )
    if ATTACHMENTS_FIELD in properties:
        raise DefinitionError(
            f"'{reference}' has a field '{ATTACHMENTS_FIELD}', which is what every call has for files",
            next_step="Give the field another name.",
        )
    return schema


def build_input(reference: str, values: Any, place: WorkerPlace) -> BuiltInput:
    """Check `values` against the class of the worker at `place`, and let the class build the prompt where it can.

    Raises EffectFailed for values that do not fit, DefinitionError for a failure of the author's code.
    """
    filled = check_input(reference, values, place)
    with authors_code(None, place.root):
        plain = filled.model_dump(mode="json")
    if not callable(getattr(filled, _PARTS, None)):
        return BuiltInput(values=plain)
    with authors_code(None, place.root):
        parts: Any = cast("Any", filled).input_parts()
    listed = list(cast("list[Any]", parts)) if isinstance(parts, list | tuple) else [parts]
    if not all(isinstance(part, str | PurePath) for part in listed):
        raise DefinitionError(
            f"{_PARTS}() of '{reference}' must return a text, or a list of texts and paths to attach",
            next_step="Write paths as AttachmentPath('input/deck.pdf').",
        )
    files = [part for part in listed if isinstance(part, AttachmentPath | PurePath)]
    texts = [str(part) for part in listed if not isinstance(part, AttachmentPath | PurePath)]
    return BuiltInput(prompt="\n\n".join(texts), values=plain, attachments=tuple(str(file) for file in files))


def check_input(reference: str, values: Any, place: WorkerPlace) -> BaseModel:
    """Return the values as an object of the class that `reference` names. Raises EffectFailed for a misfit."""
    model = load_model(reference, folder=place.folder, root=place.root)
    try:
        with authors_code(None, place.root, passing=(ValidationError,)):
            return model.model_validate_json(json.dumps(values))
    except ValidationError as error:
        needed = ", ".join(name for name, field in model.model_fields.items() if field.is_required()) or "none"
        raise EffectFailed(
            f"the input of worker '{place.name}' is not valid: {'; '.join(misfits(error, MAX_PROBLEMS))[:1000]}",
            next_step=f"Its fields are {', '.join(model.model_fields) or 'none'}; required: {needed}.",
        ) from error
