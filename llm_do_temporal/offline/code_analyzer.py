"""The part of the `code_analyzer`: counts lines, definitions and open tasks with commands that only look.

A command in backticks in the prompt is run too, so that people can try the worker's rules on it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Sequence

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of

MAX_FILES = 200
LONGEST_READ = 200_000
_COMMAND = re.compile(r"`([^`\n]+)`")
_COUNT = re.compile(r"^\s*(\d+) (.+)$")
_HISTORY = re.compile(r"\b(?:git|commits?|history|changed?)\b", re.IGNORECASE)

Running = Generator[Say, list[ToolResult], list[ToolResult]]


def analyze(seen: SeenRequest) -> PlaySteps:
    """Look at the Python files, run the commands of the prompt, and report."""
    listing = yield from ask("list_files", "Looking for Python files.", path="/", pattern="**/*.py")
    paths = listing.files[:MAX_FILES]
    if not paths:
        return "There are no Python files here." if listing.ok else f"The files cannot be listed: {listing.text}"
    names = shlex.join(path.lstrip("/") for path in paths)
    looks = [
        f"wc -l -- {names}",
        f"grep -c -H -e '^ *def ' -e '^ *async def ' -e '^class ' -- {names}",
        f"grep -n -H -e TODO -e FIXME -- {names}",
        *(["git log --oneline -5"] if _HISTORY.search(seen.prompt) else []),
    ]
    sizes, definitions, tasks, *history = yield from _run(looks)
    lines = _counted(sizes) if sizes.ok else (yield from _read(paths))
    commands = _COMMAND.findall(seen.prompt)
    others = (yield from _run(commands)) if commands else []
    return "\n".join([*_table(lines, definitions), "", *_tasks(tasks), *_outputs([*history, *others])])


def _run(commands: Sequence[str]) -> Running:
    programs = ", ".join(dict.fromkeys(command.split()[0] for command in commands if command.split()))
    return (yield Say(f"Running {programs}.", [PlayCall("shell", {"command": command}) for command in commands]))


def _output(result: ToolResult) -> list[str]:
    return str(fields_of(result.data).get("stdout", "")).splitlines() if result.ok else []


def _counted(sizes: ToolResult) -> dict[str, int]:
    """Return the number of lines of each file, from the output of `wc -l`."""
    counts = [found.groups() for found in map(_COUNT.match, _output(sizes)) if found]
    return {name: int(number) for number, name in counts if name != "total"}


def _read(paths: Sequence[str]) -> Generator[Say, list[ToolResult], dict[str, int]]:
    """Count lines by reading the files, if no command runs: read-only files need a machine that can isolate them."""
    calls = [PlayCall("read_file", {"path": path, "max_chars": LONGEST_READ}) for path in paths]
    texts = yield Say("No command runs here, so I read the files.", calls)
    contents = [str(fields_of(text.data).get("content", "")) for text in texts]
    return {path.lstrip("/"): content.count("\n") for path, content in zip(paths, contents, strict=True)}


def _table(lines: dict[str, int], definitions: ToolResult) -> list[str]:
    if not lines:
        return ["The lines could not be counted."]
    named = dict(line.rsplit(":", 1) for line in _output(definitions) if ":" in line)
    rows = [f"| {name} | {number} | {named.get(name, '?')} |" for name, number in lines.items()]
    largest = max(lines, key=lines.__getitem__)
    summary = (
        f"{len(lines)} Python files with {sum(lines.values())} lines; the largest is {largest} with {lines[largest]}."
    )
    return [summary, "", "| File | Lines | Functions and classes |", "|---|---|---|", *rows]


def _tasks(found: ToolResult) -> list[str]:
    if not found.ok:
        return [f"Open tasks could not be looked for: {found.text}"]
    lines = _output(found)
    return ["Open tasks:", *(f"- {line}" for line in lines)] if lines else ["No line says TODO or FIXME."]


def _outputs(results: Sequence[ToolResult]) -> list[str]:
    lines: list[str] = []
    for result in results:
        fields, command = fields_of(result.data), result.args.get("command")
        if not result.ok:
            lines += ["", f"`{command}` was not run: {result.rejection or result.text}"]
            continue
        lines += ["", f"`{command}` ended with {fields.get('exit_code')}:", *_output(result)]
        lines += [str(fields.get("stderr", "")).strip()] if fields.get("stderr") else []
    return lines
