"""An MCP server over HTTP whose one tool counts the call in a file, and then breaks in the way that its path names.

    python tests/support/servers/breaking_mcp_server.py LOG

It prints its port.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOOL: dict[str, Any] = {"name": "send", "inputSchema": {"type": "object", "properties": {}}}
METHODS = {"/missing": -32601, "/arguments": -32602}
"""Codes of refusals, by path."""
TO = {"/moved": "/moved/", "/moved/round": "/moved/circle", "/moved/circle": "/moved/round"}
"""Addresses to which requests are sent on, by path."""
REPLIES = {
    "/gateway": (502, b"<h1>Bad gateway</h1>", "text/html"),
    "/page": (200, b"<h1>Sign in</h1>", "text/html"),
    "/prose": (200, b"It was sent.", "application/json"),
    "/other": (200, b'{"sent": true}', "application/json"),
    "/accepted": (202, b"", "text/plain"),
    "/notice": (200, b'{"jsonrpc": "2.0", "method": "notifications/sent"}', "application/json"),
    "/stream": (200, b": nothing\n\n", "text/event-stream"),
}
"""Status, body and kind of answers that are always the same, by path."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(405, b"")

    def do_DELETE(self) -> None:
        self._reply(405, b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/moved"):
            with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
                log.write(f"{asked['method']} {self.path}\n")
            if self.path in TO:
                self._reply(307, b"", more={"Location": TO[self.path]})
                return
        if "id" not in asked:
            self._reply(202, b"")
        elif asked["method"] == "initialize":
            version = asked["params"]["protocolVersion"]
            known: dict[str, Any] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": ""},
            }
            self._result(asked, result=known)
        elif asked["method"] == "tools/list":
            self._result(asked, result={"tools": [TOOL]})
        elif asked["method"] == "tools/call":
            self._break(asked)
        else:
            self._result(asked, error={"code": -32601, "message": "Method not found"})

    def _break(self, asked: dict[str, Any]) -> None:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write("sent\n")
        status = int(self.path[1:].partition("-")[0]) if self.path[1:4].isdecimal() else 0
        if self.path in METHODS:
            self._result(asked, error={"code": METHODS[self.path], "message": "refused"})
        elif status and self.path.endswith("-rpc"):
            error = {"code": -32001, "message": "not you"}
            self._reply(status, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode(), "application/json")
        elif status:
            self._reply(status, b"<h1>No</h1>", "text/html", {"Location": f"{self.path}-again", "Retry-After": "1"})
        elif self.path == "/moved/":
            self._result(asked, result={"content": [{"type": "text", "text": "sent"}]})
        elif self.path in REPLIES:
            self._reply(*REPLIES[self.path])
        else:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

    def _result(self, asked: dict[str, Any], **fields: Any) -> None:
        body = {"jsonrpc": "2.0", "id": asked["id"], **fields}
        self._reply(200, json.dumps(body).encode(), "application/json")

    def _reply(self, status: int, body: bytes, kind: str = "text/plain", more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
