"""MCP servers that break the protocol or break down: no tool and no call is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from rich.console import Console
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities import external, external_answers
from llm_do_temporal.activities.external import ExternalActivities, storable
from llm_do_temporal.activities.external_answers import ServerNote
from llm_do_temporal.activities.external_servers import client_of_server
from llm_do_temporal.cli.reports.show import read_record, record_json, render_record
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import CallExternalToolInput, ToolCaller
from llm_do_temporal.messages.definitions import ExternalToolset, McpServer
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.tools.external import CALL_TIMEOUT
from tests.support.ports import unused_port
from tests.support.runs.delegation import tool_results
from tests.support.runs.parked import rejected_reason
from tests.support.runs.place import Place

SERVER = str(Path(__file__).parents[1] / "support/servers/listing_mcp_server.py")
TRANSPORTS = ["stdio", "json", "stream"]
DEEP = "[" * 10_000 + "]" * 10_000
HI = {"type": "text", "text": "hi"}


@contextmanager
def serving(transport: str, *tools: str) -> Generator[dict[str, Any]]:
    """Yield the keys of a server that lists the tools, each given as JSON."""
    command = [sys.executable, SERVER, f"[{', '.join(tools or (TOOL,))}]"]
    if transport == "stdio":
        yield {"mcp": {"odd": {"command": command, "pre_approved": True}}}
        return
    with subprocess.Popen([*command, "--http"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/{transport}"
            yield {"mcp": {"odd": {"url": url, "pre_approved": True}}}
        finally:
            server.kill()


TOOL = '{"name": "odd", "inputSchema": {"type": "object"}}'


def result(value: Any) -> str:
    return f'{{"jsonrpc":"2.0","id":ID,"result":{value if isinstance(value, str) else json.dumps(value)}}}'


def content(*parts: Any) -> str:
    return result({"content": parts})


READ = {
    content({"type": "video", "data": "x"}, HI): '[{"type":"video","data":"x"},"hi"]',
    content("hi"): "hi",
    content({"type": "text", "text": None}): "null",
    content({"type": "image", "data": "no base64!", "mimeType": "image/png"}): "[image, its data cannot be read]",
    content({"type": "image", "data": "aGk="}): "[image, 2 bytes, not shown]",
    content({"type": "image", "data": "data:image/png;base64,aGk=", "mimeType": "image/png"}): (
        "[image/png, 2 bytes, not shown]"
    ),
    content({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}): "[audio/wav, 2 bytes, not shown]",
    content({"type": "resource", "resource": {"uri": "x://a", "blob": "?"}}): (
        "[resource x://a, its content cannot be read]"
    ),
    content({"type": "resource", "resource": {"uri": "x://a", "blob": "aGk=", "mimeType": "application/pdf"}}): (
        "[application/pdf, 2 bytes, not shown]"
    ),
    content({**HI, "annotations": {"priority": 7}, "_meta": 5}): "hi",
    result({"content": HI}): "hi",
    result({"content": None}): "",
    result({"structuredContent": {"a": 1}}): '{"a":1}',
    result({"content": [], "structuredContent": [1, 2]}): "[1,2]",
    result({"sent": True}): '{"sent":true}',
    result('{"content":[{"type":"text","text":"half \\ud83d"}]}'): "half \ufffd",
    result(f'{{"content":[{json.dumps(HI)}],"_meta":{{"deep":{DEEP}}}}}'): "hi",
    "LOG: " + content(HI) + " bye": "hi",
    '{"id":ID,"result":{"content":[{"type":"text","text":"hi"}]}}': "hi",
    '{"jsonrpc":"2.0","id":ID,"result":"hi"}': "hi",
}
"""Answers, and what the model is given for each."""
FAILED = {
    result({"isError": True}): "Tool 'odd' returned an error",
    result({"isError": True, "content": []}): "Tool 'odd' returned an error",
    result({"isError": True, "content": [{"type": "video"}]}): '{"type":"video"}',
    result({"isError": "true", "content": [HI]}): "hi",
    '{"jsonrpc":"2.0","id":ID,"result":null,"error":{"code":5,"message":"bad"}}': "bad",
    '{"jsonrpc":"2.0","id":ID,"error":"bad"}': "bad",
}
"""Answers, and the failure that the model is told of for each."""


@pytest.mark.thorough
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_odd_answer_is_a_result_or_a_plain_failure(place: Place, transport: str) -> None:
    main = scripted([call("odd", instead=answer) for answer in (*READ, *FAILED)], "Done.")
    with serving(transport) as toolsets:
        place.worker("main", main, toolsets=toolsets)
        await place.run("main")
    assert tool_results(main, "odd") == [*READ.values(), *(f"'odd' says: {text}" for text in FAILED.values())]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_deep_or_large_result_is_cut(place: Place, transport: str) -> None:
    deep_answer = result(f'{{"content":[],"structuredContent":{{"a":{DEEP}}}}}')
    main = scripted([call("odd", instead=deep_answer), call("long")], "Done.")
    with serving(transport, TOOL, '{"name": "long"}') as toolsets:
        place.worker("main", main, toolsets=toolsets)
        await place.run("main")
    (deep,) = tool_results(main, "odd")
    assert "[nested too deeply]" in deep
    (long,) = tool_results(main, "long")
    assert long.startswith('{"content":"called long xxx')
    assert '"truncated":true' in long


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_half_a_character_takes_no_tool_away(place: Place, transport: str) -> None:
    main = scripted([call("odd"), call("half")], "Done.")
    half = '{"name": "half", "description": "half \\ud83d", "inputSchema": {"type": "object"}}'
    with serving(transport, TOOL, half) as toolsets:
        place.worker("main", main, toolsets=toolsets)
        await place.run("main")
    assert sorted(main.requests[0].tools) == ["half", "odd"]
    assert tool_results(main, "half") == ["called half"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transport", ["stdio", "stream"])
@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("Listening on port 8080", 1),
        ("", 3),
        ('{"level": "info"}', 2),
        ("x" * 1000, 3000),
        (
            '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"' + "y" * 900 + '"}}',
            3000,
        ),
        ('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":5}}', 3000),
        ('{"jsonrpc":"2.0","id":7,"method":"ping"}', 2000),
    ],
)
async def test_what_stands_before_an_answer_costs_nothing(
    place: Place, caplog: pytest.LogCaptureFixture, transport: str, line: str, times: int
) -> None:
    main = scripted(call("odd", say=line, times=times), "Done.")
    with serving(transport) as toolsets:
        place.worker("main", main, toolsets=toolsets)
        await place.run("main")
    assert tool_results(main, "odd") == ["called odd"]
    assert sum(len(record.getMessage()) for record in caplog.records) < 60_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_answer_that_is_cut_is_a_question_for_a_person_at_once(place: Place, transport: str) -> None:
    """Hints of the server change nothing: it is not trusted to say that a call may be repeated."""
    main = scripted(call("odd", instead='{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te'), "Done.")
    hints = '{"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false}'
    with serving(transport, f'{TOOL[:-1]}, "annotations": {hints}}}') as toolsets:
        place.worker("main", main, toolsets=toolsets)
        run = await place.start("main")
        assert "gave an answer that could not be read" in await rejected_reason(place, run)
    assert "is unknown" in tool_results(main, "odd")[0]


@pytest.mark.thorough
@pytest.mark.parametrize("transport", ["stdio", "stream"])
async def test_a_server_that_writes_prose_for_long_is_a_question_for_a_person(
    place: Place, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """Each line counts as one that came after a pause; a server that writes as many at once is waited for."""
    monkeypatch.setattr(external_answers, "MOMENT_SECONDS", 0)
    main = scripted(call("odd", say="still working", times=external_answers.MOST_PROSE_MOMENTS + 1), "Done.")
    with serving(transport) as toolsets:
        place.worker("main", main, toolsets=toolsets)
        run = await place.start("main")
        assert "the server of toolset 'mcp.odd'" in await rejected_reason(place, run)
    assert "is unknown" in tool_results(main, "odd")[0]


class Clock(asyncio.SelectorEventLoop):
    """Event loop whose time goes on when the test says so, and by itself."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("early", "answer"), [(60, "called odd"), (-60, "did not answer in time")])
def test_a_call_is_waited_for_as_long_as_it_may_take_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str, early: float, answer: str
) -> None:
    loop = Clock()
    monkeypatch.setattr(asyncio.events, "new_event_loop", lambda: loop)
    for pipe in ("came", "go"):
        os.mkfifo(tmp_path / pipe)
    limit = CALL_TIMEOUT.total_seconds()
    with serving(transport) as toolsets, ThreadPoolExecutor(1) as pool:
        keys = toolsets["mcp"]["odd"]
        asked = CallExternalToolInput(
            toolset=ExternalToolset(name="mcp.odd", server=McpServer(url=keys.get("url"), command=keys.get("command"))),
            tool="odd",
            args={"wait": str(tmp_path)},
            model="m",
            caller=ToolCaller(call="1", run="r", path="main", worker="main", depth=0, max_depth=0),
            limit_seconds=limit,
        )
        activities: Any = ExternalActivities(tmp_path, cast("Any", None))
        answering = pool.submit(ActivityEnvironment().run, activities.call_external_tool, asked)
        (tmp_path / "came").read_bytes()
        loop.ahead = limit - early
        passed = threading.Event()
        # What waits for a shorter time is told so in the round before the event.
        loop.call_soon_threadsafe(loop.call_soon, passed.set)
        passed.wait()
        go = os.open(tmp_path / "go", os.O_RDWR) if early > 0 else None
        error = answering.exception()
        if go is not None:
            os.close(go)
    assert answer in str(error or answering.result().value)


@pytest.mark.thorough
@pytest.mark.parametrize("broken", ["caf\\xe9", "\\xff\\xfe\\x00"])
async def test_bytes_that_are_no_text_take_no_answer_away(place: Place, broken: str) -> None:
    """Standard output of a program that writes in another encoding."""
    answer = f'{{"jsonrpc":"2.0","id":%d,"result":{{"content":[{{"type":"text","text":"{broken}"}}]}}}}\\n'
    main = scripted(call("odd"), "Done.")
    place.worker("main", main, toolsets=program(f"os.write(1, b'{answer}' % asked['id'])"))
    await place.run("main")
    (said,) = tool_results(main, "odd")
    assert "\ufffd" in said


PROGRAM = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "tools/call":
        {action}
    elif asked.get("method") == "tools/list":
        listed = {{"tools": [{{"name": "odd"}}]}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": listed}}), flush=True)
    elif asked.get("method") == "initialize":
        known = {{"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {{"tools": {{}}}},
                 "serverInfo": {{"name": "x", "version": ""}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": known}}), flush=True)
    elif "id" in asked:
        error = {{"code": -32601, "message": "Method not found"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}), flush=True)
"""


def program(action: str) -> dict[str, Any]:
    """Return the keys of a server that carries out a line of Python in each call."""
    command = [sys.executable, "-c", PROGRAM.format(action=action)]
    return {"mcp": {"odd": {"command": command, "pre_approved": True}}}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("print('oops', flush=True); os._exit(3)", "closed the connection before it answered"),
        ("os.close(1)", "closed the connection before it answered"),
        ("os.kill(os.getpid(), 9)", "closed the connection before it answered"),
        # A process that the program leaves behind holds its output.
        ("subprocess.Popen(['sleep', '600']); os._exit(1)", "closed the connection before it answered"),
        ("[print('working', flush=True) for _ in iter(int, 1)]", "gave an answer that could not be read"),
        ("[print(flush=True) for _ in iter(int, 1)]", "gave an answer that could not be read"),
        ("[os.write(1, b'x' * 65536) for _ in iter(int, 1)]", "gave an answer that could not be read"),
        ("[os.write(1, b'[1, 2' * 9999 + b'\\n') for _ in iter(int, 1)]", "gave an answer that could not be read"),
        ("os.write(1, b'{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":' % asked['id'] + b'x' * 40000000 + b'\\n')", "read"),
    ],
)
async def test_a_program_that_cannot_answer_is_a_question_for_a_person_at_once(
    place: Place, action: str, why: str
) -> None:
    main = scripted(call("odd"), "Done.")
    place.worker("main", main, toolsets=program(action))
    run = await place.start("main")
    assert why in await rejected_reason(place, run)
    assert "is unknown" in tool_results(main, "odd")[0]


@pytest.mark.thorough
async def test_a_launcher_that_ends_well_does_not_end_its_server(place: Place) -> None:
    main = scripted(call("odd"), "Done.")
    keys = program("print(json.dumps({'id': asked['id'], 'result': 'hi'}), flush=True)")
    keys["mcp"]["odd"]["command"] = [
        "sh",
        "-c",
        'exec 3<&0; "$@" <&3 3<&- & exit 0',
        "sh",
        *keys["mcp"]["odd"]["command"],
    ]
    place.worker("main", main, toolsets=keys)
    await place.run("main")
    assert tool_results(main, "odd") == ["hi"]


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
    from llm_do_temporal.extensions.export.report import log_lines

    main = scripted("Done.")
    broken = {"mcp": {"gone": {"command": ["/nowhere/server"]}, **mcp({"name": "odd"}, 5)["mcp"]}}
    place.worker("main", main, toolsets={**broken, "nowhere.tools.Search": {}})
    run = await place.start("main")
    await place.client.result(run)
    assert list(main.requests[0].tools) == ["odd"]
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


SERVERS = Path(__file__).parents[1] / "support/servers"


@pytest.fixture
def breaking(place: Place) -> Iterator[str]:
    """Address of a server that breaks in each call."""
    command = [sys.executable, str(SERVERS / "breaking_mcp_server.py"), str(place.folder / "calls.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def mails(**keys: Any) -> dict[str, Any]:
    return {"mcp": {"mails": {"pre_approved": True, **keys}}}


@pytest.mark.thorough
async def test_a_server_that_dies_in_a_call_is_a_question_for_a_person(place: Place) -> None:
    log = place.folder / "calls.log"
    main = scripted(call("die", status=3), "Done.")
    command = [sys.executable, str(SERVERS / "mcp_server.py"), "--log", str(log)]
    place.worker("main", main, toolsets=mails(command=command))
    run = await place.start("main")
    assert "closed the connection before it answered" in await rejected_reason(place, run)
    assert "outcome of 'call die' is unknown" in tool_results(main, "die")[0]
    assert log.read_text() == "die 3\n"


async def test_an_answer_that_says_nothing_of_the_call_is_a_question_for_a_person(place: Place, breaking: str) -> None:
    paths = ("gateway", "page", "prose", "other", "stream", "reset", "accepted", "notice", "302", "303", "408", "503")
    for path in paths:
        main = scripted(call("send"), "Done.")
        place.worker("main", main, toolsets=mails(url=f"{breaking}/{path}"))
        run = await place.start("main")
        assert "the server of toolset 'mcp.mails'" in await rejected_reason(place, run), path
        assert "is unknown" in tool_results(main, "send")[0]
    assert (place.folder / "calls.log").read_text() == "sent\n" * len(paths)


async def test_a_call_that_the_server_refuses_is_a_plain_failure(place: Place, breaking: str) -> None:
    for path in ("missing", "arguments"):
        main = scripted(call("send"), "Done.")
        place.worker("main", main, toolsets=mails(url=f"{breaking}/{path}"))
        await place.run("main")
        assert tool_results(main, "send") == ["'send' says: refused"]


REFUSED_BY_HTTP = [
    ("401", "its server answered with HTTP status 401 (Unauthorized)"),
    ("403", "its server answered with HTTP status 403 (Forbidden)"),
    ("413", "its server answered with HTTP status 413 ("),
    ("429", "its server answered with HTTP status 429 (Too Many Requests)"),
    ("401-rpc", "not you"),
    ("403-rpc", "not you"),
    ("307", "its server answered with HTTP status 307 (Temporary Redirect)"),
    ("308", "its server answered with HTTP status 308 (Permanent Redirect)"),
]


async def test_a_call_that_http_refuses_is_a_plain_failure_and_sent_once(place: Place, breaking: str) -> None:
    for path, said in REFUSED_BY_HTTP:
        main = scripted(call("send"), "Done.")
        place.worker("main", main, toolsets=mails(url=f"{breaking}/{path}"))
        await place.run("main")
        (told,) = tool_results(main, "send")
        assert told.startswith(f"'send' says: {said}")
        assert "127.0.0.1" not in told
    assert (place.folder / "calls.log").read_text() == "sent\n" * len(REFUSED_BY_HTTP)


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
async def test_a_call_that_was_never_sent_is_refused(method: str) -> None:
    note = ServerNote()
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "send"}}
    async with client_of_server(note) as client:
        sent = client.post(f"http://127.0.0.1:{unused_port()}/", json=asked)
        if method == "tools/call":
            refusal = (await sent).json()["error"]["message"]
            assert refusal.startswith("its server cannot be reached: ")
        else:
            with pytest.raises(httpx2.ConnectError):
                await sent
    assert (note.text or "").startswith("its server cannot be reached: ")


async def test_a_server_that_has_moved_gets_each_call_once_at_its_new_address(place: Place, breaking: str) -> None:
    main = scripted(call("send"), "Done.")
    place.worker("main", main, toolsets=mails(url=f"{breaking}/moved"))
    await place.run("main")
    assert tool_results(main, "send") == ["sent"]
    lines = (place.folder / "calls.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("tools/call")] == ["tools/call /moved/"]


async def test_a_server_that_redirects_in_a_circle_is_asked_twice(place: Place, breaking: str) -> None:
    place.worker("main", scripted("Done."), toolsets=mails(url=f"{breaking}/moved/round"))
    run = await place.start("main")
    await place.client.result(run)
    lines = (place.folder / "calls.log").read_text().splitlines()
    assert len(lines) == 2 * len({line.split()[0] for line in lines}), lines


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("half \ud83d", "half \ufffd"),
        ({"name \udcff": ["\ude00"]}, {"name \ufffd": ["\ufffd"]}),
        ((Path("/notes/\udcff"), 1), ["/notes/\ufffd", 1]),
    ],
)
def test_a_half_character_takes_no_result_away(value: object, kept: object) -> None:
    assert storable(value) == kept


KEY = "sesame-8f1c"
REFUSED = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "there is no such project"}}
STATUSES = {
    401: "its server answered with HTTP status 401 (Unauthorized)",
    403: "its server answered with HTTP status 403 (Forbidden)",
    404: "its server answered with HTTP status 404 (Not Found)",
    502: "its server answered with HTTP status 502 (Bad Gateway)",
    307: "its server answered with HTTP status 307 (Temporary Redirect)",
    599: "its server answered with HTTP status 599",
}
PROGRAMS: dict[str, tuple[list[str], str]] = {
    "missing": (["no-such-program-here"], "its program 'no-such-program-here' is missing"),
    "away": (["/nowhere/here/server"], "its program 'server' is missing"),
    "plain": (["workers/main.worker"], "its program 'main.worker' cannot be started: Permission denied"),
    "failing": (["sh", "-c", "exit 3"], "its program ended with exit code 3"),
    "talking": (["sh", "-c", "echo hello; exit 4"], "its program ended with exit code 4"),
    "quiet": (["true"], "its program ended with exit code 0"),
    "killed": (["sh", "-c", "kill -9 $$"], "its program ended with signal SIGKILL"),
}


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the status in its path; below 200, with the refusal of a server."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/closing":
            self.close_connection = True
            return
        status = int(self.path.strip("/"))
        body = json.dumps(REFUSED).encode() if status == 200 else b"no"
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "text/html")
        self.send_header("Content-Length", str(len(body)))
        if status == 307:
            self.send_header("Location", f"https://elsewhere.example/?key={KEY}")
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        self.send_error(405)

    do_GET = do_DELETE  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Address of a server of the handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


async def told(place: Place, servers: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return what the record of a run with these servers says of each."""
    place.worker("main", scripted("Done."), toolsets={"mcp": servers})
    run = await place.start("main")
    assert (await place.client.result(run)).output == "Done."
    view, _, _ = await read_record(place.client, run)
    (node,) = view.ordered
    assert len(node.without) == len(servers)
    return {name: next(words for words in node.without if f"'mcp.{name}' failed" in words) for name in servers}


async def test_an_address_that_does_not_serve_is_told_with_its_status(
    place: Place, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_DO_TEST_HEADER", f"{KEY}\n")
    servers: dict[str, dict[str, Any]] = {f"s{status}": {"url": f"{address}/{status}"} for status in STATUSES}
    words = {f"s{status}": said for status, said in STATUSES.items()}
    servers["refusing"] = {"url": f"{address}/200"}
    words["refusing"] = "its server refuses: there is no such project"
    servers["nobody"] = {"url": "http://127.0.0.1:9/"}
    words["nobody"] = "its server cannot be reached: "
    servers["closing"] = {"url": f"{address}/closing"}
    words["closing"] = "the connection to its server broke: "
    servers["header"] = {"url": address, "headers_env": {"Authorization": "LLM_DO_TEST_HEADER"}}
    words["header"] = "one of its headers has characters that HTTP does not carry"
    found = await told(place, servers)
    assert {name: said in found[name] for name, said in words.items()} == dict.fromkeys(words, True), found
    assert not [text for text in found.values() if KEY in text or "127.0.0.1" in text]


async def test_a_program_that_does_not_serve_is_told_with_its_end(place: Place) -> None:
    found = await told(place, {name: {"command": command} for name, (command, _) in PROGRAMS.items()})
    assert {name: words in found[name] for name, (_, words) in PROGRAMS.items()} == dict.fromkeys(PROGRAMS, True), found
    assert not [text for text in found.values() if "/nowhere" in text or str(place.folder) in text]


@pytest.mark.thorough
async def test_a_server_that_does_not_answer_is_told_with_the_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (external, external_answers):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.2)
    found = await told(place, {"silent": {"command": ["sleep", "600"]}})
    assert "its server did not answer within 0.2 s" in found["silent"]
