"""Tools that providers would refuse, or that an adapter narrows, over HTTP through the adapters of all protocols."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from tests.support.dialects.answers import Ask, Json, says
from tests.support.dialects.one_turn import ROOM, ask_turns
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

SERVER = str(Path(__file__).parents[1] / "support/servers/listing_mcp_server.py")
BOTH = pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
EACH = pytest.mark.parametrize("adapter", ADAPTERS)
END = "The end of the description."
ODD: Json = {
    "type": "object",
    "properties": {
        "filter[id]": {"type": "string", "description": "An id."},
        "filter_id_": {"type": "integer"},
        "$top": {"type": "integer"},
        "größe": True,
        "l" * 80: {"type": "string"},
    },
    "required": ["filter[id]"],
    "anyOf": [{"required": ["$top"]}, {"$ref": "#/$defs/More"}],
    "$defs": {"More": {"type": "object", "properties": {"more[]": {"type": "string"}}, "required": ["more[]"]}},
}
TOOLS: list[Json] = [
    {"name": "any", "inputSchema": {"type": "object"}},
    {"name": "echo", "description": f"{'Word. ' * 400}{END}", "inputSchema": ODD},
    {
        "name": "inner",
        "inputSchema": {"type": "object", "properties": {"o": {"type": "object"}}, "required": ["o"]},
    },
]


def offered(body: Json) -> dict[str, Json]:
    """Return the schemas of the tools in a request, in any protocol, by name."""
    found: dict[str, Json] = {}
    for tool in body["tools"]:
        for one in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            schemas = [one.get(key) for key in ("parameters", "input_schema", "parameters_json_schema")]
            found[one["name"]] = next(schema for schema in schemas if schema is not None)
    return found


@BOTH
@EACH
async def test_every_provider_takes_every_tool_and_the_tool_gets_its_own_names(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    name = f"offered-{adapter}-{live}".lower()
    wrong = says(Ask("echo", {"filter_id__2": "a"}))
    right = says(Ask("echo", {"filter_id__2": "a", "_top": 5, "gr__e": "x"}), Ask("any", {"z": 1}))
    alias = providers.alias(adapter, name, wrong, right, says("Done."))
    place.workshop(models={"m": alias}, live_text=live, model_settings=ROOM)
    command = [sys.executable, SERVER, json.dumps(TOOLS)]
    place.worker("main", "m", toolsets={"mcp": {"odd": {"command": command, "pre_approved": True}}})
    assert await place.outcome("main") == ("Done.", "")
    script = providers.scripts[name]
    assert script.complaints == []
    first, second, third = script.requests
    schemas = offered(first)
    assert set(schemas["echo"]["properties"]) == {"filter_id__2", "filter_id_", "_top", "gr__e", "l" * 64, "more__"}
    assert schemas["echo"]["required"] == ["filter_id__2"]
    assert END in json.dumps(first)
    assert "not valid" in json.dumps(second)
    sent = json.dumps(third, ensure_ascii=False)
    for mark in ("\\", " "):
        sent = sent.replace(mark, "")
    assert '"filter_id__2":"a","_top":5,"gr__e":"x"' in sent
    assert '"$top":5,"filter[id]":"a","gr' in sent
    assert "calledany" in sent


@BOTH
@EACH
async def test_a_tool_that_takes_any_arguments_is_offered_as_such(
    providers: Providers, adapter: str, live: bool
) -> None:
    name = f"any-{adapter}-{live}".lower()
    alias = providers.alias(adapter, name, says("Done."))
    functions = [ToolDefinition(name=tool["name"], parameters_json_schema=tool["inputSchema"]) for tool in TOOLS]
    asked: Any = [ModelRequest(parts=[UserPromptPart("Hello.")])]
    await ask_turns(alias, asked, ModelRequestParameters(function_tools=functions), live=live)
    schemas = offered(providers.scripts[name].requests[0])
    assert [schemas["any"].get("additionalProperties"), schemas["echo"].get("additionalProperties")] == [None, None]
    assert schemas["inner"]["properties"]["o"].get("additionalProperties") is None


@BOTH
@EACH
async def test_a_result_comes_by_its_own_names(providers: Providers, adapter: str, live: bool) -> None:
    name = f"result-{adapter}-{live}".lower()
    alias = providers.alias(adapter, name, says(Ask("final_result", {"Account_Number": "7"})))
    schema: Json = {
        "type": "object",
        "properties": {"Account Number": {"type": "string"}},
        "required": ["Account Number"],
    }
    result = ToolDefinition(name="final_result", parameters_json_schema=schema, kind="output")
    parameters = ModelRequestParameters(output_mode="tool", output_tools=[result], allow_text_output=False)
    asked: Any = [ModelRequest(parts=[UserPromptPart("Hello.")], instructions="Be brief.")]
    (answer,) = await ask_turns(alias, asked, parameters, live=live)
    (call,) = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert call.args_as_dict() == {"Account Number": "7"}
    assert providers.scripts[name].complaints == []
    assert "Be brief." in json.dumps(providers.scripts[name].requests[0])
