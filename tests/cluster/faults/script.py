"""Workshop and model of the faults: runs that write a file and run a command in each turn.

Commands note that they begin and end in a ledger, where one that ran twice stands twice. They go on for as long as a
file `hold` is there, so that tests decide what is under way when a fault strikes.
"""

from __future__ import annotations

from typing import Any

from tests.support.providers.answers import Answer, Call, Text, ToolCalls

TURNS = 3
END = "all is written down"
LONG = "long"
"""Word of a prompt: values are too long for a history."""
_LINE = "x" * 999 + "\n"
CLERK = """\
toolsets:
  filesystem: {}
  shell: {rules: [{pattern: sh note.sh, approval_required: false}]}
---
Write everything down, in a file and in the ledger.
"""
HASTY_SECONDS = 8
"""How long people are waited for where the hasty clerk asks."""
HASTY = """\
toolsets:
  filesystem: {}
  shell: {capabilities: [hasty], rules: [{pattern: sh note.sh, approval_required: false}]}
---
Write everything down, in a file and in the ledger.
"""
ASKER = CLERK.replace("false", "true")
APPROVALS = f"""\
approvals:
  rules:
    sandbox.write: pre_approved
    hasty: {{ruling: needs_approval, timeout: {HASTY_SECONDS}s}}
"""
NOTE = """\
echo "begin $1" >> ledger
while test -e hold; do sleep 0.1; done
test "$2" = "" || head -c "$2" /dev/zero | tr '\\0' x
echo "end $1" >> ledger
"""


def answer(request: dict[str, Any], _number: int) -> Answer:
    """The next file and the next command of a run, until there have been TURNS of each."""
    asked = next(message["content"] for message in request["messages"] if message["role"] == "user")
    run, *words = asked.split()
    turn = sum(message["role"] == "tool" for message in request["messages"]) // 2
    if turn == TURNS:
        return Text(END)
    key, is_long = f"{run}-{turn}", LONG in words
    write = Call("write_file", {"path": f"{key}.txt", "content": content_of(key, is_long=is_long)})
    command = f"sh note.sh {key}" + (" 400000" if is_long else "")
    return ToolCalls((write, Call("shell", {"command": command, "timeout": 300})))


def content_of(key: str, *, is_long: bool = False) -> str:
    """The text that a run writes: some bytes, or 400 kB."""
    return f"{key}\n" + (_LINE * 400 if is_long else "")
