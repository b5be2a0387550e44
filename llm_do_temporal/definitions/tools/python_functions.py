"""Function of an author as a tool: its signature as JSON Schema, arguments from JSON, its result as JSON.

Used where tools are loaded, in the activity that calls plain functions, and by workflow code for functions with a
context; all of them must read a signature the same way. Never calls the function. Of its result, what no JSON holds is
replaced by a note of it and nothing else is lost; no error is raised, as the function has run and its result counts.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json, to_jsonable_python

from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.sizes import MAX_PYTHON_RESULT_BYTES
from llm_do_temporal.policy.files.encodings import whole_characters
from llm_do_temporal.redaction.hidden_characters import without_advice
from llm_do_temporal.tools import IdempotencyKey, ToolCallFailed, ToolContext, is_idempotent, takes_context

MOST_ITEMS = 1_000_000
"""Most values of one result; those that follow are left out, and a note says so."""
DEEPEST = 100
"""Most containers within each other."""
_LARGEST_BITS = 4_096


def plain_value(value: Any, noted: Callable[[Any], str | None] = lambda _: None, *, most: int | None = None) -> Any:
    """Return the value as JSON that every server and database holds.

    `noted` returns the text that stands for a value within it; None: there is none for this one. Of values that are
    made while they are read, which may have no end, nothing is read after `most` bytes; None: MOST_ITEMS is the bound.
    """
    return _Plain(noted, most).of(value, 0)


def bounded_value(value: Any, most: int) -> Any:
    """Return a JSON value, or the beginning of its text where it has more than `most` bytes."""
    data = value.encode() if isinstance(value, str) else to_json(value)
    if len(data) <= most:
        return value
    cut = data[:most].decode("utf-8", errors="ignore")
    return {"content": cut, "truncated": True, "total_bytes": len(data)}


class _Plain:
    """Reader of one result, which counts its values."""

    def __init__(self, noted: Callable[[Any], str | None], most: int | None) -> None:
        self._noted = noted
        self._most = most
        self._left = MOST_ITEMS
        self._size = 0
        self._open: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        self._size += len(value) if isinstance(value, str | bytes | bytearray) else 1
        if value is None or value is True or value is False:
            return value
        if type(value) is str:
            return whole_characters(value)
        if type(value) is int:
            return value if value.bit_length() <= _LARGEST_BITS else f"[integer of {value.bit_length()} bits]"
        if type(value) is float:
            return value if math.isfinite(value) else repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        note = self._noted(value)
        if note is not None:
            return note
        if isinstance(value, bytes | bytearray | memoryview):
            return _text_of(bytes(cast("bytes", value)))
        if id(value) in self._open:
            return "[refers to itself]"
        if depth >= DEEPEST:
            return "[nested too deeply]"
        self._open.add(id(value))
        try:
            return self._within(value, depth + 1)
        except Exception as error:
            # The value's own code has raised it.
            return f"[{type(value).__name__}: {type(error).__name__} while it was read]"
        finally:
            self._open.discard(id(value))

    def _within(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            given = cast("Mapping[Any, Any]", value)
            return self._object(given.items(), depth, is_lazy=not isinstance(given, dict))
        if isinstance(value, list | tuple | set | frozenset | Iterator):
            return self._list(cast("Iterable[Any]", value), depth, is_lazy=isinstance(value, Iterator))
        # Pydantic reads an iterator in a field to its end.
        is_lazy = self._most is not None and _holds_iterator(value, set())
        if not is_lazy:
            with suppress(Exception):
                return self.of(to_jsonable_python(value, inf_nan_mode="strings"), depth)
        if is_lazy and isinstance(value, deque):
            return self._list(cast("Iterable[Any]", value), depth, is_lazy=False)
        if isinstance(value, BaseModel):
            names = (*type(value).model_fields, *((is_lazy and value.model_extra) or ()))
            return self._object(((name, getattr(value, name)) for name in names), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(((one.name, getattr(value, one.name)) for one in dataclasses.fields(value)), depth)
        return f"[{type(value).__name__}: JSON has no form for it]"

    def _is_full(self, *, is_lazy: bool) -> bool:
        return self._left <= 0 or (is_lazy and self._most is not None and self._size > self._most)

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int, *, is_lazy: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in items:
            if self._is_full(is_lazy=is_lazy):
                found["[more]"] = "[left out: too many values]"
                break
            self._left -= 1
            name = _key(key)
            self._size += len(name)
            while name in found:
                name += "'"
            found[name] = self.of(inner, depth)
        return found

    def _list(self, items: Iterable[Any], depth: int, *, is_lazy: bool) -> list[Any]:
        found: list[Any] = []
        try:
            for inner in islice(items, max(self._left, 0)):
                self._left -= 1
                found.append(self.of(inner, depth))
                if self._is_full(is_lazy=is_lazy):
                    break
            if self._is_full(is_lazy=is_lazy):
                found.append("[left out: too many values]")
        except Exception as error:
            found.append(f"[{type(error).__name__} while the rest was read]")
        return found


def _holds_iterator(value: Any, seen: set[int]) -> bool:
    """Return whether an iterator is among the fields and items of a value."""
    if isinstance(value, Iterator):
        return True
    if value is None or isinstance(value, str | bytes | int | float) or id(value) in seen:
        return False
    seen.add(id(value))
    try:
        return len(seen) > MOST_ITEMS or any(_holds_iterator(one, seen) for one in _parts(value))
    except RecursionError:
        return True


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    if isinstance(value, list | tuple | set | frozenset | deque):
        return cast("Iterable[Any]", value)
    if isinstance(value, BaseModel):
        return [*value.__dict__.values(), value.model_extra]
    if dataclasses.is_dataclass(value):
        return [getattr(value, one.name, None) for one in dataclasses.fields(value)]
    return ()


def _key(key: Any) -> str:
    if isinstance(key, str):
        return whole_characters(str(key))
    try:
        (name,) = to_jsonable_python({key: None}, inf_nan_mode="strings")
        return whole_characters(name)
    except Exception:
        return f"[{type(key).__name__}]"


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes, not shown]"


_SEARCHED_CHARS = 100_000
"""Longest beginning of a message that is looked through."""
MAX_MESSAGE_CHARS = 2_000
_MOST_NAME_CHARS = 100
_MOST_OF_A_GROUP = 5
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Untitled(GenerateJsonSchema):
    """Generator of JSON Schema without a title for every field: a model has the field's name."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as its base has it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False for every field."""
        return False


@dataclass(frozen=True)
class PythonFunction:
    """Function with a signature that can be a tool's."""

    name: str
    call: Callable[..., Any]
    context: bool
    """Whether it takes a `ToolContext` and runs in workflow code."""
    idempotent: bool
    context_parameter: str | None
    key_parameters: tuple[str, ...]
    adapter: TypeAdapter[dict[str, Any]]

    @property
    def description(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.call) or ""

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments a model gives. Raises DefinitionError."""
        try:
            return self.adapter.json_schema(schema_generator=_Untitled)
        except PydanticUserError as error:
            raise DefinitionError(f"an argument of '{self.name}' has no JSON Schema: {_first_line(error)}") from error

    def arguments(self, given: Mapping[str, Any], *, key: str, context: ToolContext | None = None) -> dict[str, Any]:
        """Return the arguments to call the function with. Raises EffectFailed where `given` does not fit its types."""
        try:
            arguments = self.adapter.validate_json(json.dumps(given))
        except ValidationError as error:
            raise EffectFailed(
                f"the arguments of '{self.name}' are not valid: {'; '.join(misfits(error, 5))}"
            ) from error
        arguments |= dict.fromkeys(self.key_parameters, IdempotencyKey(key))
        if self.context_parameter is not None:
            arguments[self.context_parameter] = context
        return arguments


def read_function(name: str, found: object) -> PythonFunction:
    """Return the function `found` in a module as a tool. Raises DefinitionError for an object that cannot be a tool."""
    if not inspect.isfunction(found):
        raise DefinitionError(f"'{name}' is not a function")
    context = takes_context(found)
    _check_kind(name, found, context=context)
    try:
        hints = get_type_hints(found, include_extras=True)
        signature = inspect.signature(found)
    except Exception as error:
        # An annotation is an expression of the author's; whatever it raises, it cannot be read.
        raise DefinitionError(f"the annotations of '{name}' cannot be read: {_first_line(error)}") from error
    offered: list[inspect.Parameter] = []
    keys: list[str] = []
    contexts: list[str] = []
    for parameter in signature.parameters.values():
        annotation = hints.get(parameter.name, Any)
        if parameter.kind not in _KINDS:
            raise DefinitionError(f"'{name}' takes '{parameter}'; a tool's arguments all have names and stand alone")
        if annotation is ToolContext or (context and parameter.name == "ctx"):
            contexts.append(parameter.name)
        elif annotation is IdempotencyKey:
            keys.append(parameter.name)
        else:
            offered.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
    if contexts and not context:
        raise DefinitionError(f"'{name}' takes a ToolContext; mark it with @tool_context")
    if context and len(contexts) != 1:
        raise DefinitionError(f"'{name}' is marked with @tool_context; it takes exactly one `ctx: ToolContext`")
    return PythonFunction(
        name=name,
        call=found,
        context=context,
        idempotent=is_idempotent(found),
        context_parameter=contexts[0] if contexts else None,
        key_parameters=tuple(keys),
        adapter=_adapter(name, offered),
    )


def as_json(result: Any, *, most: int | None = None) -> Any:
    """Return a function's result as a JSON value of at most 8 MB: what no JSON holds is replaced, too much is cut.

    `most` is the number of bytes after which an iterator is not read on; None: it is read to the end.
    """
    return bounded_value(plain_value(result, most=most), MAX_PYTHON_RESULT_BYTES)


def explain_exception(tool: str, error: BaseException) -> str:
    """Return a model's text for an exception of a function: types and messages, at most 2,000 characters of each.

    Of a group, all exceptions in it, the first five at most.
    """
    first, *others = islice(_leaves(error), 2)
    if isinstance(first, ToolCallFailed) and not others:
        return f"'{tool}' could not go on: {message_of(first)}"
    return f"'{tool}' raised {describe_exception(error)}"


def describe_exception(error: BaseException) -> str:
    """Return the type and message of an exception; of a group, those of its first five exceptions."""
    leaves = list(islice(_leaves(error), _MOST_OF_A_GROUP))
    words = [(re.sub(r"\W+", "_", type(leaf).__name__)[:_MOST_NAME_CHARS], message_of(leaf)) for leaf in leaves]
    return "; ".join(f"{name}: {message}" if message else name for name, message in words)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, at most 2,000 characters. Its own code may fail, in whichever way."""
    try:
        words = str.encode(str(error), "utf-8", "replace").decode()
    except BaseException as failed:
        words = f"its message cannot be read: {type(failed).__name__}"
    return without_advice(words[:_SEARCHED_CHARS].strip())[:MAX_MESSAGE_CHARS]


def misfits(error: ValidationError, most: int) -> list[str]:
    """Return the first problems of values that do not fit a type, each with the place of the value."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[:most]
    return [": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in found]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from _leaves(one)


def _check_kind(name: str, found: Callable[..., Any], *, context: bool) -> None:
    plain = inspect.unwrap(found)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise DefinitionError(f"'{name}' is a generator; a tool returns its result")
    if context and not inspect.iscoroutinefunction(found):
        raise DefinitionError(f"'{name}' is marked with @tool_context; such a function is `async def`")
    if context and is_idempotent(found):
        raise DefinitionError(
            f"'{name}' is marked with @tool_context and @idempotent; it is always replayed, and each call it makes "
            "is retried or not for itself"
        )


def _adapter(name: str, parameters: list[inspect.Parameter]) -> TypeAdapter[dict[str, Any]]:
    """Return a validator of arguments: a stand-in with the function's signature, less the filled in parameters."""

    def arguments(**given: Any) -> dict[str, Any]:
        return given

    stand_in = cast("Any", arguments)
    stand_in.__signature__ = inspect.Signature(parameters)
    stand_in.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    try:
        return TypeAdapter(stand_in)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise DefinitionError(f"the arguments of '{name}' cannot be described: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
