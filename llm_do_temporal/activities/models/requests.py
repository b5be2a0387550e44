"""Conversations and tools in the form that the adapter of one model takes.

A conversation is kept as it was said, with what the agent's loop adds to it. No provider has a word for these
additions, so they are put into words here, by the model that sends; the result is sent and never kept. Each call gets
a name and an id that no other call has, and its result is in the request that follows it. A provider refuses the whole
request for one tool: for a choice at the top of its schema, for the name of a property, for a long description. The
history keeps the schemas and arguments that the tools have, and calls are judged by them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias, cast

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    _with_framing_announcement,  # pyright: ignore[reportPrivateUsage] - whoever prepares messages has to call it
)
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.activities.models.answers import plain_args, plain_name
from llm_do_temporal.activities.models.builder import is_behind_address

_CHAT = "OpenAIChatModel"
_ASKED = "#"
"""Stands before the name of a model in the address of its answer."""
_ITEM = "rs_"
"""Begins the id of a thought of OpenAI's responses. Its chat completions would take that for the name of a field."""
_LEFT_OUT = "(What was said before is left out.)"
"""Stands for a user where a conversation would begin with its assistant."""
_NO_INPUT = "(The input is empty.)"
_NO_RESULT = "(The result is empty.)"
_GO_ON = "(Go on.)"
"""Stands for a user who says nothing after an answer."""


def prepared(
    model: Model,
    messages: list[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """The whole conversation, with its files in it, as `model` can be asked; the messages given stay as they are.

    A tool that came in the middle of a conversation is declared like any other. Some providers could be told of it in
    its place, which saves them reading all before it again, but not every server that speaks their protocol can.
    """
    parameters = _with_framing_announcement(replace(parameters, revealed_tool_names=set()), settings)
    # An answer at the end is one that its provider goes on with: nothing in it is missing yet.
    ended = not messages or not isinstance(messages[-1], ModelResponse)
    messages = repair_messages(paired(list(_portable(model, messages))), repair_last_response=ended)
    said = model.prepare_messages(messages, parameters)
    is_chat = any(kind.__name__ == _CHAT for kind in type(model).__mro__)
    said = [_answer(model, one, is_chat) if isinstance(one, ModelResponse) else one for one in said]
    # A script takes every conversation as it is.
    if model.provider is not None:
        said, parameters = with_plain_tools(model, _without_gaps(said), parameters)
    return repair_messages(said, repair_last_response=ended), parameters


def with_asked(answer: ModelResponse, model: Model) -> ModelResponse:
    """Return the answer; where one address may serve several models, with the name of the one that gave it."""
    if not is_behind_address(model) or not answer.provider_url:
        return answer
    return replace(answer, provider_url=f"{answer.provider_url}{_ASKED}{model.model_name}")


def _portable(model: Model, messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    """Yield the conversation; answers of another server or model with one protocol without what only that one can read.

    These are ids of items, signatures of thoughts, and what server-side tools have done. The library looks at the name
    of the protocol, and would send all of it to every server that speaks it.
    """
    protocol, own = model.system, dict[str, bool]()
    for message in messages:
        if isinstance(message, ModelResponse) and message.provider_name == protocol:
            address, _, asked = (message.provider_url or "").partition(_ASKED)
            message = replace(message, provider_url=address or None)
            if address not in own:
                own[address] = model.accepts_server_state(message)
            yield message if own[address] and asked in ("", model.model_name) else _of_nobody(message)
        else:
            yield message


def _of_nobody(answer: ModelResponse) -> ModelResponse:
    parts: list[Any] = [
        replace(cast("Any", part), provider_name=None) if getattr(part, "provider_name", None) else part
        for part in answer.parts
    ]
    return replace(answer, parts=parts, provider_name=None)


def _answer(model: Model, answer: ModelResponse, is_chat: bool) -> ModelResponse:
    """The answer as it can be sent back: no empty text, no thought that its reader cannot use or that nothing follows.

    A provider refuses these, or its model learns to write them.
    """
    if not any(isinstance(part, ThinkingPart) or _is_blank(part) for part in answer.parts):
        return answer
    parts = [part for part in answer.parts if not _is_blank(part) or _is_signed(model, answer, part, is_chat)]
    while parts and answer.state == "complete" and isinstance(parts[-1], ThinkingPart):
        parts.pop()
    if is_chat:
        parts = [
            replace(part, id=None) if isinstance(part, ThinkingPart) and (part.id or "").startswith(_ITEM) else part
            for part in parts
        ]
    return replace(answer, parts=parts)


def _is_blank(part: ModelResponsePart) -> bool:
    return isinstance(part, TextPart | ThinkingPart) and not part.content.strip()


def _is_signed(model: Model, answer: ModelResponse, part: ModelResponsePart, is_chat: bool) -> bool:
    """Whether an empty part has something in it for this model's provider."""
    signed = bool(part.provider_details) or (isinstance(part, ThinkingPart) and bool(part.signature) and not is_chat)
    return signed and model.accepts_stateless_artifacts(answer, part)


def _without_gaps(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the conversation with words where nothing is said: it begins with a user, and no text in it is empty."""
    said = [_request(one) if isinstance(one, ModelRequest) else one for one in messages]
    first = next((place for place, one in enumerate(said) if isinstance(one, ModelResponse) and one.parts), len(said))
    if all(isinstance(part, SystemPromptPart) for one in said[:first] for part in one.parts):
        opening = UserPromptPart(_NO_INPUT if first == len(said) else _LEFT_OUT)
        begun = said[0] if said and isinstance(said[0], ModelRequest) else None
        if begun is None:
            said.insert(0, ModelRequest(parts=[opening]))
        else:
            said[0] = replace(begun, parts=[*begun.parts, opening])
    last = said[-1]
    if isinstance(last, ModelRequest) and not last.parts:
        said[-1] = replace(last, parts=[UserPromptPart(_GO_ON)])
    return said


def _request(request: ModelRequest) -> ModelRequest:
    """The request without empty prompts, and with words for an empty result."""
    parts = [_full(part) for part in request.parts]
    if all(full is part for full, part in zip(parts, request.parts, strict=True)):
        return request
    return replace(request, parts=[part for part in parts if part is not None])


def _full(part: Any) -> Any:
    """The part without empty texts; None: nothing is left."""
    kind, content = part.part_kind, getattr(part, "content", None)
    if kind == "tool-return":
        return replace(part, content=_NO_RESULT) if _is_empty(content) else part
    if kind not in ("system-prompt", "user-prompt"):
        return part
    if isinstance(content, str):
        return None if _is_empty(content) else part
    given = cast("Sequence[Any]", content)
    contents = [one for one in given if not _is_empty(one)]
    if not contents:
        return None
    return part if len(contents) == len(given) else replace(part, content=contents)


def _is_empty(content: Any) -> bool:
    text = content.content if isinstance(content, TextContent) else content
    return isinstance(text, str) and not text.strip()


_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids of calls that all providers take, but for those that want nine letters, whose profiles say so."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that all providers take, as `plain_name` makes them."""
_RESULTS = ("tool-return", "retry-prompt")
"""Kinds of parts of a request that may be the result of a call."""
_Open: TypeAlias = dict[str, deque[tuple[int, ToolCallPart]]]
"""Calls without a result, by the id with which they were kept: place of their answer, and the call as it is sent."""


def paired(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the conversation with its calls and results in pairs; the messages given stay as they are.

    A result goes to the oldest call with its id that has none. One without a call is left out. A call without a result
    stays without.
    """
    return messages if _is_paired(messages) else _in_pairs(messages)


def _is_paired(messages: Sequence[ModelMessage]) -> bool:
    """Whether nothing has to be changed. Asked of every call in every turn, so it only looks."""
    taken: set[str] = set()
    waiting: dict[str, str] = {}
    follows = False
    for message in messages:
        if isinstance(message, ModelResponse):
            if waiting:
                return False
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    if part.tool_call_id in taken or not _is_plain(part):
                        return False
                    taken.add(part.tool_call_id)
                    waiting[part.tool_call_id] = part.tool_name
        else:
            for result in _results(message):
                if not follows or waiting.pop(result.tool_call_id, None) != result.tool_name:
                    return False
        follows = isinstance(message, ModelResponse)
    return True


def _is_plain(call: ToolCallPart) -> bool:
    has_names = _ID.fullmatch(call.tool_call_id) is not None and _NAME.fullmatch(call.tool_name) is not None
    return has_names and not _may_hold_odd_number(call)


def _may_hold_odd_number(call: ToolCallPart) -> bool:
    return isinstance(call.args, str) and ("NaN" in call.args or "Infinity" in call.args)


def _results(request: ModelRequest) -> Iterator[Any]:
    return (part for part in request.parts if _is_result(part))


def _is_result(part: Any) -> bool:
    return part.part_kind in _RESULTS and part.tool_name is not None


def _in_pairs(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    taken: set[str] = set()
    waiting: _Open = defaultdict(deque)
    results: dict[int, list[Any]] = defaultdict(list)
    others: list[ModelMessage | None] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            others.append(_with_plain_calls(message, place, taken, waiting))
            continue
        for result in _results(message):
            if waiting[result.tool_call_id]:
                asked, call = waiting[result.tool_call_id].popleft()
                results[asked].append(_with_names(result, call.tool_name, call.tool_call_id))
        rest = [part for part in message.parts if not _is_result(part)]
        is_left_out = not rest and message.parts and place < len(messages) - 1
        others.append(None if is_left_out else replace(message, parts=rest))
    return list(_put_together(others, results))


def _put_together(others: Sequence[ModelMessage | None], results: dict[int, list[Any]]) -> Iterator[ModelMessage]:
    """Yield the messages, each result in the request after its call."""
    found: list[Any] = []
    for place, message in enumerate(others):
        if isinstance(message, ModelRequest):
            yield replace(message, parts=[*found, *message.parts]) if found else message
            found = []
        elif isinstance(message, ModelResponse):
            if found:
                yield ModelRequest(parts=found)
            yield message
            found = results.get(place, [])
    if found:
        yield ModelRequest(parts=found)


def _with_plain_calls(answer: ModelResponse, place: int, taken: set[str], waiting: _Open) -> ModelResponse:
    parts = list(answer.parts)
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            # Its id is plain, is that of no earlier call, and stays the same while the conversation grows.
            given = found = part.tool_call_id
            number = 1
            while found in taken or _ID.fullmatch(found) is None:
                odd = given if number == 1 and given not in taken else f"{given}#{number}"
                found = f"call_{sha256(odd.encode(errors='surrogatepass')).hexdigest()[:32]}"
                number += 1
            taken.add(found)
            call = _with_names(part, plain_name(part.tool_name, ()), found)
            if _may_hold_odd_number(call):
                call = replace(call, args=plain_args(call))
            waiting[part.tool_call_id].append((place, call))
            parts[index] = call
    return replace(answer, parts=parts)


def _with_names(part: Any, name: str, own: str) -> Any:
    if (part.tool_name, part.tool_call_id) == (name, own):
        return part
    other = copy(part)
    other.tool_name, other.tool_call_id = name, own
    return other


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
    # Plain names for the properties whose names are not, each unlike all other names.
    keys: dict[str, str] = {}
    taken = set(_named(flat))
    for name in _named(flat):
        if _KEY.fullmatch(name) is None:
            plain = first = _OTHER.sub("_", name)[:_MOST_KEY_CHARS] or "_"
            number = 1
            while plain in taken:
                number += 1
                plain = f"{first[: _MOST_KEY_CHARS - 8]}_{number}"
            taken.add(plain)
            keys[name] = plain
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
        named = cast("_Schema", given).items()
        return {
            keys.get(name, name): _names_renamed(one, keys) if isinstance(one, list) else one for name, one in named
        }
    return [keys.get(one, one) if isinstance(one, str) else one for one in cast("list[Any]", given)]


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
