"""Workers that call others, templates among them, and what a model was told of its tools."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart

from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.place import Place

APPROVE_ALL = "approve_all"


def generic_delegation(*names: str) -> dict[str, Any]:
    """Return `toolsets:` with the one tool that calls any of these workers."""
    return {"delegation": {"allow_workers": list(names)}}


def delegation_to(*names: str) -> dict[str, Any]:
    """Return `toolsets:` with a tool per worker."""
    return {"delegation": {name: {} for name in names}}


def tool_results(model: ScriptedModel, tool: str) -> list[str]:
    """Return the results of a tool in the last request that the model got, one text a call."""
    return [result.text for result in model.requests[-1].results(tool)]


def last_tool_result(messages: list[ModelMessage]) -> str:
    """Return the text of the only tool result in the last message: a turn for `scripted`."""
    (answer,) = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return answer.model_response_str()


def delegating_or_leaf(name: str) -> ScriptedModel:
    """Return a model that calls `child` in every worker; where the prompt is `leaf`, it answers with its name."""

    def play(messages: list[ModelMessage]) -> Any:
        asked = [part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]
        return f"Played by {name}." if asked == ["leaf"] else call("child", input="leaf")

    return scripted(play, last_tool_result)


REFERENCE_RULES = {
    "allow": ["pkg:*", "./templates/**/*.yaml"],
    "lock": "templates/pitchdeck-single.yaml",
    "allowed_suffixes": [".pdf", ".txt"],
    "max_attachments": 1,
    "max_bytes": 15_000_000,
}


def allow_templates(place: Place, main: ScriptedModel, **rules: Any) -> None:
    place.worker("main", main, toolsets={"delegation": {"templates": rules or {"allow": ["**"]}}})


def template_call(name: str = "templates/one.yaml", text: str = "Judge this.", **more: Any) -> Any:
    return call("llm_worker_call", worker_name=name, input=text, **more)


def template_results(model: ScriptedModel) -> list[str]:
    return [result.text for result in model.requests[-1].results("llm_worker_call")]
