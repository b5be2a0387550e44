"""MCP servers with odd tools: one tool that cannot be used takes no other away, and names and schemas become usable."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import tool_results
from tests.support.runs.place import Place

SERVER = str(Path(__file__).parents[1] / "support/servers/listing_mcp_server.py")
GOOD = {"name": "good", "inputSchema": {"type": "object"}}
NUMBER = {"type": "number", "minimum": 0, "exclusiveMinimum": True}


def mcp(*tools: Any, **keys: Any) -> dict[str, Any]:
    return {"mcp": {"odd": {"command": [sys.executable, SERVER, json.dumps(tools)], "pre_approved": True, **keys}}}


def taking(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": schema}}}


@pytest.mark.parametrize(
    ("tool", "offered"),
    [
        ({"name": "odd", "inputSchema": {}}, "odd"),
        ({"name": "odd", "inputSchema": True}, "odd"),
        ({"name": "odd"}, "odd"),
        ({"name": "odd", "inputSchema": {"type": ["object", "null"]}}, "odd"),
        ({"name": "odd", "inputSchema": {"type": "object"}, "description": "half \ud83d"}, "odd"),
        ({"name": "odd", "inputSchema": {"type": "object"}, "description": 5, "annotations": 5, "icons": 5}, "odd"),
        ({"name": "odd", "inputSchema": {"type": "object"}, "outputSchema": {"type": "text"}}, "odd"),
        ({"name": "odd", "inputSchema": {"$schema": "http://json-schema.org/draft-04/schema#"}}, "odd"),
        ({"name": "odd/read.all", "inputSchema": {"type": "object"}}, "odd_read_all"),
        (taking(NUMBER), "odd"),
        (taking({"type": "string", "pattern": "^a(?=b)(?!c)d"}), "odd"),
        (taking({"type": "text", "minLength": "5"}), "odd"),
        (taking({"$ref": "#/nowhere"}), "odd"),
        ({"name": "odd", "inputSchema": {"type": "array"}}, None),
        ({"name": "odd", "inputSchema": "object"}, None),
        ({"inputSchema": {"type": "object"}}, None),
        (5, None),
    ],
)
async def test_an_odd_tool_takes_no_other_tool_away(place: Place, tool: Any, offered: str | None) -> None:
    main = scripted([call("good"), *([call(offered)] if offered else [])], "Done.")
    place.worker("main", main, toolsets=mcp(tool, GOOD))
    await place.run("main")
    assert sorted(main.requests[0].tools) == sorted(["good", *([offered] if offered else [])])
    assert tool_results(main, "good") == ["called good"]
    if offered:
        assert tool_results(main, offered) == [f"called {tool['name']}"]


async def test_bounds_of_an_older_draft_are_judged(place: Place) -> None:
    main = scripted([call("odd", x=0), call("odd", x=1)], "Done.")
    place.worker("main", main, toolsets=mcp(taking(NUMBER)))
    await place.run("main")
    refused, called = tool_results(main, "odd")
    assert "0 is less than or equal to the minimum of 0" in refused
    assert called == "called odd"


async def test_names_stay_apart_and_rules_name_the_tools_as_the_server_does(place: Place) -> None:
    names = ["a.b", "a/b", "a_b", "x" * 70, "é", ""]
    main = scripted("Done.", "Done.")
    place.worker("main", main, toolsets=mcp(*({**GOOD, "name": name} for name in names)))
    await place.run("main")
    offered = sorted(main.requests[0].tools)
    assert len(set(offered)) == len(names)
    assert "a_b" in offered
    blocked = scripted([call("a_b"), call("c_d")], "Done.")
    tools = {"c.d": {"blocked": True}}
    place.worker("ruled", blocked, toolsets=mcp({**GOOD, "name": "a.b"}, {**GOOD, "name": "c.d"}, tools=tools))
    await place.run("ruled")
    assert tool_results(blocked, "a_b") == ["called a.b"]
    assert "is blocked" in tool_results(blocked, "c_d")[0]
