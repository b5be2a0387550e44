"""Calls of MCP servers that break after they were sent: nobody knows what happened, so a person is asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from llm_do_temporal.activities.external import storable
from llm_do_temporal.activities.external_failures import ServerNote
from llm_do_temporal.activities.external_servers import client_of_server
from llm_do_temporal.testing import call, scripted
from tests.support.ports import unused_port
from tests.support.runs.delegation import tool_results
from tests.support.runs.parked import rejected_reason
from tests.support.runs.place import Place

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


def mcp(**keys: Any) -> dict[str, Any]:
    return {"mcp": {"mails": {"pre_approved": True, **keys}}}


@pytest.mark.thorough
async def test_a_server_that_dies_in_a_call_is_a_question_for_a_person(place: Place) -> None:
    log = place.folder / "calls.log"
    main = scripted(call("die", status=3), "Done.")
    command = [sys.executable, str(SERVERS / "mcp_server.py"), "--log", str(log)]
    place.worker("main", main, toolsets=mcp(command=command))
    run = await place.start("main")
    assert "closed the connection before it answered" in await rejected_reason(place, run)
    assert "outcome of 'call die' is unknown" in tool_results(main, "die")[0]
    assert log.read_text() == "die 3\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "path", ["gateway", "page", "prose", "other", "stream", "reset", "accepted", "notice", "302", "303", "408", "503"]
)
async def test_an_answer_that_says_nothing_of_the_call_is_a_question_for_a_person(
    place: Place, breaking: str, path: str
) -> None:
    main = scripted(call("send"), "Done.")
    place.worker("main", main, toolsets=mcp(url=f"{breaking}/{path}"))
    run = await place.start("main")
    assert "the server of toolset 'mcp.mails'" in await rejected_reason(place, run)
    assert "is unknown" in tool_results(main, "send")[0]
    assert (place.folder / "calls.log").read_text() == "sent\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", ["missing", "arguments"])
async def test_a_call_that_the_server_refuses_is_a_plain_failure(place: Place, breaking: str, path: str) -> None:
    main = scripted(call("send"), "Done.")
    place.worker("main", main, toolsets=mcp(url=f"{breaking}/{path}"))
    await place.run("main")
    assert tool_results(main, "send") == ["'send' says: refused"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("401", "its server answered with HTTP status 401 (Unauthorized)"),
        ("403", "its server answered with HTTP status 403 (Forbidden)"),
        ("413", "its server answered with HTTP status 413 ("),
        ("429", "its server answered with HTTP status 429 (Too Many Requests)"),
        ("401-rpc", "not you"),
        ("403-rpc", "not you"),
        ("307", "its server answered with HTTP status 307 (Temporary Redirect)"),
        ("308", "its server answered with HTTP status 308 (Permanent Redirect)"),
    ],
)
async def test_a_call_that_http_refuses_is_a_plain_failure_and_sent_once(
    place: Place, breaking: str, path: str, said: str
) -> None:
    main = scripted(call("send"), "Done.")
    place.worker("main", main, toolsets=mcp(url=f"{breaking}/{path}"))
    await place.run("main")
    (told,) = tool_results(main, "send")
    assert told.startswith(f"'send' says: {said}")
    assert "127.0.0.1" not in told
    assert (place.folder / "calls.log").read_text() == "sent\n"


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
    place.worker("main", main, toolsets=mcp(url=f"{breaking}/moved"))
    await place.run("main")
    assert tool_results(main, "send") == ["sent"]
    lines = (place.folder / "calls.log").read_text().splitlines()
    assert [line for line in lines if line.startswith("tools/call")] == ["tools/call /moved/"]


async def test_a_server_that_redirects_in_a_circle_is_asked_twice(place: Place, breaking: str) -> None:
    place.worker("main", scripted("Done."), toolsets=mcp(url=f"{breaking}/moved/round"))
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
