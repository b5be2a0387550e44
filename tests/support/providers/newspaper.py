"""A workshop whose one run uses everything, and the scripted model of its workers.

An editor has two analysts write a report each, every one after a reader read a note to it, while a command waits for
the first report; then a Python function reviews the reports, and a worker that the editor makes proofreads the review.
What the workers say depends on what reached them, so whatever gets lost on the way is missing at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from llm_do_temporal.messages.approvals import Decision, DecisionKind, RequestApprovalInput
from tests.support.providers.answers import Answer, Call, Failure, Text, ToolCalls, Usage

Json = dict[str, Any]

MODEL = "openai-chat:scripted"
NOTES = {"north": "- it rained\n- the mill turned\n", "south": "- the sun shone\n"}
CHECKED = "- CHECKED BY ADA\n"
NORTH = "- IT RAINED\n- THE MILL TURNED\n"
SOUTH = f"- THE SUN SHONE\n{CHECKED}"
WRITTEN = {"out/north.md": NORTH, "out/south-checked.md": SOUTH, "out/review.md": NORTH + SOUTH}
"""What is in the files at the end."""
OUTPUT = f"Proofread:\n{NORTH}{SOUTH}"
QUESTIONS = sorted(
    [
        "share /notes/north.txt (30 bytes) with analyst",
        "share /notes/south.txt (16 bytes) with analyst",
        "call analyst with /notes/north.txt: north",
        "call analyst with /notes/south.txt: south",
        "share /notes/north.txt (30 bytes) with reader",
        "share /notes/south.txt (16 bytes) with reader",
        "call reader with /notes/north.txt: Read it.",
        "call reader with /notes/south.txt: Read it.",
        "write_file /out/north.md (30 bytes)",
        "write_file /out/south.md (16 bytes)",
        "shell sh note.sh",
        'review {"reports":["/out/north.md","/out/south-checked.md"]}',
        "share /out/north.md (30 bytes) with reader",
        "share /out/south-checked.md (33 bytes) with reader",
        "call reader with /out/north.md: Read it.",
        "call reader with /out/south-checked.md: Read it.",
        "write_file /out/review.md (63 bytes)",
        "create worker proofreader (workers/generated/proofreader.worker)",
        "share /out/review.md (63 bytes) with proofreader",
        "call proofreader with /out/review.md: Proofread it.",
    ]
)
"""What a person is asked in a run in which nothing is lost."""
LOST_COMMAND = "may have happened: shell sh note.sh"

_COMMAND = "echo ran >> ran.txt\nuntil test -e out/north.md; do sleep 0.1; done\n"
_REVIEW = '''\
import asyncio

from llm_do_temporal.tools import ToolContext, tool_context


@tool_context
async def review(reports: list[str], ctx: ToolContext) -> str:
    """Have the reports read, side by side, and write down what was read."""
    calls = [ctx.call_tool("reader", "Read it.", attachments=[report]) for report in reports]
    text = "".join(await asyncio.gather(*calls))
    await ctx.call_tool("write_file", {"path": "/out/review.md", "content": text})
    return text
'''
_WORKERS: dict[str, Json] = {
    "editor": {
        "filesystem": {},
        "delegation": {"analyst": {}, "reader": {}, "worker_create": {}, "allow_workers": []},
        "shell": {"rules": [{"pattern": "sh note.sh", "approval_required": True}]},
        "custom": {"review": {}},
    },
    "analyst": {"filesystem": {}, "delegation": {"reader": {}}},
    "reader": {},
}


def write_workshop(folder: Path) -> None:
    files = folder / "files"
    (files / "notes").mkdir(parents=True)
    (folder / "workers").mkdir()
    keys = {"model": MODEL, "sandbox": {"root": "files", "read_approval": True}}
    (folder / "workshop.yaml").write_text(yaml.safe_dump(keys))
    (folder / "tools.py").write_text(_REVIEW)
    (files / "note.sh").write_text(_COMMAND)
    for topic, text in NOTES.items():
        (files / "notes" / f"{topic}.txt").write_text(text)
    for name, toolsets in _WORKERS.items():
        front = yaml.safe_dump({"toolsets": toolsets})
        (folder / "workers" / f"{name}.worker").write_text(f"{front}---\nYou are the {name}.\n")


def play(request: Json) -> Answer:
    """Answer as the worker whose instructions the request carries; its turn is the number of answers in it."""
    system, user = (_texts(request, role)[0] for role in ("system", "user"))
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    for name, plays in _PLAYS.items():
        if f"You are the {name}." in system and turn < len(plays):
            return plays[turn](user, _texts(request, "tool"))
    return Failure(400, f"Nobody plays turn {turn} of: {system[:100]}")


def decide(asked: RequestApprovalInput) -> Decision:
    """What the person at the desk says to a question, by what it is about."""
    if asked.summary.startswith("may have happened"):
        return Decision(decision=DecisionKind.REJECT, note="skip it", by="ada")
    if asked.args.get("path") == "/out/south.md":
        args = {"path": "/out/south-checked.md", "content": asked.args["content"] + CHECKED}
        return Decision(decision=DecisionKind.MODIFY, args=args, by="ada")
    return Decision(decision=DecisionKind.APPROVE, by="ada")


def _texts(request: Json, role: str) -> list[str]:
    contents = [message["content"] for message in request["messages"] if message["role"] == role]
    return [one if isinstance(one, str) else "\n".join(part.get("text", "") for part in one) for one in contents]


def _lines(text: str) -> str:
    """The lines of notes and reports in a text, in capitals."""
    return "".join(f"{line.upper()}\n" for line in re.findall(r"^- .+", text, re.MULTILINE))


def _says(text: Callable[[str, list[str]], str]) -> Callable[[str, list[str]], Answer]:
    return lambda user, told: Text(text(user, told), usage=_USAGE)


def _calls(*calls: tuple[str, Callable[[str, list[str]], Json]]) -> Callable[[str, list[str]], Answer]:
    return lambda user, told: ToolCalls(tuple(Call(name, args(user, told)) for name, args in calls), usage=_USAGE)


def _topic(user: str) -> str:
    return user.splitlines()[0]


_USAGE = Usage(100, 10)
_PLAYS: dict[str, list[Callable[[str, list[str]], Answer]]] = {
    "editor": [
        _calls(
            ("shell", lambda _user, _told: {"command": "sh note.sh", "timeout": 300}),
            ("analyst", lambda _user, _told: {"input": "north", "attachments": ["/notes/north.txt"]}),
            ("analyst", lambda _user, _told: {"input": "south", "attachments": ["/notes/south.txt"]}),
        ),
        _calls(("review", lambda _user, _told: {"reports": ["/out/north.md", "/out/south-checked.md"]})),
        _calls(
            (
                "worker_create",
                lambda _user, _told: {
                    "name": "proofreader",
                    "instructions": "You are the proofreader.",
                    "description": "Proofreads.",
                },
            )
        ),
        _calls(
            (
                "worker_call",
                lambda _user, _told: {
                    "worker_name": "proofreader",
                    "input_data": "Proofread it.",
                    "attachments": ["/out/review.md"],
                },
            )
        ),
        _says(lambda _user, told: told[-1]),
    ],
    "analyst": [
        _calls(("reader", lambda user, _: {"input": "Read it.", "attachments": [f"/notes/{_topic(user)}.txt"]})),
        _calls(("write_file", lambda user, told: {"path": f"/out/{_topic(user)}.md", "content": told[-1]})),
        _says(lambda user, _told: f"The report on {_topic(user)} is written."),
    ],
    "reader": [_says(lambda user, _told: _lines(user))],
    "proofreader": [_says(lambda user, _told: f"Proofread:\n{_lines(user)}")],
}
