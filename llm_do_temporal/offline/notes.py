"""`offline:notes`: keeps a list of notes in a file, for a worker with file tools.

The part of `approvals_demo`, and of the first worker that a person writes. The file is the first that the
instructions name; its content is read, and stays.
"""

from __future__ import annotations

import re

from llm_do_temporal.offline.model.play import PlaySteps, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of

DEFAULT_FILE = "/notes.md"
LONGEST_READ = 200_000
_FILE = re.compile(r"(?<![\w.:/])/?[\w][\w./-]*\.(?:md|txt)\b")
_OTHER_FILE = re.compile(r"(?<![\w.:])/[\w./-]+\.\w+\b")


def keep_notes(seen: SeenRequest) -> PlaySteps:
    """Read the file, write it with the prompt as a new line, and count its lines."""
    note = " ".join(seen.prompt.split())
    if "write_file" not in seen.tools:
        return f'You said: "{note}". I keep notes, but this worker has no tool to write a file with.'
    if not note:
        return "There is nothing to note down."
    path = next(iter(_FILE.findall(seen.instructions)), DEFAULT_FILE)
    before = yield from ask("read_file", f"Reading {path}.", path=path, max_chars=LONGEST_READ)
    if fields_of(before.data).get("truncated"):
        return f"{path} is too long for me to add to; I would lose its end. Nothing was written."
    if not before.ok and "does not exist" not in before.text:
        return f"{path} could not be read, so nothing was written: {before.text}"
    content = _with_line(str(fields_of(before.data).get("content", "")) if before.ok else "", note)
    saved = yield from ask("write_file", f"Adding the note to {path}.", path=path, content=content)
    elsewhere = next(iter(_OTHER_FILE.findall(saved.rejection or "")), path)
    if elsewhere != path:
        saved = yield from ask("write_file", f"Writing {elsewhere} instead.", path=elsewhere, content=content)
    return _report(saved, note)


def _with_line(text: str, note: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}- {note}\n"


def _report(saved: ToolResult, note: str) -> str:
    if not saved.ok:
        return f"The note is not saved: {saved.rejection or saved.text}"
    if saved.note:
        return f"The note is saved, but not as I had it: {saved.note}"
    count = sum(bool(line.strip()) for line in str(saved.args["content"]).splitlines())
    path = fields_of(saved.data).get("path", saved.args["path"])
    return f"{count} {'note' if count == 1 else 'notes'} in {path}. The new one: {note}"
