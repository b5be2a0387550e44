"""A model whose answers come from a Python function instead of a language model.

Owns the common part of all scripted models, on top of `FunctionModel`: the profile, usage counted from the text,
streaming. The offline models and `llm_do_temporal.testing` build theirs from it. A model keeps no state between
requests.

Every play and every scripted test model decides from a `SeenRequest` alone, so the same conversation always gets the
same answer, whichever process asks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.pdf.reader import Order, PdfFailure, pdf_text

REJECTED = "Rejected by "
"""Beginning of a tool result after a person said no."""
PDF = "application/pdf"
_PAGES = Order("text", 200, characters=1_000_000, first_pages=True)


@dataclass(frozen=True)
class ToolResult:
    """A finished tool call: what was asked, and what came back as text and, where it is JSON, as data."""

    call: ToolCallPart
    text: str
    data: Any
    ok: bool
    note: str = ""
    """Change that a person made before the call ran; empty if there was none."""

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of the call."""
        return self.call.args_as_dict()

    @property
    def rejection(self) -> str | None:
        """`Rejected by …` to the end of the result where a person said no; else None."""
        start = self.text.find(REJECTED)
        return None if self.ok or start < 0 else " ".join(self.text[start:].split())

    @property
    def files(self) -> list[str]:
        """The paths in the result of `list_files`, sorted; none if it failed."""
        listed: Any = fields_of(self.data).get("files") if self.ok else None
        entries = cast("list[Any]", listed) if isinstance(listed, list) else []
        return sorted(str(fields_of(entry).get("path")) for entry in entries)


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class SeenRequest:
    """Contents of a model request."""

    messages: tuple[ModelMessage, ...]
    parameters: ModelRequestParameters
    settings: ModelSettings | None = None

    @cached_property
    def instructions(self) -> str:
        """The system's words: instructions, then system prompts."""
        parts = self.parameters.instruction_parts
        if parts is None:
            stated = [message.instructions for message in self._requests if message.instructions]
            texts = stated[-1:]
        else:
            texts = [InstructionPart.join(parts) or ""]
        prompts = [part.content for part in self._asked if isinstance(part, SystemPromptPart)]
        return "\n\n".join(text for text in [*texts, *prompts] if text)

    @property
    def turn(self) -> int:
        """Number of answers that the conversation holds already; 0 for its first request."""
        return len(self._answers)

    @property
    def prompt(self) -> str:
        """The text of the user's prompts."""
        return "\n".join(
            item if isinstance(item, str) else item.content
            for item in self._user_content
            if isinstance(item, str | TextContent)
        )

    @cached_property
    def input(self) -> Mapping[str, Any]:
        """The first JSON object of the prompt: the fields of a typed input. Empty if the prompt has none."""
        start = self.prompt.find("{")
        try:
            return fields_of(json.JSONDecoder().raw_decode(self.prompt[start:])[0]) if start >= 0 else {}
        except (ValueError, RecursionError):
            return {}

    @property
    def attachments(self) -> tuple[BinaryContent, ...]:
        """The files of the user's prompts, with their bytes. Attached texts are in the prompt."""
        return tuple(item for item in self._user_content if isinstance(item, BinaryContent))

    @cached_property
    def pages(self) -> tuple[str, ...]:
        """The text of each page of the attached PDFs, in order; none of a file that cannot be read."""
        found: list[str] = []
        for item in self.attachments:
            if item.media_type == PDF:
                with suppress(PdfFailure):
                    found += pdf_text(item.data, _PAGES).texts
        return tuple(found)

    @property
    def tools(self) -> dict[str, ToolDefinition]:
        """The function tools on offer, by name."""
        return {tool.name: tool for tool in self.parameters.function_tools}

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema the answer must meet; None where plain text will do."""
        if self.parameters.output_tools:
            return self.parameters.output_tools[0].parameters_json_schema
        wanted = self.parameters.output_object
        return None if wanted is None else wanted.json_schema

    def results(self, *tool_names: str) -> list[ToolResult]:
        """The finished calls of these tools, in the order they were asked."""
        returns = self._returns
        calls = [one for answer in self._answers for one in answer.tool_calls if one.tool_name in tool_names]
        return [_result(call, returns[call.tool_call_id]) for call in calls if call.tool_call_id in returns]

    @property
    def rounds(self) -> list[list[ToolResult]]:
        """The results of each answer that called tools, in the order of its calls; an unfinished answer is left out."""
        returns = self._returns
        rounds = [[one for one in answer.tool_calls if one.tool_name in self.tools] for answer in self._answers]
        return [
            [_result(call, returns[call.tool_call_id]) for call in calls]
            for calls in rounds
            if calls and all(call.tool_call_id in returns for call in calls)
        ]

    @property
    def _returns(self) -> dict[str, ToolReturnPart]:
        """Answers of tools, by the call's id."""
        return {part.tool_call_id: part for part in self._asked if isinstance(part, ToolReturnPart)}

    @property
    def _answers(self) -> list[ModelResponse]:
        return [message for message in self.messages if isinstance(message, ModelResponse)]

    @property
    def _asked(self) -> list[ModelRequestPart]:
        return [part for message in self._requests for part in message.parts]

    @property
    def _requests(self) -> list[ModelRequest]:
        return [message for message in self.messages if isinstance(message, ModelRequest)]

    @property
    def _user_content(self) -> list[UserContent]:
        prompts = [part.content for part in self._asked if isinstance(part, UserPromptPart)]
        return [one for content in prompts for one in ([content] if isinstance(content, str) else content)]


def _result(call: ToolCallPart, answer: ToolReturnPart) -> ToolResult:
    text, data, note = answer.model_response_str(), None, ""
    with suppress(ValueError):
        data = json.loads(text)
    fields = fields_of(data)
    if answer.outcome != "success":
        text = str(fields.get("error", text))
    ok = answer.outcome == "success" and not text.startswith(REJECTED)
    if sorted(fields) == ["note", "result"]:
        data, note = fields["result"], str(fields["note"])
    return ToolResult(call=call, text=text, data=data, ok=ok, note=note)


TEST_PREFIX = "test:"
SCRIPTS: dict[str, Model] = {}
"""Models that tests register, by the name after `test:`; `llm_do_temporal.testing` fills it."""

Script = Callable[[SeenRequest], Awaitable[Sequence[ModelResponsePart]]]

CHARS_PER_TOKEN = 4
"""English text runs at about four characters a token."""
ATTACHED_BYTES_PER_TOKEN = 100
"""Providers charge a PDF by the page; a page of a deck is some 10 to 50 kB and 500 to 1500 tokens."""


_PIECE = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")


class ScriptModel(FunctionModel):
    """Answers every request with the parts that `script` returns for it.

    `system` is the part of the model's id before the colon, `name` the part after it.
    """

    # As with a provider's model; `FunctionModel` leaves the notes out.
    _announces_lookalike_notes = True

    def __init__(self, system: str, name: str, script: Script) -> None:
        super().__init__(
            self._respond,
            model_name=name,
            profile=ModelProfile(
                supports_tools=True,
                supports_json_schema_output=True,
                supports_json_object_output=True,
                supports_image_input=True,
                supports_document_input=True,
            ),
        )
        self._script = script
        self._system = system

    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        """Return no tools: there is no provider to run them. `FunctionModel` claims all."""
        return frozenset()

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen = SeenRequest(tuple(messages), info.model_request_parameters, info.model_settings)
        parts = list(await self._script(seen))
        return ModelResponse(
            parts=parts,
            usage=_usage(seen, parts),
            provider_name=self.system,
            finish_reason="tool_call" if any(isinstance(part, ToolCallPart) for part in parts) else "stop",
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the answer that `request` gives, word by word."""
        response = await self.request(messages, model_settings, model_request_parameters)
        _, parameters = self.prepare_request(model_settings, model_request_parameters)
        yield ScriptStream(parameters, answer=response)


@dataclass
class ScriptStream(StreamedResponse):
    """Finished answer, handed out piece by piece as a provider would."""

    _: KW_ONLY
    answer: ModelResponse
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        self.finish_reason = self.answer.finish_reason
        for index, part in enumerate(self.answer.parts):
            if isinstance(part, TextPart):
                for piece in _PIECE.findall(part.content):
                    for event in self._parts_manager.handle_text_delta(vendor_part_id=index, content=piece):
                        yield event
            else:
                yield self._parts_manager.handle_part(vendor_part_id=index, part=part)
        self._usage += self.answer.usage

    async def close_stream(self) -> None:
        """Do nothing: no connection is open."""

    @property
    def model_name(self) -> str:
        """The model that answered."""
        return self.answer.model_name or ""

    @property
    def provider_name(self) -> str | None:
        """The provider of that model."""
        return self.answer.provider_name

    @property
    def provider_url(self) -> str | None:
        """None: no request leaves the process."""
        return None

    @property
    def timestamp(self) -> datetime:
        """Time at which the answer began."""
        return self.started


def _usage(seen: SeenRequest, answer: Iterable[ModelResponsePart]) -> RequestUsage:
    tools = [*seen.parameters.function_tools, *seen.parameters.output_tools]
    schemas = sum(
        len(tool.name) + len(tool.description or "") + len(json.dumps(tool.parameters_json_schema)) for tool in tools
    )
    messages = sum(_length(part) for message in seen.messages for part in message.parts)
    attached = sum(len(item.data) for item in seen.attachments) // ATTACHED_BYTES_PER_TOKEN
    asked = math.ceil((len(seen.instructions) + schemas + messages) / CHARS_PER_TOKEN)
    answered = math.ceil(sum(_length(part) for part in answer) / CHARS_PER_TOKEN)
    return RequestUsage(input_tokens=asked + attached, output_tokens=max(1, answered))


def _length(part: Any) -> int:
    if isinstance(part, ToolCallPart):
        return len(part.tool_name) + len(part.args_as_json_str())
    content: Any = getattr(part, "content", "")
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list | tuple):
        items = cast("Sequence[Any]", content)
        return sum(len(item) for item in items if isinstance(item, str))
    return 0 if isinstance(content, BinaryContent) else len(str(content))
