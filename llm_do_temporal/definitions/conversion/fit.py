"""Fitting of a draft to our own parser, by leaving out the keys that the parser refuses.

No omission may give a worker more than it had: where access is written in a form that cannot be carried over, the
worker loses that access.
"""

from __future__ import annotations

from typing import Any, cast

import yaml

from llm_do_temporal.definitions.conversion.drafts import Draft, JsonObject
from llm_do_temporal.definitions.workers.places import WorkerPlace
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, parse_worker
from llm_do_temporal.definitions.yaml.lines import KeyPath
from llm_do_temporal.definitions.yaml.problems import Problem

_MAX_ROUNDS = 100
_RAW_END = "{% endraw %}"
_MARKS = ("{{", "{%", "{#")


def fit(draft: Draft, place: WorkerPlace) -> str | None:
    """Return the text of the worker's file; None, with a note, where nothing useful is left."""
    for _ in range(_MAX_ROUNDS):
        text = worker_text(draft)
        parsed = parse_worker(text, place, sha256="")
        problem = next((one for one in parsed.problems if one.severity == "error"), None)
        if problem is None:
            return text
        path = _path_of(parsed, problem)
        if not path or not _drop(draft, path):
            draft.note(f"not imported: {problem.message}")
            return None
        draft.note(f"'{'.'.join(map(str, path))}' is left out: {problem.message}")
    draft.note("not imported: too much of it cannot be carried over")
    return None


def worker_text(draft: Draft) -> str:
    """Return the draft as the text of a worker file."""
    # The name is what the file is called.
    front = yaml.safe_dump(draft.keys, sort_keys=False, allow_unicode=True, width=110) if draft.keys else ""
    body = draft.body.strip()
    if draft.literal and not draft.generated:
        body = as_it_stands(body)
    return f"---\n{front}---\n{body}\n"


def as_it_stands(text: str) -> str:
    """Return text that a template engine renders back to the given text."""
    if not any(mark in text for mark in _MARKS):
        return text
    ended = "{% endraw %}{{ '{% endraw %}' }}{% raw %}"
    return f"{{% raw %}}{text.replace(_RAW_END, ended)}{_RAW_END}"


def _path_of(parsed: ParsedWorker, problem: Problem) -> KeyPath:
    """Return the innermost key on the line of a problem."""
    found = [path for path, line in parsed.document.lines.items() if path and line == problem.line]
    return max(found, key=len, default=())


def _drop(draft: Draft, path: KeyPath) -> bool:
    """Remove the key at the path, or so much around it that no restriction is lost; return False where nothing was."""
    head = tuple(str(step) for step in path[:2])
    if path[0] == "sandbox" and path[1:2] != ("paths",):
        return _without_files(draft)
    if path[0] == "attachment_policy":
        draft.keys["attachment_policy"] = {"max_attachments": 0}
        return path != ("attachment_policy", "max_attachments") or len(path) > 1
    if head == ("toolsets", "shell"):
        return _without_rule(draft, path)
    if path[0] == "toolsets" and head != ("toolsets", "delegation"):
        return _delete(draft.keys, path[:3] if head == ("toolsets", "custom") else path[:2])
    return _delete(draft.keys, path[:3] if path[0] == "sandbox" else path)


def _without_files(draft: Draft) -> bool:
    toolsets = cast("JsonObject", draft.keys.get("toolsets", {}))
    for name in ("filesystem", "shell"):
        toolsets.pop(name, None)
    return draft.keys.pop("sandbox", None) is not None


def _without_rule(draft: Draft, path: KeyPath) -> bool:
    """Remove a rule of `shell:` with all rules below it, or the whole toolset; return False where nothing was.

    The rule may have been the one that asks, and later rules may fit its commands: then every command that no rule fits
    must ask, unless it is blocked.
    """
    shell = cast("JsonObject", draft.keys["toolsets"]["shell"])
    if path[2:3] == ("rules",) and len(path) > 3:
        default = shell.get("default")
        blocked = isinstance(default, dict) and cast("JsonObject", default).get("blocked") is True
        # Rules further down may fit what this one was for.
        shell["rules"] = cast("list[Any]", shell["rules"])[: int(path[3])]
        shell["default"] = {"blocked": True} if blocked else {"approval_required": True}
        return True
    return _delete(draft.keys, path[:2])


def _delete(keys: JsonObject, path: KeyPath) -> bool:
    inner: Any = keys
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return True
