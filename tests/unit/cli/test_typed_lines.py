from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

ASK = """
import asyncio
from llm_do_temporal.cli.terminal_lines import forget_typed, read_line
async def main():
    forget_typed()
    print("ready", flush=True)
    while (line := await read_line("? ")) is not None:
        print(repr(line), flush=True)
    print("end", flush=True)
asyncio.run(main())
"""


@dataclass
class Terminal:
    """A program that asks at a terminal of its own; what it says comes through a pipe."""

    keyboard: int
    program: subprocess.Popen[str]

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def hear(self) -> str:
        assert self.program.stdout is not None
        return self.program.stdout.readline().rstrip("\n")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    os.write(keyboard, b"typed too early\n")
    program = subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=screen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    os.close(screen)
    yield Terminal(keyboard, program)
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
