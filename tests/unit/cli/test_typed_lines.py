from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.cli.terminal.prompts import editor

ASK = """
import asyncio
from llm_do_temporal.cli.terminal.prompts import forget_typed, read_line
async def main():
    forget_typed()
    print("ready", flush=True)
    while (line := await read_line("? ")) is not None:
        print(repr(line), flush=True)
    print("end", flush=True)
asyncio.run(main())
"""

READ = """
import asyncio
from rich.console import Console
from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.cli.terminal.prompts import Interrupt
async def main():
    text = "\\n".join(f"line {number}" for number in range(1, 11))
    await Prompter(Console(width=40, height=6), Interrupt(), lambda: None).read(text)
    print("end", flush=True)
asyncio.run(main())
"""
"""Shows ten lines of text on a terminal of six."""

DRAW = """
import select, sys
from llm_do_temporal.cli.terminal.prompts import unechoed
with unechoed():
    print("drawn", flush=True)
    select.select([0], [], [])
print(f"left: {bool(select.select([0], [], [], 0)[0])}", flush=True)
"""
"""Draws until a key is typed, and then says whether anything typed is left for who reads next."""


@dataclass
class Terminal:
    """A program that asks at a terminal of its own; what it says comes through a pipe."""

    keyboard: int
    program: subprocess.Popen[str]
    attributes: list[Any]
    """Those of the terminal before the program has begun."""

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def hear(self) -> str:
        assert self.program.stdout is not None
        return self.program.stdout.readline().rstrip("\n")


@pytest.fixture(params=[ASK])
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    if request.param == ASK:
        os.write(keyboard, b"typed too early\n")
    attributes = termios.tcgetattr(keyboard)
    program = subprocess.Popen(
        [sys.executable, "-c", request.param],
        stdin=screen,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PAGER"},
    )
    os.close(screen)
    yield Terminal(keyboard, program, attributes)
    program.kill()
    program.wait()
    if program.stdout is not None:
        program.stdout.close()
    os.close(keyboard)


def test_lines_are_read_one_by_one_and_what_was_typed_before_the_question_is_dropped(terminal: Terminal) -> None:
    assert terminal.hear() == "ready"
    terminal.type("a\nmore words\n")
    assert terminal.hear() == "'a'"
    assert terminal.hear() == "'more words'"


def test_the_end_of_input_is_none(terminal: Terminal) -> None:
    assert terminal.hear() == "ready"
    terminal.type("\x04")
    assert terminal.hear() == "end"


@pytest.mark.parametrize("terminal", [READ], indirect=True)
def test_a_long_text_is_read_page_by_page_where_there_is_no_pager(terminal: Terminal) -> None:
    assert [terminal.hear() for _ in range(4)] == [f"line {number}" for number in range(1, 5)]
    terminal.type("\n")
    assert [terminal.hear() for _ in range(4)] == [f"line {number}" for number in range(5, 9)]
    terminal.type("q\n")
    assert terminal.hear() == "end"


def test_the_editor_is_the_persons_own_or_one_that_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert editor() is None
    for name in ("vi", "editor"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert editor() == [str(tmp_path / name)]
    monkeypatch.setenv("EDITOR", "code --wait")
    assert editor() == ["code", "--wait"]
    monkeypatch.setenv("VISUAL", "emacs")
    assert editor() == ["emacs"]


@pytest.mark.parametrize("terminal", [DRAW], indirect=True)
def test_keys_typed_while_a_picture_is_drawn_leave_no_trace(terminal: Terminal) -> None:
    assert terminal.hear() == "drawn"
    terminal.type("rm -r everything\n")
    assert terminal.hear() == "left: False"
    os.set_blocking(terminal.keyboard, False)
    with pytest.raises(BlockingIOError):
        os.read(terminal.keyboard, 1)
    assert termios.tcgetattr(terminal.keyboard) == terminal.attributes
