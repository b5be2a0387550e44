"""JSON Schema of evaluation files, for editors: made of the models that read them, with all spellings of evaluators."""

from __future__ import annotations

from typing import Any, cast

from llm_do_temporal.definitions.evaluations.evaluator_entries import THEIRS
from llm_do_temporal.definitions.evaluations.keys import EvaluationFile
from llm_do_temporal.policy.evaluations.evaluators import EVALUATORS, BaseEvaluator

_Schema = dict[str, Any]
_ENTRY = "EvaluatorEntry"


def evaluation_schema() -> _Schema:
    """Return the JSON Schema of evaluation files."""
    schema: _Schema = EvaluationFile.model_json_schema()
    defs = cast("dict[str, _Schema]", schema["$defs"])
    forms: list[_Schema] = []
    for name, kind in EVALUATORS.items():
        forms += _forms(name, kind, defs, {})
    for name, (ours, renamed) in THEIRS.items():
        forms += _forms(name, EVALUATORS[ours], defs, {value: key for key, value in renamed.items()})
    defs[_ENTRY] = {"anyOf": forms}
    entries = {"type": "array", "items": {"$ref": f"#/$defs/{_ENTRY}"}}
    properties, case = schema["properties"], defs["CaseKeys"]["properties"]
    properties["evaluators"] = case["evaluators"] = entries
    properties["judge"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/JudgeSpec"}]}
    bound = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/ThresholdKeys"}]}
    properties["thresholds"] = {"type": "object", "additionalProperties": bound}
    properties["$schema"] = {"type": "string", "description": "Address of this schema, for editors."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "required": ["cases"]}


def _forms(name: str, kind: type[BaseEvaluator], defs: dict[str, _Schema], renamed: dict[str, str]) -> list[_Schema]:
    """Return the schemas of the spellings of one evaluator, whose inner definitions are added to `defs`."""
    keys: _Schema = kind.model_json_schema(ref_template="#/$defs/{model}")
    defs.update(keys.pop("$defs", {}))
    del keys["properties"]["kind"]
    keys["properties"] = {renamed.get(key, key): value for key, value in keys["properties"].items()}
    required = [renamed.get(key, key) for key in keys.get("required", ())]
    if required:
        keys["required"] = required
    about = str(keys.get("description", ""))
    forms: list[_Schema] = [_named(name, keys, about)]
    argument = kind.argument
    if argument is not None:
        shape = keys["properties"][renamed.get(argument, argument)]
        forms.append(_named(name, {**shape, "not": {"type": "object"}, "description": about}, about))
    if not required:
        forms.append({"const": name, "description": about})
    return forms


def _named(name: str, shape: _Schema, about: str) -> _Schema:
    return {
        "type": "object",
        "properties": {name: shape},
        "required": [name],
        "additionalProperties": False,
        "description": about,
    }
