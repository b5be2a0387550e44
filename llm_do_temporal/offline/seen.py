"""Model requests as a provider would see them, with the facts that a script needs.

Every play and every scripted test model decides from a `SeenRequest` alone, so the same conversation always gets the
same answer, whichever process asks. Reads messages; never changes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

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
        prompts = [
            part.content for message in self._requests for part in message.parts if isinstance(part, SystemPromptPart)
        ]
        return "\n\n".join(text for text in [*texts, *prompts] if text)

    @property
    def turn(self) -> int:
        """Number of answers that the conversation holds already; 0 for its first request."""
        return sum(isinstance(message, ModelResponse) for message in self.messages)

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
        calls = [
            part
            for message in self.messages
            if isinstance(message, ModelResponse)
            for part in message.parts
            if isinstance(part, ToolCallPart) and part.tool_name in tool_names
        ]
        return [_result(call, returns[call.tool_call_id]) for call in calls if call.tool_call_id in returns]

    @property
    def rounds(self) -> list[list[ToolResult]]:
        """The results of each answer that called tools, in the order of its calls; an unfinished answer is left out."""
        returns = self._returns
        rounds = [
            [part for part in message.tool_calls if part.tool_name in self.tools]
            for message in self.messages
            if isinstance(message, ModelResponse)
        ]
        return [
            [_result(call, returns[call.tool_call_id]) for call in calls]
            for calls in rounds
            if calls and all(call.tool_call_id in returns for call in calls)
        ]

    @property
    def _returns(self) -> dict[str, ToolReturnPart]:
        """Answers of tools, by the call's id."""
        parts = [part for message in self._requests for part in message.parts]
        return {part.tool_call_id: part for part in parts if isinstance(part, ToolReturnPart)}

    @property
    def _requests(self) -> list[ModelRequest]:
        return [message for message in self.messages if isinstance(message, ModelRequest)]

    @property
    def _user_content(self) -> list[UserContent]:
        found: list[UserContent] = []
        for message in self._requests:
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    found.extend([part.content] if isinstance(part.content, str) else part.content)
        return found


def _result(call: ToolCallPart, answer: ToolReturnPart) -> ToolResult:
    text = answer.model_response_str()
    data = _json_or_none(text)
    if answer.outcome != "success":
        text = str(fields_of(data).get("error", text))
    ok = answer.outcome == "success" and not text.startswith(REJECTED)
    fields = fields_of(data)
    if sorted(fields) == ["note", "result"]:
        return ToolResult(call=call, text=text, data=fields["result"], ok=ok, note=str(fields["note"]))
    return ToolResult(call=call, text=text, data=data, ok=ok)


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
