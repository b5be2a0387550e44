"""MCP servers that cannot be used: the run goes on without them, and its record says of each what a person needs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from llm_do_temporal.activities import external, external_failures
from llm_do_temporal.cli.reports.show import read_record
from llm_do_temporal.testing import scripted
from tests.support.runs.place import Place

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
    for module in (external, external_failures):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.2)
    found = await told(place, {"silent": {"command": ["sleep", "600"]}})
    assert "its server did not answer within 0.2 s" in found["silent"]
