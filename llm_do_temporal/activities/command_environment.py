"""Surroundings of a command: its program, its environment and its mounts.

Called by the shell activity, which has checked the command. Must not judge it, nor look at what it wrote.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.definitions.protection.protected_places import protection_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.effects import ShellInput
from llm_do_temporal.sandbox.bubblewrap import SYSTEM_PATH, TOP, IsolatedFolder, isolated, options_file
from llm_do_temporal.sandbox.processes import Ended, ProcessSpec, run_program

_GIT_SETTINGS = {
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
_GIT_HABITS = {
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


@dataclass(frozen=True)
class Ground:
    """Folders and isolation that a command is to run with."""

    workshop: Path
    folders: list[IsolatedFolder]
    """All folders that the command may reach; without isolation, the first is its working folder."""
    bwrap: str | None
    """Path of the program that isolates the command; None: it runs without isolation."""

    @property
    def real(self) -> tuple[str, str]:
        """A pair: the real folder, and the virtual folder that commands see it as."""
        if self.bwrap is not None:
            return (TOP, "/")
        first = self.folders[0]
        return (str(first.path), first.place.path)


async def run_on(
    ground: Ground, asked: ShellInput, home: str, check: Callable[[], None]
) -> tuple[Ended, tuple[str, ...]]:
    """Run the command to its end, with `home` as its home folder.

    Return how it ended, and the virtual paths that were read-only only because planning its mounts is bounded.

    `check` is called last, with all mounts open, and raises where it must not run after all. Raises EffectFailed where
    it cannot be started.
    """
    preparing = _prepared(ground, asked, home)
    # Looking through a large tree takes a moment, in which other activities go on.
    program, held_back = await asyncio.to_thread(preparing.__enter__)
    try:
        await asyncio.to_thread(check)
        return await run_program(program, timeout_seconds=asked.timeout_seconds), held_back
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
        raise EffectFailed(f"'{asked.argv[0][:80]}' cannot be run: {reason}") from error
    finally:
        preparing.__exit__(None, None, None)


def search_path(*, isolated: bool) -> str:
    """Return the PATH on which the program of a command is searched."""
    if isolated:
        return SYSTEM_PATH
    # A relative entry would let a file that a model wrote stand in for a program.
    return os.pathsep.join(
        entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")
    )


def environment_of(names: Sequence[str], *, isolated: bool, home: str) -> dict[str, str]:
    """Return the environment of a command, with the variables called `names` from that of the worker service.

    All others stay behind: the worker service has the keys of its models there.
    """
    passed = {name: os.environ[name] for name in names if name in os.environ}
    given = {"PATH": search_path(isolated=isolated), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **_GIT_HABITS}
    return {**given, **passed, **_git_settings()}


def _git_settings() -> dict[str, str]:
    settings = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))}
    for number, (key, value) in enumerate(_GIT_SETTINGS.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings


@contextmanager
def _prepared(ground: Ground, asked: ShellInput, home: str) -> Generator[tuple[ProcessSpec, tuple[str, ...]]]:
    names = asked.settings.env
    if ground.bwrap is None:
        folder = str(ground.folders[0].path)
        environment = environment_of(names, isolated=False, home=home)
        yield ProcessSpec(argv=asked.argv, folder=folder, environment=environment, supervised=True), ()
        return
    protection = protection_of(ground.workshop)
    with (
        isolated(ground.folders, protection, cwd=asked.cwd, network=asked.network) as how,
        options_file(how.options) as options,
    ):
        program = ProcessSpec(
            argv=("bwrap", "--args", str(options), "--", *asked.argv),
            executable=ground.bwrap,
            folder="/",
            environment=environment_of(names, isolated=True, home="/tmp"),  # noqa: S108 - a /tmp of its own
            descriptors=(options, *how.descriptors),
        )
        yield program, how.held_back
