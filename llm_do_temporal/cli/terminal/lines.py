"""Lines that a person types at the terminal, read without holding up the event loop; editor and pager."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from llm_do_temporal.cli.text import visible_line

_MAX_LINE_BYTES = 1 << 16
_EDITORS = ("editor", "vi")
_LOCAL_MODES = 3
"""Place of the local modes among a terminal's attributes."""


class Interrupt:
    """Signal to leave a run, which goes on; Ctrl-C is ignored while an editor or a pager has the terminal."""

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self.held = False
        self.number = signal.SIGINT
        """Signal that was received."""

    def raise_it(self, number: signal.Signals = signal.SIGINT) -> None:
        """Take in a signal, or a key that stands for Ctrl-C."""
        if number is signal.SIGINT and self.held:
            return
        self.number = number
        self.happened.set()


def forget_typed() -> None:
    """Drop input typed before a question was shown: it cannot be its answer."""
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


@contextmanager
def unechoed() -> Generator[None]:
    """Keep keys that are typed meanwhile off the screen, and from whoever reads the terminal next; Ctrl-C works."""
    descriptor = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        yield  # no terminal any more
        return
    silent = [*before]
    silent[_LOCAL_MODES] = before[_LOCAL_MODES] & ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        # Flushes what was typed, too.
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


async def read_line(prompt: str) -> str | None:
    """Return the next line typed after `prompt`, without its end; None at the end of input. Can be cancelled.

    The terminal itself edits the line, so this works on every terminal.
    """
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, _MAX_LINE_BYTES))

    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop.add_reader(descriptor, read)
    try:
        data = await typed
    except asyncio.CancelledError:
        sys.stderr.write("\n")
        raise
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace").rstrip("\n") if data else None


def editor() -> list[str] | None:
    """Return the command of the person's editor, from $VISUAL or $EDITOR, else `editor` or `vi`; None without any."""
    named = _program("VISUAL") or _program("EDITOR")
    return named or next(([found] for name in _EDITORS if (found := shutil.which(name))), None)


def pager() -> list[str] | None:
    """Return the command of the person's pager, from $PAGER; None without it."""
    return _program("PAGER")


def _program(variable: str) -> list[str] | None:
    try:
        return shlex.split(os.environ.get(variable, "")) or None
    except ValueError:
        return None


async def read_in_pager(text: str, command: list[str], interrupt: Interrupt) -> None:
    """Show `text` in the person's pager until it is closed; print the reason if it cannot be used."""
    interrupt.held = True
    try:
        # stdout is for results, so the pager draws on stderr, which is for people.
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=sys.stderr)
        await process.communicate(text.encode(errors="backslashreplace"))
    except OSError as error:
        sys.stderr.write(f"the pager '{visible_line(command[0])}' cannot be used: {error}\n")
    finally:
        interrupt.held = False


async def edit(text: str, command: list[str], interrupt: Interrupt, name: str = "arguments.yaml") -> str | None:
    """Return `text` as changed in the person's editor; None, after printing why, if the editor cannot be used.

    The editor sees a file of this name. Line ends come back as the editor leaves them.
    """
    with tempfile.TemporaryDirectory(prefix="llm-do-") as folder:
        file = Path(folder) / name
        file.write_bytes(text.encode())
        interrupt.held = True
        try:
            process = await asyncio.create_subprocess_exec(*command, str(file))
            code = await process.wait()
            edited = file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            sys.stderr.write(f"the editor '{visible_line(command[0])}' cannot be used: {error}\n")
            return None
        finally:
            interrupt.held = False
    if code != 0:
        sys.stderr.write(f"the editor '{visible_line(command[0])}' ended with code {code}; nothing was changed\n")
        return None
    return edited
