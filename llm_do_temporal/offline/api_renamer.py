"""The part of the `api_renamer`: replaces a word in all files, submits, and does again what a review rejects.

A comment that has a text in backticks asks for that text in its line; a script understands no other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping

from llm_do_temporal.offline.model.play import PlayCall, PlaySteps, Say, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of

LONGEST_READ = 200_000
MOST_REVIEWS = 5
SUBMIT = "submit_changes"
ALL = "Everything was accepted"
"""Beginning of the tool's answer where everything was accepted."""
_TASK = re.compile(r"\brename\s+`?(\w+)`?\s+to\s+`?(\w+)`?", re.IGNORECASE)
_FOLDER = re.compile(r"(?<![\w./])/[\w/-]+")
_TESTS = re.compile(r"`(python3 [^`]+)`")
_REMARK = re.compile(r"^(?:\W*?)(/[^\s:]+):(\d+): .*?`([^`]+)`", re.MULTILINE)

Files = dict[str, str]
Step = Generator[Say, list[ToolResult], Files]


def rename(seen: SeenRequest) -> PlaySteps:
    """Rename what the prompt says, below the folder that it names, else that of the instructions."""
    task = _TASK.search(seen.prompt)
    if task is None:
        return "Say what to rename, like: rename get_price to price_of."
    old, new = task.groups()
    top = next(iter(_FOLDER.findall(f"{seen.prompt}\n{seen.instructions}")), "/")
    listing = yield from ask("list_files", f"Looking into {top}.", path=top, pattern="**/*")
    if not listing.files:
        return f"There are no files in {top}." if listing.ok else f"{top} cannot be listed: {listing.text}"
    word = re.compile(rf"\b{re.escape(old)}\b")
    files = yield from _read(listing.files, f"Looking for {old} in {len(listing.files)} files.")
    changed = {path: word.sub(new, text) for path, text in files.items() if word.search(text)}
    if not changed:
        return f"No file in {top} says {old}."
    failed = yield from _write(changed, f"{len(changed)} files say {old}; from now on they say {new}.")
    if failed:
        return _failure(failed)
    tests = next(iter(_TESTS.findall(seen.instructions)), "")
    told = (yield from ask("shell", "Running the tests.", command=tests)) if tests and "shell" in seen.tools else None
    if told is not None and (not told.ok or fields_of(told.data).get("exit_code") != 0):
        return f"The tests fail with the new name, so I stop here: {told.text}"
    rejected = (yield from _submit(old, new)) if SUBMIT in seen.tools else []
    return "\n".join([f"Renamed {old} to {new} in {len(changed)} files.", *rejected])


def _submit(old: str, new: str) -> Generator[Say, list[ToolResult], list[str]]:
    """Submit until nothing is asked for any more; return lines for the report about what was rejected."""
    told: list[str] = []
    words = f"{old} is {new} everywhere now. Please look."
    for _ in range(MOST_REVIEWS):
        answer = yield from ask(SUBMIT, words)
        remarks = _remarks(answer.text)
        if not remarks:
            whole = answer.ok and answer.text.startswith(ALL)
            return [*told, *([] if whole else ["", f"Not everything was accepted: {answer.text}"])]
        told += [f"- {path}:{line} as asked: {text}" for path in remarks for line, text in remarks[path].items()]
        files = yield from _read(remarks, "Looking at the lines that were rejected.")
        again = {path: _with_lines(text, remarks[path]) for path, text in files.items()}
        if failed := (yield from _write(again, "Doing these lines again, as the comments say.")):
            return [*told, _failure(failed)]
        words = f"{sum(map(len, remarks.values()))} lines are as the comments say. Please look again."
    return [*told, f"After {MOST_REVIEWS} reviews there are still comments, so I stop."]


def _read(paths: Iterable[str], words: str) -> Step:
    """Read files; those that are no text, or too long to read whole, are left out."""
    calls = [PlayCall("read_file", {"path": path, "max_chars": LONGEST_READ}) for path in paths]
    results = yield Say(words, calls)
    read = [(str(result.args["path"]), fields_of(result.data)) for result in results if result.ok]
    return {path: str(fields["content"]) for path, fields in read if not fields.get("truncated")}


def _write(files: Files, words: str) -> Generator[Say, list[ToolResult], list[ToolResult]]:
    """Write files, and return the calls that failed."""
    results = yield Say(words, [PlayCall("write_file", {"path": path, "content": files[path]}) for path in files])
    return [result for result in results if not result.ok]


def _remarks(text: str) -> Mapping[str, Mapping[int, str]]:
    """Return the lines that comments ask for, by path and number, from 1."""
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for path, line, wanted in _REMARK.findall(text):
        found[path][int(line)] = wanted
    return found


def _with_lines(text: str, wanted: Mapping[int, str]) -> str:
    """Return the text with these lines in the place of its own, as far indented as they are."""
    lines = text.splitlines()
    for number, line in wanted.items():
        if number <= len(lines):
            indent = lines[number - 1][: len(lines[number - 1]) - len(lines[number - 1].lstrip())]
            lines[number - 1] = indent + line.strip()
    return "".join(f"{line}\n" for line in lines)


def _failure(failed: list[ToolResult]) -> str:
    return f"{len(failed)} files could not be written, so I stop: {failed[0].text}"
