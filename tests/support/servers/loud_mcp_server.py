"""An MCP server that fails with whatever text it is told to, and writes whatever it is told to its standard error.

    python tests/support/servers/loud_mcp_server.py WORDS

WORDS is a Python expression: what is written to standard error at the start, and before each call.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("loud")
ONCE = 65536


def shout(words: str, times: int) -> None:
    """Write it to standard error, as bytes."""
    data = words.encode("utf-8", "surrogatepass") * times
    for place in range(0, len(data), ONCE):
        os.write(2, data[place : place + ONCE])


@server.tool()
def fail(words: str, times: int) -> str:
    """Fail, and say so at length."""
    raise ToolError(words * times)


@server.tool()
def speak(words: str, times: int) -> str:
    """Write to standard error, and answer."""
    shout(words, times)
    return "spoken"


@server.tool()
def leave(words: str) -> str:
    """Leave a process behind that holds standard error."""
    code = f"import sys, time\nwhile True: sys.stderr.write({words!r}); time.sleep(0.01)"
    subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return "left"


if __name__ == "__main__":
    shout(*ast.literal_eval(sys.argv[1])) if len(sys.argv) > 1 else None
    server.run()
