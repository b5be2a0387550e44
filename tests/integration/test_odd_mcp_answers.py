"""Answers of MCP servers that break the protocol: what can be read one way is read, and no call is lost for it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities import external_answers
from llm_do_temporal.activities.external import ExternalActivities
from llm_do_temporal.messages.activities import CallExternalToolInput, ToolCaller
from llm_do_temporal.messages.definitions import ExternalToolset, McpServer
from llm_do_temporal.testing import call, scripted
from llm_do_temporal.workflows.tools.external import CALL_TIMEOUT
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
