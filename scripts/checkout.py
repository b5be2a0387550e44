"""Copies of the checkout, for scripts that change the code and see what the tests say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

PACKAGE = "llm_do_temporal"


@dataclass(frozen=True)
class Done:
    """A process that has ended: its exit code, and what it wrote."""

    code: int
    output: str


class Checkout:
    """Copy of the checkout in a folder of its own, with Python of the environment that this process is in."""

    run_seconds = 1_800
    """Longest time of one process, for a change that pytest itself does not survive."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Copy the files of `root` that git has or would take, as they are now, to `folder`.

        Compiled modules of the package are copied too: Python takes them, because copies have the times of their files.
        """
        self.folder = folder
        for name in _names(root):
            _copy(root / name, folder / name)
            if name.startswith(f"{PACKAGE}/") and (compiled := Path(cache_from_source(root / name))).is_file():
                _copy(compiled, Path(cache_from_source(folder / name)))
        self._environment = {**os.environ, "PYTHONPATH": str(folder)}
        self._check_imported()

    def python(self, *arguments: str) -> Done:
        """Run Python in the copy, which imports the code of the copy. Raises subprocess.TimeoutExpired."""
        return self.run(sys.executable, *arguments)

    def run(self, *command: str, folder: str = ".") -> Done:
        """Run a command in a folder of the copy. Raises subprocess.TimeoutExpired."""
        done = subprocess.run(
            command,
            cwd=self.folder / folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=self.run_seconds,
        )
        return Done(done.returncode, done.stdout)

    def _check_imported(self) -> None:
        """Raise SystemExit where another package than that of the copy would be imported."""
        told = self.python("-c", f"import {PACKAGE}; print({PACKAGE}.__file__)")
        if Path(told.output.strip()).parent != self.folder / PACKAGE:
            sys.exit(f"the tests would not import '{PACKAGE}' from the copy in '{self.folder}': {told.output}")


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to, follow_symlinks=False)


def _names(root: Path) -> list[str]:
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in listed if name and os.path.lexists(root / name)]
