"""A small MCP server over standard input and output, for tests of `mcp:`.

    python tests/support/servers/mcp_server.py [--log FILE]

It counts its calls in FILE, one line each, so that a test can see how often something really happened.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

kept: list[Path] = []
"""The file to count calls in, where there is one."""

server = MCPServer("notes")


def note(line: str) -> None:
    for path in kept:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@server.tool()
def add(first: int, second: int) -> int:
    """Add two numbers."""
    note(f"add {first} {second}")
    return first + second


@server.tool()
def variable(name: str) -> str:
    """The value of a variable of this server."""
    return os.environ.get(name, "not set")


@server.tool()
def refuse(why: str) -> str:
    """Fail, and say why."""
    raise ValueError(why)


@server.tool()
def die(status: int) -> str:
    """Count the call, and end the server before it answers."""
    note(f"die {status}")
    os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path)
    log = parser.parse_args().log
    kept.extend([log] if log is not None else [])
    server.run()


if __name__ == "__main__":
    sys.exit(main())
