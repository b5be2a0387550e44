"""MCP servers with odd tools: one tool that cannot be used takes no other away, and names and schemas become usable."""

from __future__ import annotations

import io
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from llm_do_temporal.cli.reports.show import read_record, record_json, render_record
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.errors import LlmDoError
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


@pytest.mark.sampled(2)
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


@pytest.mark.extension("export")
async def test_what_a_run_does_without_stands_in_its_record(place: Place) -> None:
    from llm_do_temporal.extensions.export.log import log_lines

    main = scripted("Done.")
    broken = {"mcp": {"gone": {"command": ["/nowhere/server"]}, **mcp({"name": "odd"}, 5)["mcp"]}}
    place.worker("main", main, toolsets={**broken, "nowhere.tools.Search": {}})
    run = await place.start("main")
    await place.client.result(run)
    view, _, story = await read_record(place.client, run)
    (node,) = view.ordered
    assert [words in " ".join(node.without) for words in ("'mcp.gone' cannot be used", "'number 2'", "'nowhere'")] == [
        True,
        True,
        True,
    ]
    summary = await place.client.status(run)
    (shown,) = record_json(summary, view, [], story)["invocations"]
    assert shown["without"] == node.without
    console = Console(width=400, file=io.StringIO())
    console.print(render_record(summary, view, [], datetime(2030, 1, 1), story))
    assert "toolset 'mcp.gone' cannot be used" in cast("io.StringIO", console.file).getvalue()
    follower = Follower(place.client.temporal, run, wait=False)
    lines = [line async for event in follower.events() for line in log_lines(event)]
    assert sum("warning: " in line for line in lines) == len(node.without)


@pytest.mark.parametrize("given", [{"command": ["/nowhere/server"]}, {"command": [sys.executable, "-c", ""]}])
async def test_a_required_toolset_that_cannot_be_used_ends_the_run(place: Place, given: dict[str, Any]) -> None:
    main = scripted("Done.")
    place.worker("main", main, toolsets={"mcp": {"mails": {**given, "required": True}}})
    with pytest.raises(LlmDoError, match=r"toolset 'mcp\.mails' is required and cannot be used: "):
        await place.run("main")
    assert not main.requests


async def test_a_required_toolset_that_can_be_used_is_used(place: Place) -> None:
    main = scripted(call("good"), "Done.")
    place.worker("main", main, toolsets=mcp(GOOD, 5, required=True))
    await place.run("main")
    assert tool_results(main, "good") == ["called good"]


async def test_a_required_class_that_cannot_be_loaded_is_an_error_of_the_file(place: Place) -> None:
    place.worker("main", scripted("Done."), toolsets={"nowhere.tools.Search": {"required": True}})
    with pytest.raises(LlmDoError, match=r"toolset 'nowhere\.tools\.Search' is required and cannot be used: there is"):
        await place.run("main")
