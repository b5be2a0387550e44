"""Toolsets from elsewhere, where they live: their tools listed, their calls judged and made.

Owns the construction of toolsets from what a worker's file says. A toolset is built for one activity and closed with
it, so nothing it keeps in memory lasts from one call to the next. Its text is hostile: names, descriptions and
schemas are checked and bounded here before they enter a history. Keywords of a schema that cannot be judged are left
out; the toolset judges them itself. Secrets are read here, from the variables that a worker's file names, and go to the
server alone.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from pydantic import ValidationError
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import RunUsage
from temporalio import activity
from temporalio.client import Client

from llm_do_temporal.activities.external_answers import (
    CONNECT_SECONDS,
    LEFT_OUT,
    ServerNote,
    bounded,
    logged,
    logged_error,
    server_stderr,
    why_no_answer,
    why_unusable,
)
from llm_do_temporal.activities.models.builder import NamedModel
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import in_own_loop, is_interruption
from llm_do_temporal.callers import CallerContext, working_for
from llm_do_temporal.definitions.tools.external import CAPABILITIES_METHOD, MCP_STEP, has_mcp, load_toolset_class
from llm_do_temporal.definitions.tools.python_functions import bounded_value, plain_value
from llm_do_temporal.errors import DefinitionError, EffectFailed, LlmDoError, OutcomeUnknown
from llm_do_temporal.json_schema import find_schema_problems
from llm_do_temporal.messages.activities import (
    CALL_EXTERNAL_TOOL,
    EXTERNAL_CAPABILITIES,
    LIST_EXTERNAL_TOOLS,
    CallExternalToolInput,
    ExternalCapabilities,
    ExternalResult,
    ListExternalToolsInput,
)
from llm_do_temporal.messages.definitions import (
    ExternalTool,
    ExternalToolListing,
    ExternalTools,
    ExternalToolset,
    McpServer,
)
from llm_do_temporal.messages.sizes import MAX_DESCRIPTION_CHARS, MAX_EXTERNAL_RESULT_BYTES, MAX_LISTING_BYTES
from llm_do_temporal.redaction.configured_keys import know_variable, remove_keys
from llm_do_temporal.tools import ToolCallFailed

_MOST_LEFT_OUT = 20
_MOST_NESTED = 100
_NAMED = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
"""Keywords whose values are schemas by name."""
_VALUES = ("enum", "const", "default", "examples", "example", "required")
_TURNED = ("not", "if", "oneOf", "contains", "propertyNames")
"""Keywords under which a schema that takes more lets the whole take less."""
_EVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_GONE = (("required", bool), ("id", str))
"""Keywords with the kind of value that only older drafts give them."""


def usable_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str], str | None]:
    """Return the schema in its usable form, the places of the keywords left out, and the problem that remains.

    The problem is None for a schema that can be used.
    """
    usable = cast("dict[str, Any]", _modern(copy.deepcopy(schema), 0))
    usable.pop("$schema", None)
    left: list[str] = []
    while problems := find_schema_problems(usable):
        path, message = problems[0]
        if not path or len(left) == _MOST_LEFT_OUT or not _without(usable, list(path)):
            return usable, left, message
        left.append(".".join(str(part) for part in path))
    return usable, left, None


def _modern(schema: Any, depth: int) -> Any:
    """Return a schema with the keywords of older drafts in their present form."""
    if isinstance(schema, list):
        return [_modern(one, depth + 1) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict) or depth > _MOST_NESTED:
        return cast("Any", schema)
    found: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in _NAMED and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            found[key] = {name: _modern(one, depth + 2) for name, one in named.items()}
        else:
            found[key] = value if key in _VALUES else _modern(value, depth + 1)
    _replace_old_keywords(found)
    return found


def _replace_old_keywords(found: dict[str, Any]) -> None:
    for exclusive, bound in _BOUNDS:
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and bound in found:
            found[exclusive] = found.pop(bound)
    if isinstance(found.get("items"), list):
        found["prefixItems"] = found.pop("items")
        if "additionalItems" in found:
            found["items"] = found.pop("additionalItems")
    for keyword, kind in _GONE:
        if isinstance(found.get(keyword), kind):
            del found[keyword]


def _forget_evaluated(schema: Any) -> None:
    """Leave out keywords that depend on what the keywords beside them have found."""
    if isinstance(schema, dict):
        for keyword in _EVALUATED:
            cast("dict[str, Any]", schema).pop(keyword, None)


def _without(schema: Any, path: list[Any]) -> bool:
    """Leave out what stands at the path, so that no value becomes wrong by it; return whether that was possible.

    What stands in a negation, a condition or a choice is left out with that.
    """
    path = path[: next((place + 1 for place, part in enumerate(path) if part in _TURNED), len(path))]
    for part in path[:-1]:
        _forget_evaluated(schema)
        if part == "patternProperties":
            # Names that only the pattern allowed.
            schema.pop("additionalProperties", None)
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return False
    _forget_evaluated(schema)
    last = path[-1]
    if len(path) > 1 and path[-2] == "properties":
        schema[last] = {}
        return True
    if isinstance(schema, dict) and last in schema:
        del schema[last]
        return True
    return False


LISTING_SECONDS = 60
"""Seconds for a toolset to list its tools; it is asked when a worker begins, and the worker waits."""
MAX_LISTED_TOOLS = 512
MAX_WARNINGS = 20
"""Most warnings of one listing that are given one by one; the others are counted."""
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""Variables that a program needs to run at all; all others a server gets by name."""

_log = logging.getLogger(__name__)
Tools = dict[str, ToolsetTool[Any]]


class ExternalActivities:
    """Toolsets from elsewhere of one workshop."""

    def __init__(self, workshop: Path, client: Client) -> None:
        """`client` is the worker's: by it toolsets call workers."""
        self._workshop = workshop
        self._client = client

    @activity.defn(name=LIST_EXTERNAL_TOOLS.name)
    def list_external_tools(self, asked: ListExternalToolsInput) -> ExternalToolListing:
        """List the tools of each toolset. An unusable toolset has none and a warning; it does not fail the others."""
        return in_own_loop(self._list(asked))

    async def _list(self, asked: ListExternalToolsInput) -> ExternalToolListing:
        with working_for(asked.caller, self._client) as caller:
            found = await asyncio.gather(*(self._listed(toolset, asked.model, caller) for toolset in asked.toolsets))
        return ExternalToolListing(toolsets=tuple(found))

    @activity.defn(name=EXTERNAL_CAPABILITIES.name)
    def external_capabilities(self, asked: CallExternalToolInput) -> ExternalCapabilities:
        """Ask the toolset itself for the capabilities of a call. Fails with EffectFailed where it cannot say."""
        return in_own_loop(self._capabilities(asked))

    async def _capabilities(self, asked: CallExternalToolInput) -> ExternalCapabilities:
        with user_errors(), working_for(asked.caller, self._client) as caller:
            async with self._opened(asked.toolset, asked.model, caller) as (toolset, context):
                judge: Any = cast("Any", toolset).get_capabilities
                said: Any = judge(asked.tool, asked.args, context, asked.toolset.options)
                said = await said if asyncio.iscoroutine(said) else said
                names = [*cast("Any", said or ())] if isinstance(said, list | tuple | set | frozenset | None) else None
                if names is None or not all(isinstance(name, str) and name for name in names):
                    raise EffectFailed(
                        f"'{asked.toolset.name}' did not say what a call of '{asked.tool}' uses: not a list of names"
                    )
                return ExternalCapabilities(capabilities=tuple(sorted(names)))

    @activity.defn(name=CALL_EXTERNAL_TOOL.name)
    def call_external_tool(self, asked: CallExternalToolInput) -> ExternalResult:
        """Make a call. Fails with EffectFailed and a text for the model, and with OutcomeUnknown where a call that was
        sent to an MCP server has no usable answer."""
        return in_own_loop(self._call(asked))

    async def _call(self, asked: CallExternalToolInput) -> ExternalResult:
        results: list[ExternalResult] = []
        with user_errors(), working_for(asked.caller, self._client) as caller:
            try:
                opened = self._opened(asked.toolset, asked.model, caller, answer_seconds=asked.limit_seconds)
                async with opened as (toolset, context):
                    with _kept(asked.toolset):
                        tools = await toolset.get_tools(context)
                    if asked.tool not in tools:
                        raise EffectFailed(f"'{asked.toolset.name}' no longer has the tool '{asked.tool}'")
                    value = await _called(toolset, tools[asked.tool], asked, context)
                    results.append(ExternalResult(value=storable(value)))
            except EffectFailed:
                # A toolset that fails while it is closed takes no result away; `_broken` has logged the failure.
                if not results:
                    raise
        return results[0]

    async def _listed(self, toolset: ExternalToolset, model: str, caller: CallerContext) -> ExternalTools:
        try:
            async with asyncio.timeout(LISTING_SECONDS), self._opened(toolset, model, caller) as (found, context):
                with _kept(toolset):
                    tools = await found.get_tools(context)
                judges = callable(getattr(found, CAPABILITIES_METHOD, None))
                # Schemas are compiled and checked, which takes its time: heartbeats must go on meanwhile.
                return await asyncio.to_thread(listing_of, toolset, tools, judges_calls=judges)
        except LlmDoError as error:
            why = remove_keys(str(error))
        except TimeoutError:
            why = f"it did not say what tools it has within {LISTING_SECONDS} s"
        except asyncio.CancelledError as error:
            if is_interruption(error):
                raise
            why = str(_broken(toolset, error))
        warning = f"toolset '{toolset.name}' cannot be used, the worker runs without it: {why}"
        _log.warning("%s", warning)
        return ExternalTools(toolset=toolset.name, warnings=(warning,), unusable=True)

    @asynccontextmanager
    async def _opened(
        self, toolset: ExternalToolset, model: str, caller: CallerContext, *, answer_seconds: float | None = None
    ) -> AsyncGenerator[tuple[AbstractToolset[Any], RunContext[CallerContext]]]:
        """Build the toolset and enter it. Its exceptions leave as our errors, without paths of the host."""
        note = ServerNote()
        try:
            context = RunContext(deps=caller, model=NamedModel(model), usage=RunUsage())
            async with server_stderr(toolset.name) as stderr:
                with _kept(toolset):
                    # Loading a class runs the author's Python, and may take its time: heartbeats go on meanwhile.
                    constructed = await asyncio.to_thread(
                        construct, toolset, self._workshop, stderr, note, answer_seconds
                    )
                    built = await constructed.for_run(context)
                    async with built:
                        yield await built.for_run_step(context), context
        except (LlmDoError, TimeoutError):
            raise
        except BaseExceptionGroup as group:
            ours = group.subgroup(LlmDoError)
            raise (_first(ours) if ours is not None else _broken(toolset, group, note)) from group
        except Exception as error:
            # Closing a broken connection may fail as well; the failure of the call itself says more.
            if isinstance(error.__context__, LlmDoError):
                raise error.__context__ from None
            raise _broken(toolset, error, note) from error


@contextmanager
def _kept(toolset: ExternalToolset) -> Generator[None]:
    """Turn an exception by which the toolset's code wants to end the program into a failure of the toolset."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        raise _broken(toolset, error) from error


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", group).exceptions[0]
    return group


def _broken(toolset: ExternalToolset, error: BaseException, note: ServerNote | None = None) -> EffectFailed:
    # Its message may hold paths of the host, or a key: the log of the worker service is the place for it.
    _log.warning("toolset %s failed: %s", toolset.name, logged_error(error))
    first = _first(error)
    known = why_unusable(toolset.server, first, note) if toolset.server is not None and note is not None else None
    return EffectFailed(
        f"'{toolset.name}' failed: {known or type(first).__name__}",
        next_step="The log of the worker service says more.",
    )


def construct(
    toolset: ExternalToolset, workshop: Path, stderr: TextIO, note: ServerNote, answer_seconds: float | None = None
) -> AbstractToolset[object]:
    """Return the toolset, not yet entered. Raises DefinitionError where it cannot be built.

    `stderr` is the standard error of a server that is a program. Its transport writes into `note` what explains a
    failure. `answer_seconds` is the longest wait for one answer of an MCP server; None is `LISTING_SECONDS`.
    """
    if toolset.server is not None:
        return _mcp_client(toolset.name, toolset.server, workshop, stderr, note, answer_seconds or LISTING_SECONDS)
    assert toolset.reference is not None
    # Here and not where it is awaited: asyncio throws a GeneratorExit of a thread into the generators that wait.
    with _kept(toolset):
        kind = load_toolset_class(toolset.reference, root=workshop)
        try:
            built: object = kind(**toolset.options)
        except TypeError as error:
            options = ", ".join(f"'{name}'" for name in toolset.options) or "none"
            raise DefinitionError(f"'{toolset.reference}' does not take these options: {options}") from error
    if not isinstance(built, AbstractToolset):
        raise DefinitionError(f"'{toolset.reference}' is not a toolset of Pydantic AI")
    return cast("AbstractToolset[object]", built)


def _mcp_client(
    name: str, server: McpServer, workshop: Path, stderr: TextIO, note: ServerNote, answer_seconds: float
) -> AbstractToolset[object]:
    if not has_mcp():
        raise DefinitionError("MCP support is not installed", next_step=MCP_STEP)
    # Imported here: optional, and slow to load for those who have no server.
    from pydantic_ai.mcp import MCPToolset

    from llm_do_temporal.activities.external_servers import Program, read_leniently

    if server.command is None:
        headers = {header: _variable(variable) for header, variable in server.headers_env.items()}
        built = MCPToolset(
            server.url or "",
            id=name,
            headers=headers or None,
            init_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
        )
        read_leniently(built.client.transport, name, note)
        return built
    environment = {known: os.environ[known] for known in _PASSED_ON if known in os.environ}
    environment |= {variable: _variable(variable) for variable in server.env}
    transport = Program(server.command, environment, workshop, stderr, note)
    read_leniently(transport, name, note)
    return MCPToolset(transport, id=name, init_timeout=CONNECT_SECONDS, read_timeout=answer_seconds)


def _variable(name: str) -> str:
    know_variable(name)
    value = os.environ.get(name)
    if not value:
        raise DefinitionError(f"the variable '{name}' is not set", next_step="Set it where the worker service runs.")
    return value


def listing_of(toolset: ExternalToolset, tools: Tools, *, judges_calls: bool) -> ExternalTools:
    """Return the tools of a toolset that are offered. Raises DefinitionError, before any check, for too many bytes."""
    _check_size(tools)
    found: list[ExternalTool] = []
    warnings: list[str] = []
    for name, tool in tools.items():
        known = f"tool '{logged(name[:80])}' of '{toolset.name}'"
        definition = tool.tool_def
        schema, left, problem = _usable(definition)
        if problem is not None:
            warnings.append(f"{known} is not offered: {problem}")
            continue
        if left:
            places = logged(", ".join(left)[:200])
            warnings.append(f"{known} is offered, its schema without what cannot be checked: {places}")
        description = bounded((definition.description or "")[:MAX_DESCRIPTION_CHARS])
        asks = definition.kind == "unapproved"
        found.append(ExternalTool(name=name, description=description, parameters=schema, asks=asks))
    size = sum(len(tool.model_dump_json()) for tool in found)
    if size > MAX_LISTING_BYTES:
        raise _too_large(f"its tools take {size} bytes to describe")
    if len(warnings) > MAX_WARNINGS:
        more = len(warnings) - MAX_WARNINGS + 1
        warnings[MAX_WARNINGS - 1 :] = [f"{more} more tools of '{toolset.name}' are not offered, or with less"]
    for warning in warnings:
        _log.warning("%s", warning)
    return ExternalTools(toolset=toolset.name, tools=tuple(found), judges_calls=judges_calls, warnings=tuple(warnings))


def _check_size(tools: Tools) -> None:
    if len(tools) > MAX_LISTED_TOOLS:
        raise DefinitionError(f"it has {len(tools)} tools; at most {MAX_LISTED_TOOLS} are accepted")
    size = 0
    for name, tool in tools.items():
        size += len(name) + len(json.dumps(tool.tool_def.parameters_json_schema, default=str))
        if size > MAX_LISTING_BYTES:
            raise _too_large(f"its tools take {size} bytes to describe, and there are more")


def _too_large(what: str) -> DefinitionError:
    return DefinitionError(f"{what}; at most {MAX_LISTING_BYTES} are accepted")


def _usable(definition: ToolDefinition) -> tuple[dict[str, Any], list[str], str | None]:
    """Return the schema of a tool, the places that are left out of it, and why the tool cannot be offered."""
    schema = definition.parameters_json_schema
    if definition.kind not in ("function", "unapproved"):
        return schema, [], "it is not carried out by its toolset"
    if LEFT_OUT in schema:
        return schema, [], str(schema[LEFT_OUT])[:200]
    if schema.get("type") != "object":
        return schema, [], "its arguments are not an object"
    usable, left, wrong = usable_schema(schema)
    return usable, left, None if wrong is None else f"its schema is not valid: {wrong[:200]}"


async def _called(
    toolset: AbstractToolset[Any], tool: ToolsetTool[Any], asked: CallExternalToolInput, context: RunContext[Any]
) -> Any:
    try:
        args = tool.args_validator.validate_json(json.dumps(asked.args))
    except ValidationError as error:
        problems = "; ".join(str(problem["msg"]) for problem in error.errors(include_input=False)[:5])
        raise EffectFailed(bounded(f"the arguments of '{asked.tool}' are not valid: {problems}")) from error
    # From here on the tool may have done something, whatever it raises.
    try:
        return await toolset.call_tool(asked.tool, args, context, tool)
    except (ModelRetry, ToolFailed) as error:
        why = why_no_answer(error.__cause__) if asked.toolset.server is not None else None
        if why is not None:
            raise OutcomeUnknown(f"the server of toolset '{asked.toolset.name}' {why}") from error
        raise EffectFailed(bounded(f"'{asked.tool}' says: {getattr(error, 'message', None) or error}")) from None
    except ToolCallFailed as error:
        raise EffectFailed(bounded(f"'{asked.tool}' could not go on: {error}")) from error
    except (ApprovalRequired, CallDeferred) as error:
        raise EffectFailed(f"'{asked.tool}' wants to be carried out elsewhere, which is not supported") from error
    except BaseException as error:
        if isinstance(error, LlmDoError) or is_interruption(error):
            raise
        if asked.toolset.server is None:
            # Its message may hold paths of the host, or a key.
            _log.warning("toolset %s failed: %s", asked.toolset.name, logged_error(error))
            kind = type(_first(error)).__name__
            raise EffectFailed(
                f"'{asked.tool}' raised {kind} while it ran: it may have done a part of its work",
                next_step="The log of the worker service says more.",
            ) from error
        # The tool itself runs in the server, so what fails here is the way to it or the reading of its answer.
        _log.warning("toolset %s failed in a call: %s", asked.toolset.name, logged_error(error))
        raise OutcomeUnknown(
            f"the server of toolset '{asked.toolset.name}' gave no answer that could be read"
        ) from error


def storable(value: Any) -> Any:
    """The value as JSON that a history can hold. Never fails: the call was made, and the model must be told so."""
    if isinstance(value, ToolReturn):
        value = cast("ToolReturn[Any]", value).return_value
    return bounded_value(plain_value(value, _without_bytes, most=MAX_EXTERNAL_RESULT_BYTES), MAX_EXTERNAL_RESULT_BYTES)


def _without_bytes(value: Any) -> str | None:
    """Return a note of bytes, which no model reads; None for any other value."""
    if isinstance(value, BinaryContent):
        return f"[{value.media_type}, {len(value.data)} bytes, not shown]"
    return f"[{len(value)} bytes, not shown]" if isinstance(value, bytes) else None
