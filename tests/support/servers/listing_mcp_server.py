"""An MCP server over standard input and output that lists the tools that it is given, and answers with their names.

    python tests/support/servers/listing_mcp_server.py TOOLS

TOOLS is the list as JSON, as the server sends it. A call with `say` writes that line to standard output before the
answer, and one with `instead` in place of the answer.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an answer."""
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
        return {"result": {"content": [{"type": "text", "text": f"called {params['name']}"}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        if "id" not in asked:
            continue
        params: dict[str, Any] = asked.get("params") or {}
        given: dict[str, Any] = params.get("arguments") or {}
        if "say" in given:
            print(given["say"], flush=True)
        if "instead" in given:
            print(given["instead"].replace("ID", str(asked["id"])), flush=True)
        else:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked)}), flush=True)


if __name__ == "__main__":
    main()
