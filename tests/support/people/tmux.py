"""A person at a real terminal: tmux holds it, types into it and reads what stands on it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk

COLUMNS, LINES = 130, 70


class Terminal:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._folder = tempfile.TemporaryDirectory(prefix="llm-do-tmux-")
        self._environment = desk.environment | {"LC_ALL": "C.UTF-8", "PS1": "$ ", "TERM": "xterm-256color"}
        for variable in ("PAGER", "VISUAL", "EDITOR", "ENV", "TMUX", "COLUMNS", "LINES"):
            self._environment.pop(variable, None)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), "sh")

    def command(self, *arguments: str, **variables: str) -> None:
        """Type a command of the program on a clean screen, followed by one that tells its exit code."""
        self._tmux("send-keys", "-R", "")
        self._tmux("clear-history")
        words = [sys.executable, "-m", "llm_do_temporal.cli", *arguments, "--workshop", str(self._desk.workshop)]
        named = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        self.type(" ".join([*named, shlex.join(words), "; echo exit $?"]))

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys, by their names or as they are."""
        self._tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        """All that was written since the last command, without colours."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def see(self, *texts: str) -> str:
        """Wait until all of these stand on the terminal; returns all of it."""
        try:
            eventually(lambda: all(text in self.screen for text in texts), f"{texts} on the terminal")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.screen}") from error
        return self.screen

    def close(self) -> None:
        """Take the terminal away from whatever runs in it."""
        self._tmux("kill-server")
        self._folder.cleanup()

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-S", f"{self._folder.name}/socket", *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout


@contextmanager
def at_terminal(desk: Desk) -> Generator[Terminal]:
    """A terminal with the environment that the desk has now."""
    terminal = Terminal(desk)
    try:
        yield terminal
    finally:
        terminal.close()


def write_editor(path: Path, old: str, new: str) -> str:
    """An editor that changes one text into another and is done; returns the command."""
    path.write_text(
        f"import sys, pathlib\nf = pathlib.Path(sys.argv[1])\nf.write_text(f.read_text().replace({old!r}, {new!r}))\n"
    )
    return f"{sys.executable} {path}"
