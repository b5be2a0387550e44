"""Tools in the form that every provider takes, and the arguments of their calls by the names of their own.

A provider refuses the whole request for one tool: for a choice at the top of its schema, for the name of a property,
for a long description. Owns what is sent in the place of these. The history keeps the schemas and arguments that the
tools have, and calls are judged by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

_OF_OPENAI = frozenset(("OpenAIChatModel", "OpenAIResponsesModel"))
_MOST_DESCRIBED = 1024
"""Longest description that servers of OpenAI's protocol take: Azure and older gateways refuse a longer one."""
_GOES_ON = "… (goes on in the instructions)"
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of properties that all providers take at the top of a schema. Further down they take any."""
_OTHER = re.compile(r"[^a-zA-Z0-9_.-]")
_MOST_KEY_CHARS = 64
_CHOICES = ("allOf", "anyOf", "oneOf")
_NOT_AT_TOP = (*_CHOICES, "not", "enum")
_MOST_RULE_CHARS = 2000
"""Longest rule, as JSON, that is put into a description; a longer one is judged all the same, and not told."""
_MOST_NESTED = 10
_OWN_KEYS = "llm_do_own_keys"
"""Key in the metadata of a tool that is sent: its own names of properties, by those that are sent."""

_Schema = dict[str, Any]
_Keys = Mapping[str, str]


def with_plain_tools(
    model: Model, messages: list[ModelMessage], parameters: ModelRequestParameters
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """Return the conversation and its parameters with plain tools; what is given stays as it is."""
    functions, outputs = ([_plain(tool) for tool in tools] for tools in _tools(parameters))
    plain = replace(parameters, function_tools=functions, output_tools=outputs)
    if any(kind.__name__ in _OF_OPENAI for kind in type(model).__mro__):
        plain = _shortly_described(messages, plain)
    sent = {tool: {own: key for key, own in keys.items()} for tool, keys in _own_keys(plain).items()}
    return [_renamed_calls(one, sent) for one in messages] if sent else messages, plain


def with_own_keys(answer: ModelResponse, parameters: ModelRequestParameters) -> ModelResponse:
    """Return the answer to a request with these parameters, with the arguments of its calls by their own names."""
    keys = _own_keys(parameters)
    return cast("ModelResponse", _renamed_calls(answer, keys)) if keys else answer


def _tools(parameters: ModelRequestParameters) -> tuple[list[ToolDefinition], list[ToolDefinition]]:
    return parameters.function_tools, parameters.output_tools


def _own_keys(parameters: ModelRequestParameters) -> dict[str, _Keys]:
    """Return the own names of properties that are sent by others, by tool."""
    tools = (tool for tools in _tools(parameters) for tool in tools)
    return {tool.name: tool.metadata[_OWN_KEYS] for tool in tools if tool.metadata and _OWN_KEYS in tool.metadata}


def _renamed_calls(message: ModelMessage, keys: Mapping[str, _Keys]) -> ModelMessage:
    if not isinstance(message, ModelResponse):
        return message
    parts = [
        replace(part, args=_renamed_args(part.args, keys[part.tool_name]))
        if isinstance(part, ToolCallPart) and part.tool_name in keys
        else part
        for part in message.parts
    ]
    return replace(message, parts=parts)


def _renamed_args(args: Any, keys: _Keys) -> Any:
    """Return arguments with other names; what is no object stays as it is."""
    try:
        value: Any = json.loads(args) if isinstance(args, str) else args
    except (ValueError, RecursionError):
        return args
    if not isinstance(value, dict) or not any(key in keys for key in cast("_Schema", value)):
        return args
    found = {keys.get(key, key): one for key, one in cast("_Schema", value).items()}
    return json.dumps(found, ensure_ascii=False) if isinstance(args, str) else found


def _plain(tool: ToolDefinition) -> ToolDefinition:
    """Return a tool whose schema has no choice at its top, and plain names of properties there."""
    schema = tool.parameters_json_schema
    rule = {word: schema[word] for word in _NOT_AT_TOP if word in schema}
    flat = _flat(schema) if rule else schema
    keys = _plain_keys(_named(flat))
    if not rule and not keys:
        return tool
    own = {key: name for name, key in keys.items()}
    description = tool.description
    told = json.dumps(_renamed(rule, keys), ensure_ascii=False)
    if rule and len(told) <= _MOST_RULE_CHARS:
        description = f"{description or ''}\n\nThe arguments must be valid by this JSON Schema, too: {told}".strip()
    metadata = {**(tool.metadata or {}), _OWN_KEYS: own} if own else tool.metadata
    flat = _noted(_renamed(flat, keys), own)
    return replace(tool, parameters_json_schema=flat, description=description, metadata=metadata)


def _named(schema: _Schema) -> _Schema:
    """Return the properties of a schema."""
    found = schema.get("properties")
    return cast("_Schema", found) if isinstance(found, dict) else {}


def _flat(schema: _Schema) -> _Schema:
    """Return a schema with the properties of its choices, without the choices. It takes all that the schema takes."""
    found: dict[str, list[Any]] = {}
    required: list[str] = list(schema.get("required") or ())
    for branch, always in _branches(schema, schema, always=True, depth=0):
        for name, one in _named(branch).items():
            known = found.setdefault(name, [])
            known.extend([] if one in known else [one])
        required += (branch.get("required") or ()) if always else ()
    more = {name: ones[0] if len(ones) == 1 else {"anyOf": ones} for name, ones in found.items()}
    flat = {word: value for word, value in schema.items() if word not in _NOT_AT_TOP}
    flat["properties"] = {**more, **_named(schema)}
    return {**flat, "required": list(dict.fromkeys(required))} if required else flat


def _branches(root: _Schema, schema: _Schema, *, always: bool, depth: int) -> Iterator[tuple[_Schema, bool]]:
    """Yield the schemas in the choices of a schema, and whether each holds always."""
    for word in _CHOICES:
        for given in cast("list[Any]", schema.get(word) or []):
            one = _referred(root, given)
            if isinstance(one, dict) and depth < _MOST_NESTED:
                branch, holds = cast("_Schema", one), always and word == "allOf"
                yield branch, holds
                yield from _branches(root, branch, always=holds, depth=depth + 1)


def _referred(root: _Schema, schema: Any) -> Any:
    """Return a schema, or the definition that it refers to."""
    if not isinstance(schema, dict) or not isinstance(reference := cast("_Schema", schema).get("$ref"), str):
        return cast("Any", schema)
    start, _, name = reference.rpartition("/")
    place: Any = root.get(start.removeprefix("#/")) if start in ("#/$defs", "#/definitions") else None
    return cast("_Schema", place).get(name) if isinstance(place, dict) else None


def _plain_keys(properties: _Schema) -> dict[str, str]:
    """Return plain names for the properties whose names are not, each unlike all other names."""
    found: dict[str, str] = {}
    taken = set(properties)
    for name in properties:
        if _KEY.fullmatch(name) is None:
            plain = first = _OTHER.sub("_", name)[:_MOST_KEY_CHARS] or "_"
            number = 1
            while plain in taken:
                number += 1
                plain = f"{first[: _MOST_KEY_CHARS - 8]}_{number}"
            taken.add(plain)
            found[name] = plain
    return found


def _renamed(schema: _Schema, keys: _Keys) -> _Schema:
    """Return a schema with other names of properties: in it, in its choices, and in what it requires."""
    if not keys:
        return schema
    found = dict(schema)
    for word, change in _CHANGES.items():
        if isinstance(found.get(word), dict | list):
            found[word] = change(found[word], keys)
    return found


def _each_renamed(given: Any, keys: _Keys) -> Any:
    if isinstance(given, dict):
        return _renamed(cast("_Schema", given), keys)
    if isinstance(given, list):
        return [_each_renamed(one, keys) for one in cast("list[Any]", given)]
    return given


def _names_renamed(given: Any, keys: _Keys) -> Any:
    if isinstance(given, dict):
        return {keys.get(name, name): _lists_renamed(one, keys) for name, one in cast("_Schema", given).items()}
    return [keys.get(one, one) if isinstance(one, str) else one for one in cast("list[Any]", given)]


def _lists_renamed(given: Any, keys: _Keys) -> Any:
    return _names_renamed(given, keys) if isinstance(given, list) else given


_CHANGES: Mapping[str, Callable[[Any, _Keys], Any]] = {
    "properties": _names_renamed,
    "required": _names_renamed,
    "dependentRequired": _names_renamed,
    **dict.fromkeys(_CHOICES, _each_renamed),
    "not": _each_renamed,
    "if": _each_renamed,
    "then": _each_renamed,
    "else": _each_renamed,
}
"""Keywords of a schema that hold names of its properties, and how these become others."""


def _noted(schema: _Schema, own: _Keys) -> _Schema:
    """Return a schema in which each property that is sent by another name tells its own."""
    if not own:
        return schema
    named = dict(_named(schema))
    for key, name in own.items():
        one: Any = named[key]
        if one is not False:
            known = cast("_Schema", one) if isinstance(one, dict) else {}
            named[key] = {**known, "description": f"'{name}'. {known.get('description') or ''}".strip()}
    return {**schema, "properties": named}


def _shortly_described(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> ModelRequestParameters:
    """Return the parameters with descriptions of the length that is taken; the whole ones are in the instructions."""
    functions, outputs = _tools(parameters)
    long = [tool for tool in (*functions, *outputs) if len(tool.description or "") > _MOST_DESCRIBED]
    if not long:
        return parameters
    parts = parameters.instruction_parts
    if parts is None:
        asked = (one.instructions for one in reversed(messages) if isinstance(one, ModelRequest))
        known = next((instructions for instructions in asked if instructions), None)
        parts = [InstructionPart(content=known)] if known else []
    told = "\n\n".join(f"Tool `{tool.name}`:\n\n{tool.description}" for tool in long)
    return replace(
        parameters,
        function_tools=[_short(tool) for tool in functions],
        output_tools=[_short(tool) for tool in outputs],
        instruction_parts=[*parts, InstructionPart(content=told)],
    )


def _short(tool: ToolDefinition) -> ToolDefinition:
    text = tool.description or ""
    if len(text) <= _MOST_DESCRIBED:
        return tool
    return replace(tool, description=f"{text[: _MOST_DESCRIBED - len(_GOES_ON)].rstrip()}{_GOES_ON}")
