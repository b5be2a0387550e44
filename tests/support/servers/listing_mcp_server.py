"""An MCP server that lists the tools that it is given, and answers with their names.

    python tests/support/servers/listing_mcp_server.py TOOLS [--http]

TOOLS is the list as JSON, as the server sends it. A call with `say` writes that line before the answer, `times` over,
and one with `instead` in place of the answer. One with `wait` opens the pipes `came` and `go` of that folder before it
answers. It uses standard input and output, or HTTP, and prints its port then.
The answer of the tool `long` has 3 MB, that of the tool `echo` is its arguments as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = asked.get("params") or {}
    if asked["method"] == "initialize":
        known = {"name": "x", "version": ""}
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": known,
            }
        }
    if asked["method"] == "tools/list":
        return {"result": {"tools": json.loads(sys.argv[1])}}
    if asked["method"] == "tools/call":
        more = " " + "x" * 3_000_000 if params["name"] == "long" else ""
        text = f"called {params['name']}{more}"
        if params["name"] == "echo":
            text = json.dumps(params["arguments"], sort_keys=True)
        return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def replies(asked: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that are written for a message, the answer last."""
    if "id" not in asked or "method" not in asked:
        return
    params: dict[str, Any] = asked.get("params") or {}
    given: dict[str, Any] = params.get("arguments") or {}
    for pipe in ("came", "go") if "wait" in given else ():
        Path(given["wait"], pipe).open("wb" if pipe == "came" else "rb").close()
    yield from [given["say"]] * given.get("times", 1) if "say" in given else ()
    if "instead" in given:
        yield given["instead"].replace("ID", str(asked["id"]))
    else:
        yield json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked)})


class Handler(BaseHTTPRequestHandler):
    """Answers one request, as a stream of events below `/stream`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._reply(405, "text/plain", "")

    def do_DELETE(self) -> None:
        self._reply(405, "text/plain", "")

    def do_POST(self) -> None:
        lines = list(replies(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        if not lines:
            self._reply(202, "text/plain", "")
        elif self.path == "/stream":
            self._reply(200, "text/event-stream", "".join(f"data: {line}\n\n" for line in lines))
        else:
            self._reply(200, "application/json", lines[-1])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _reply(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "surrogateescape")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    if sys.argv[2:] == ["--http"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
    for line in sys.stdin:
        for reply in replies(json.loads(line)):
            sys.stdout.buffer.write(f"{reply}\n".encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
