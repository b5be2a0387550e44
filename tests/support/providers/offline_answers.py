"""Requests and conversations as a provider would get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from llm_do_temporal.activities.models.builder import play_model
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.tools.plays import load_play
from llm_do_temporal.definitions.workshop import load_workshop

WORKSHOP = Path(__file__).parents[3] / "workers"
PLAYS = "plays.py"
DECKS = "pitch_decks.py"
TEXT: dict[str, Any] = {"type": "string"}
PATHS: dict[str, Any] = {"type": "array", "items": TEXT}


def playing(function: str = "examples", file: str = PLAYS, workshop: Path = WORKSHOP) -> Model:
    """The model `offline:FILE:FUNCTION` of a workshop; by default the one of the shipped workshop."""
    return play_model((file, function), workshop)


def in_file(name: str, file: str = PLAYS) -> Any:
    """What a file of plays of the shipped workshop calls so."""
    found = "examples" if file == PLAYS else "play_decks"
    return load_play((file, found), root=WORKSHOP)[1].__globals__[name]


def tool(name: str, description: str = "", /, **properties: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=name, description=description, parameters_json_schema={"type": "object", "properties": properties}
    )


LIST = tool("list_files", path=TEXT, pattern=TEXT)
WRITE = tool("write_file", path=TEXT, content=TEXT)
EVALUATOR = tool("pitch_evaluator", "Scores one deck.", input=TEXT, attachments=PATHS)


def offering(*tools: ToolDefinition) -> ModelRequestParameters:
    return ModelRequestParameters(function_tools=list(tools))


def as_worker(name: str, *tools: ToolDefinition) -> ModelRequestParameters:
    """What a worker of the shipped workshop sends along: its instructions, and these tools."""
    instructions = Registry(load_workshop(WORKSHOP)).load(name).instructions
    return instructed(instructions, *tools)


def instructed(instructions: str, *tools: ToolDefinition) -> ModelRequestParameters:
    return ModelRequestParameters(function_tools=list(tools), instruction_parts=[InstructionPart(instructions)])


def wanting(schema: dict[str, Any]) -> ModelRequestParameters:
    output = ToolDefinition(name="final_result", parameters_json_schema=schema, kind="output")
    return ModelRequestParameters(output_tools=[output], output_mode="tool", allow_text_output=False)


def pdf(data: bytes, name: str = "/pipeline/deck.pdf") -> BinaryContent:
    return BinaryContent(data, media_type="application/pdf", identifier=name)


class Talk:
    """A conversation with a model: answer its calls, and see what it does next."""

    def __init__(self, model: Model, parameters: ModelRequestParameters, prompt: str, *files: BinaryContent) -> None:
        self.model = model
        self.parameters = parameters
        self.messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart([prompt, *files])])]

    async def ask(self) -> ModelResponse:
        response = await self.model.request(list(self.messages), None, self.parameters)
        self.messages.append(response)
        return response

    async def calls(self) -> list[ToolCallPart]:
        return [part for part in (await self.ask()).parts if isinstance(part, ToolCallPart)]

    async def text(self) -> str:
        return "".join(part.content for part in (await self.ask()).parts if isinstance(part, TextPart))

    def reply(self, *answers: Any) -> None:
        """Answer the last calls in order; an exception is a failed call with its text."""
        last = self.messages[-1]
        asked = [part for part in last.parts if isinstance(part, ToolCallPart)]
        self.messages.append(
            ModelRequest(parts=[_returned(part, answer) for part, answer in zip(asked, answers, strict=True)])
        )


def _returned(asked: ToolCallPart, answer: Any) -> ToolReturnPart:
    if isinstance(answer, Exception):
        return ToolReturnPart(asked.tool_name, str(answer), asked.tool_call_id, outcome="failed")
    return ToolReturnPart(asked.tool_name, answer, asked.tool_call_id)
