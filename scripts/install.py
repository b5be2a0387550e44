"""Installs what requirements/ has locked into .venv, and says all the time what it does: `install.py SET`.

Called by the Makefile, with whatever Python 3.11 or newer the machine has and nothing else, so it imports nothing but
what comes with that. Every file must have the hash that is written down; nothing is resolved, nothing is built but the
project itself, and that with tools from the same lists. Must not decide what is in a set: `make lock` does.
"""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
SETS = {
    "product": ("build", "product"),
    "dev": ("build", "dev"),
    "bench": ("build", "bench"),
    "lock": ("lock",),
}
"""What can be installed, and the files of requirements/ that list it."""
QUIET_SECONDS = 2.0
"""How long nothing is said, at most."""
_COLLECTED = re.compile(r"\s*(?:Collecting|Downloading|Using cached) (\S+?)(?:==| |$)")
_PINNED = re.compile(r"^[\w.-]+(?:\[[\w,.-]+\])?==", re.MULTILINE)


class Failed(Exception):
    """A step did not work; the message is for whoever typed the command."""


def say(text: str) -> None:
    """Tell the person something."""
    print(text, flush=True)


def run(command: Sequence[str | Path], doing: Callable[[str], str]) -> None:
    """Run a command; whenever it has been quiet for a while say what it does.

    `doing` gets each line that the command prints, or an empty one when it prints none, and returns what to say. What
    it prints is shown only when it fails. Raises Failed.
    """
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        printed = _attend(lines, doing)
    if process.returncode != 0:
        raise Failed("".join(printed[-60:]) + f"\nthis failed: {' '.join(words)}")


def _read(stream: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _attend(lines: queue.Queue[str | None], doing: Callable[[str], str]) -> list[str]:
    printed: list[str] = []
    said = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=max(0.0, said + QUIET_SECONDS - time.monotonic()))
        except queue.Empty:
            say(f"   {doing('')}")
            said = time.monotonic()
            continue
        if line is None:
            return printed
        printed.append(line)
        doing(line)


def python() -> Path:
    """The environment's Python."""
    return VENV / "bin" / "python"


def make_environment() -> None:
    """Make .venv where it is missing or its Python is gone."""
    if python().exists():
        return
    say("== a Python environment of its own, in .venv")
    began = time.monotonic()
    command = [sys.executable, "-m", "venv", "--clear", VENV]
    run(command, lambda _: f"still making it, for {time.monotonic() - began:.0f} s")


class Progress:
    """How far an installation has come, by what the installer says and by what lies in the environment."""

    def __init__(self, total: int) -> None:
        """`total` is how many packages are wanted."""
        self._total = total
        self._began = _installed()
        self._fetched: list[str] = []

    def doing(self, line: str) -> str:
        """Take in a line of the installer; returns what goes on now."""
        match = _COLLECTED.match(line)
        if match is not None and match[1] not in self._fetched[-1:]:
            self._fetched.append(match[1])
        done = _installed() - self._began
        if done > 0 or not self._fetched:
            return f"installing: {done} of {self._total}"
        return f"fetching {self._fetched[-1]}"


def _installed() -> int:
    return sum(1 for _ in VENV.glob("lib/python*/site-packages/*.dist-info/RECORD"))


def install(lists: Sequence[str]) -> None:
    """Install what these files of requirements/ list."""
    files = [ROOT / "requirements" / f"{name}.txt" for name in lists]
    total = len({pin for file in files for pin in _PINNED.findall(file.read_text(encoding="utf-8"))})
    say(f"== up to {total} packages, as locked in {' and '.join(f'requirements/{name}.txt' for name in lists)}")
    wanted = [word for file in files for word in ("--requirement", file)]
    checked = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
    run([*installer(), *checked, *wanted], Progress(total).doing)


def install_project() -> None:
    """Install the project itself, so that changes in its folder need no further installation."""
    say("== llm-do-temporal itself")
    run([*installer(), "--no-deps", "--no-build-isolation", "--editable", ROOT], lambda _: "still at it")


def installer() -> list[str | Path]:
    """The command that installs into .venv: uv where the machine has it, else the environment's pip."""
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", python()]
    pip = [python(), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    # Compiling takes a third of the time; Python compiles a module, and keeps it, where it is imported.
    return [*pip, "--no-compile"]


def main(arguments: Sequence[str]) -> int:
    """Install the set that is named."""
    if len(arguments) != 1 or arguments[0] not in SETS:
        say(f"usage: install.py {'|'.join(SETS)}")
        return 2
    began = time.monotonic()
    try:
        make_environment()
        install(SETS[arguments[0]])
        if arguments[0] != "lock":
            install_project()
    except Failed as failure:
        say(str(failure))
        return 1
    say(f"== installed in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
