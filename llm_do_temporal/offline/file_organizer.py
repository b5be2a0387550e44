"""The part of the `file_organizer`: sorts files by their endings, one `mv` a file, and looks at the outcome."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of

FOLDERS = {
    "documents": (".md", ".txt", ".pdf", ".doc", ".docx", ".odt", ".rtf"),
    "images": (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".heic"),
    "data": (".csv", ".json", ".xlsx", ".xml", ".parquet", ".yaml", ".yml"),
}
OTHERS = "other"
_FOLDER = re.compile(r"(?<![\w./])/[\w/-]+")


def organize(seen: SeenRequest) -> PlaySteps:
    """Sort the folder that the prompt names, else the one of the instructions."""
    top = next(iter(_FOLDER.findall(f"{seen.prompt}\n{seen.instructions}")), "/").rstrip("/") or "/"
    listing = yield from ask("list_files", f"Looking into {top}.", path=top)
    if not listing.ok:
        return f"{top} cannot be listed: {listing.text}"
    plan = {path: folder_of(path) for path in listing.files if str(PurePosixPath(path).parent) == top}
    if not plan:
        return f"There is nothing to sort in {top}."
    folders = [f"{top.rstrip('/')}/{name}" for name in sorted(set(plan.values()))]
    proposal = ", ".join(f"{PurePosixPath(path).name} to {name}" for path, name in plan.items())
    made = yield from ask("shell", f"My plan: {proposal}.", command=shlex.join(["mkdir", "-p", *folders]))
    if not _succeeded(made):
        return f"The folders could not be made, so nothing was moved: {_why(made)}"
    moves = [shlex.join(["mv", "-n", path, f"{top.rstrip('/')}/{name}/"]) for path, name in plan.items()]
    results = yield Say(f"Moving {len(moves)} files.", [PlayCall("shell", {"command": move}) for move in moves])
    after = yield from ask("list_files", "Looking at what lies where now.", path=top)
    return _report(plan, results, after.files)


def folder_of(path: str) -> str:
    """Return the name of the folder that a file belongs in, by its ending."""
    suffix = PurePosixPath(path).suffix.lower()
    return next((name for name, suffixes in FOLDERS.items() if suffix in suffixes), OTHERS)


def _succeeded(command: ToolResult) -> bool:
    return command.ok and fields_of(command.data).get("exit_code") == 0


def _why(command: ToolResult) -> str:
    reason = str(fields_of(command.data).get("stderr", "")) if command.ok else command.rejection or command.text
    return " ".join(reason.split()) or "something of that name is there already"


def _report(plan: dict[str, str], results: Iterable[ToolResult], now: list[str]) -> str:
    stayed = {path: result for path, result in zip(plan, results, strict=True) if path in now}
    rows = [f"| {PurePosixPath(path).name} | {name} |" for path, name in plan.items() if path not in stayed]
    lines = [f"Moved {len(rows)} of {len(plan)} files."]
    lines += ["", "| File | Folder |", "|---|---|", *rows] if rows else []
    lines += [""] if stayed else []
    return "\n".join([*lines, *(f"- {path} stayed where it was: {_why(result)}" for path, result in stayed.items())])
