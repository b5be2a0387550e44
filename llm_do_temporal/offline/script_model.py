"""A model whose answers come from a Python function instead of a language model.

Owns the common part of all scripted models, on top of `FunctionModel`: the profile, usage counted from the text,
streaming. The offline models and `llm_do_temporal.testing` build theirs from it. A model keeps no state between
requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.native_tools import AbstractNativeTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from llm_do_temporal.offline.seen import SeenRequest

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
    return RequestUsage(
        input_tokens=_tokens(len(seen.instructions) + schemas + messages) + attached,
        output_tokens=max(1, _tokens(sum(_length(part) for part in answer))),
    )


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


def _tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)
