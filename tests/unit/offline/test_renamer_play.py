"""The play of the API renamer, on the package that ships: what it writes, and what comments of a review make it do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ToolCallPart

from tests.support.providers.offline_answers import LIST, TEXT, WORKSHOP, WRITE, Talk, as_worker, playing, tool

MODEL = playing()
READ = tool("read_file", path=TEXT, max_chars={"type": "integer"})
SHELL = tool("shell", command=TEXT)
SUBMIT = tool("submit_changes")
COUNTER = "/pottery/counter.py"
BOTH = '"price_of ARTICLE, or get_price ARTICLE": "the price of one piece",'
REMARKS = f"""Accepted: 29 of 30 files. The rest was rejected by ada, with these comments:
{COUNTER}:16: people type this word, so say both: `{BOTH}`
{COUNTER}:33: and take both: `if word in ("price_of", "get_price"):`
"""


class Shelf:
    """Files as the worker sees them, and answers of its tools."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.written: list[str] = []
        self.reviews: list[str] = []

    def answer(self, asked: ToolCallPart) -> Any:
        args = asked.args_as_dict()
        if asked.tool_name == "list_files":
            return json.dumps({"files": [{"path": path, "bytes": 1} for path in self.files]})
        if asked.tool_name == "read_file":
            return json.dumps({"content": self.files[args["path"]], "truncated": False})
        if asked.tool_name == "write_file":
            self.files[args["path"]] = args["content"]
            self.written.append(args["path"])
            return json.dumps({"path": args["path"]})
        if asked.tool_name == "submit_changes":
            return self.reviews.pop(0)
        return json.dumps({"exit_code": 0, "stdout": "", "stderr": ""})


def shipped() -> Shelf:
    top = WORKSHOP / "files"
    paths = [path for path in sorted((top / "pottery").rglob("*")) if path.suffix in (".py", ".md")]
    return Shelf({f"/{path.relative_to(top).as_posix()}": path.read_text() for path in paths})


async def play(shelf: Shelf, prompt: str = "rename get_price to price_of") -> str:
    """Let the worker work on the shelf to its end, and return its last words."""
    talk = Talk(MODEL, as_worker("api_renamer", LIST, READ, WRITE, SHELL, SUBMIT), prompt)
    while calls := await talk.calls():
        talk.reply(*map(shelf.answer, calls))
    (last,) = talk.messages[-1].parts
    return str(getattr(last, "content", ""))


def passes(folder: Path) -> bool:
    command = [sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "pottery/tests", "-t", "."]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 0


async def test_thirty_files_get_the_new_name_and_their_tests_pass(tmp_path: Path) -> None:
    shelf = shipped()
    shelf.reviews = ["Everything was accepted and is made: 30 changed paths."]
    assert (await play(shelf)).startswith("Renamed get_price to price_of in 30 files.\n")
    assert len(shelf.written) == len(set(shelf.written)) == 30
    assert not any("get_price" in text for text in shelf.files.values())
    for path, text in shelf.files.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert passes(tmp_path)


async def test_rejected_lines_are_done_again_as_their_comments_say_and_no_others() -> None:
    shelf = shipped()
    shelf.reviews = [REMARKS, "Everything was accepted and is made: 2 changed paths."]
    text = await play(shelf)
    assert shelf.written[30:] == [COUNTER]
    lines = shelf.files[COUNTER].splitlines()
    assert (lines[15], lines[32]) == (f"    {BOTH}", '    if word in ("price_of", "get_price"):')
    assert sum("get_price" in text for text in shelf.files.values()) == 1
    assert f"- {COUNTER}:16 as asked: {BOTH}" in text


@pytest.mark.parametrize("words", ["Rejected by ada: not this year", "29 of 30 files were accepted: shorter, please"])
async def test_a_rejection_without_a_text_for_a_line_is_quoted(words: str) -> None:
    shelf = shipped()
    shelf.reviews = [words]
    assert f"Not everything was accepted: {words}" in await play(shelf)
    assert len(shelf.written) == 30
