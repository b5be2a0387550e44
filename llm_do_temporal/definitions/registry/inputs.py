"""Typed input of a worker: the class that `schema_in_ref` names, its JSON Schema, and prompts made from values.

Loading and using the class runs the author's Python; every failure there becomes a DefinitionError. Values that do not
fit the class are an EffectFailed, which the caller's model is told.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from llm_do_temporal.args import AttachmentPath
from llm_do_temporal.definitions.registry.output_classes import load_model, model_schema
from llm_do_temporal.definitions.tools.python_files import authors_code
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.delegation import BuiltInput

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
        problems = error.errors(include_url=False, include_input=False, include_context=False)[:8]
        listed = [": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in problems]
        needed = ", ".join(name for name, field in model.model_fields.items() if field.is_required()) or "none"
        raise EffectFailed(
            f"the input of worker '{place.name}' is not valid: {'; '.join(listed)[:1000]}",
            next_step=f"Its fields are {', '.join(model.model_fields) or 'none'}; required: {needed}.",
        ) from error
