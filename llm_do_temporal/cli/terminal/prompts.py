"""Prompts for what a person types at the terminal: keys, lines, edited texts; and texts to read. Blocks no event loop.

Another person may answer meanwhile; the `check` of a prompter notices that.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import termios
import tty
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from llm_do_temporal.cli.text import composed_block, visible_line

if TYPE_CHECKING:
    from rich.console import Console

_MAX_LINE_BYTES = 1 << 16
_EDITORS = ("editor", "vi")
_LOCAL_MODES = 3
"""Place of the local modes among a terminal's attributes."""
_NAMES = {"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\r": "enter", "\n": "enter"}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_READ_BYTES = 1024
CHECK_SECONDS = 0.25
_PROMPT_LINES = 2
"""Lines that a page of text leaves free on the screen."""
T = TypeVar("T")


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


@asynccontextmanager
async def leaving_on_signals(interrupt: Interrupt) -> AsyncGenerator[asyncio.Task[Any]]:
    """Let SIGINT and SIGTERM raise the interrupt as long as the block lasts; yield the task that ends with it."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, interrupt.raise_it, number)
    leaving = asyncio.create_task(interrupt.happened.wait())
    try:
        yield leaving
    finally:
        await stop(leaving)
        for number in numbers:
            loop.remove_signal_handler(number)


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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


class KeyReader:
    """Reads keys as long as the block lasts; then the terminal reads lines again. Ctrl-C stays a signal."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._typed: asyncio.Queue[str] = asyncio.Queue()

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    async def next(self, patience: float) -> str:
        """Return a character, `up`, `down`, `enter` or `end`; empty if no key was typed for `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                return await self._typed.get()
        except TimeoutError:
            return ""

    def _read(self) -> None:
        data = os.read(self._descriptor, _READ_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        for key in parse_keys(data):
            self._typed.put_nowait(key)


def parse_keys(data: bytes) -> list[str]:
    """Return the keys that bytes of a terminal stand for; no bytes at all are the end of input."""
    if not data or data == b"\x04":
        return ["end"]
    found = (match.group() for match in _KEY.finditer(data.decode(errors="replace")))
    return [_NAMES.get(key, key) for key in found]


class Prompter:
    """Asks a person about one question."""

    def __init__(self, console: Console, interrupt: Interrupt, check: Callable[[], None]) -> None:
        """`check` raises once no answer is needed any more; every prompt ends with that error then."""
        self._console = console
        self._interrupt = interrupt
        self._check = check

    def tell(self, text: str) -> None:
        """Print text, with hidden characters written out."""
        self._print(composed_block(text))

    async def line(self, prompt: str) -> str | None:
        """Return the next line that is typed; None at the end of input."""
        return await self._while_needed(read_line(prompt))

    async def yes(self, prompt: str, *, default: bool) -> bool:
        """Whether the person agrees; the end of input is a no."""
        typed = await self.line(f"{prompt} {'[Y/n]' if default else '[y/N]'} ")
        if typed is None:
            return False
        return typed.strip().lower() in (("", "y", "yes") if default else ("y", "yes"))

    async def edited(self, text: str, what: str) -> str | None:
        """Return `text` as changed in the person's editor, or a new line without an editor; None if there is no change.

        `what` names the text in the prompt for a line.
        """
        command = editor()
        if command is not None:
            return await self._while_needed(edit(text, command, self._interrupt))
        line = await self.line(f"{what} on one line (empty: back): ")
        return line if line and line.strip() else None

    async def edited_file(self, text: str, name: str) -> str | None:
        """Return the text of a file as changed in the person's editor, which sees it by this name; None: it was not."""
        command = editor()
        if command is None:
            self.tell("there is no editor here; set EDITOR")
            return None
        return await self._while_needed(edit(text, command, self._interrupt, name))

    async def read(self, text: str) -> None:
        """Show a long text page by page, in the person's pager if there is one."""
        command = pager()
        if command is not None:
            await self._while_needed(read_in_pager(text, command, self._interrupt))
            return
        lines = text.splitlines()
        size = max(1, self._console.height - _PROMPT_LINES)
        for first in range(0, len(lines), size):
            self._print("\n".join(lines[first : first + size]))
            left = len(lines) - first - size
            if left > 0 and (await self.line(f"{left} more lines [Enter: go on, q: enough] ") or "").strip():
                return

    def _print(self, text: str) -> None:
        # Commands that ask nobody read lines without loading what draws.
        from rich.text import Text

        self._console.print(Text(text))

    async def _while_needed(self, typing: Awaitable[T]) -> T:
        task = asyncio.ensure_future(typing)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=CHECK_SECONDS)
                # An editor is left to its user; the answer is refused afterwards.
                if not self._interrupt.held:
                    self._check()
            return task.result()
        finally:
            if not task.done():
                await stop(task)
