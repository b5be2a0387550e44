"""Function of an author as a tool: its signature as JSON Schema, arguments from JSON, its result as JSON.

Used where tools are loaded, in the activity that calls plain functions, and by workflow code for functions with a
context; all of them must read a signature the same way. Never calls the function.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, cast, get_type_hints

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from llm_do_temporal.definitions.tools.plain_values import bounded_value, plain_value
from llm_do_temporal.errors import DefinitionError, EffectFailed
from llm_do_temporal.messages.sizes import MAX_PYTHON_RESULT_BYTES
from llm_do_temporal.redaction.hidden_characters import without_advice
from llm_do_temporal.tools import IdempotencyKey, ToolCallFailed, ToolContext, is_idempotent, takes_context

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
            problems = error.errors(include_url=False, include_input=False, include_context=False)[:5]
            listed = [": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in problems]
            raise EffectFailed(f"the arguments of '{self.name}' are not valid: {'; '.join(listed)}") from error
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
    _check_contexts(name, contexts, context=context)
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


def _check_contexts(name: str, contexts: list[str], *, context: bool) -> None:
    if contexts and not context:
        raise DefinitionError(f"'{name}' takes a ToolContext; mark it with @tool_context")
    if context and len(contexts) != 1:
        raise DefinitionError(f"'{name}' is marked with @tool_context; it takes exactly one `ctx: ToolContext`")


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
