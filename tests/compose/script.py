"""The model of the test with containers, as the scripted provider runs it there; and the workshop that it works in."""

from __future__ import annotations

from typing import Any

from tests.support.providers.answers import Answer, Call, Text, ToolCalls, tool_call

CALLS = 40
TOGETHER = 4
"""Of one turn, so that several worker services have some of them."""
END = "all are asked for"
LONG = "A value that is too long for a history. " * 10_000
"""400 kB, which are kept in the blob store."""

WORKSHOP = """\
name: containers
model: scripted
models:
  scripted: {model: "openai-chat:scripted", base_url: "http://provider:9000/v1"}
sandbox: {root: files}
"""
KEEPER = "toolsets: {custom: {note: {pre_approved: true}}}\n---\nNote down all numbers.\n"
READER = (
    "toolsets: {shell: {rules: [{pattern: cat, approval_required: false}]}}\n---\nRead what you are told to, by cat.\n"
)
ASKER = READER.replace("false", "true")
TELLER = "description: Tells something long.\n---\nTell something long.\n"
TOOLS = '''\
import os
import socket
import time
from pathlib import Path

LEDGER = Path(__file__).parent / "ledger"


def _write(text: str) -> None:
    with LEDGER.open("a") as file:
        file.write(text + "\\n")
        file.flush()
        os.fsync(file.fileno())


def note(number: int) -> str:
    """Note a number down. Twice is once too often."""
    _write(f"begin {number} {socket.gethostname()}")
    time.sleep(3)
    _write(f"end {number} {socket.gethostname()}")
    return f"noted {number}"
'''


def answer(request: dict[str, Any], _number: int) -> Answer:
    """The next numbers for who has a tool for them, one command and its output for who has a shell, or a long text."""
    results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    names = {tool["function"]["name"] for tool in request.get("tools", ())}
    if "note" in names:
        numbers = range(len(results), min(len(results) + TOGETHER, CALLS))
        return ToolCalls(tuple(Call("note", {"number": number}) for number in numbers)) if numbers else Text(END)
    if "shell" not in names:
        return Text(LONG)
    asked = next(message["content"] for message in request["messages"] if message["role"] == "user")
    return Text("\n".join(results)) if results else tool_call("shell", command=asked)
