"""Surroundings of a command: its program, its environment and its mounts.

Called by the shell activity, which has checked the command. Must not judge it, nor look at what it wrote.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import BinaryIO

from llm_do_temporal.activities.commands.grounds import Ground
from llm_do_temporal.activities.runtime.threads import in_thread
from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.sandbox.bubblewrap import SYSTEM_PATH, SeenFolders, alone, isolated, options_file
from llm_do_temporal.sandbox.mounts import Steady
from llm_do_temporal.sandbox.processes import Ended, ProcessSpec, run_program
from llm_do_temporal.sandbox.programs import GIT_HABITS, git_settings

_ATTEMPTS = 8
"""Most times that a command which has not begun is prepared."""
_SETUP_FAILED = 1
"""Exit code of `bwrap` where it could not start the command; the command itself may have the same."""
_HAS_ENDED = b'"exit-code"'
_STATUS_BYTES = 10_000
_LOGGED_BYTES = 200

_log = logging.getLogger(__name__)


async def run_on(
    ground: Ground,
    asked: ShellInput,
    home: str,
    check: Callable[[], None],
    *,
    seconds: float | None = None,
    joined: bool = False,
) -> tuple[Ended, tuple[str, ...]]:
    """Run the command to its end, with `home` as its home folder.

    Return how it ended, and the virtual paths that were read-only only because planning its mounts is bounded. With
    `joined`, both of its streams are the first. `seconds` is its time; None: the one that it asks for.

    `check` is called last, with all mounts open, and raises where it must not run after all. Where files come and go so
    fast that none of its mounts can be made, it is prepared again, a few times. Raises EffectFailed where it cannot be
    started.
    """
    first = time.time()
    for attempt in range(_ATTEMPTS):
        steady = Steady(first, folders_too=attempt >= _ATTEMPTS // 2) if attempt else None
        preparing = _prepared(ground, asked, home, joined=joined, steady=steady)
        # Looking through a large tree takes a moment, in which other activities go on.
        async with in_thread(preparing) as prepared:
            await asyncio.to_thread(check)
            ended = await _started(prepared.program, asked, asked.timeout_seconds if seconds is None else seconds)
            if ended.timed_out or await asyncio.to_thread(prepared.has_begun, ended):
                return ended, prepared.held_back
            _log.info(
                "a command could not begin: %s", ended.stderr.head(_LOGGED_BYTES).decode(errors="replace").strip()
            )
            ended.close()
    raise EffectFailed(
        f"'{asked.argv[0][:80]}' has not begun: its files could not be mounted, or they changed all the time meanwhile",
        next_step="Try it again when nothing else changes these files.",
    )


async def _started(program: ProcessSpec, asked: ShellInput, seconds: float) -> Ended:
    try:
        return await run_program(program, timeout_seconds=seconds)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
        raise EffectFailed(f"'{asked.argv[0][:80]}' cannot be run: {reason}") from error


def search_path(*, isolated: bool) -> str:
    """Return the PATH on which the program of a command is searched."""
    if isolated:
        return SYSTEM_PATH
    # A relative entry would let a file that a model wrote stand in for a program.
    return os.pathsep.join(
        entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")
    )


def program_problem(program: str, *, isolated: bool) -> str | None:
    """Return the reason why the program cannot be run, None where there is none that can be known before."""
    if "/" in program or shutil.which(program, path=search_path(isolated=isolated)) is not None:
        return None
    return f"there is no program '{program[:80]}' where this command would run"


def environment_of(names: Sequence[str], *, isolated: bool, home: str) -> dict[str, str]:
    """Return the environment of a command, with the variables called `names` from that of the worker service.

    All others stay behind: the worker service has the keys of its models there.
    """
    passed = {name: os.environ[name] for name in names if name in os.environ}
    given = {"PATH": search_path(isolated=isolated), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **GIT_HABITS}
    return {**given, **passed, **git_settings()}


@dataclass(frozen=True)
class _Prepared:
    """Command that is ready to be run."""

    program: ProcessSpec
    held_back: tuple[str, ...] = ()
    """Virtual paths that are read-only or hidden only because planning is bounded."""
    status: BinaryIO | None = None
    """File in which `bwrap` notes how the command has ended, if it has begun; None: it is not isolated."""

    def has_begun(self, ended: Ended) -> bool:
        """Return whether the program was started, where it has ended with this code."""
        if self.status is None or ended.exit_code != _SETUP_FAILED:
            return True
        self.status.seek(0)
        return _HAS_ENDED in self.status.read(_STATUS_BYTES)


@contextmanager
def _prepared(
    ground: Ground, asked: ShellInput, home: str, *, joined: bool, steady: Steady | None
) -> Generator[_Prepared]:
    names = asked.settings.env
    if ground.bwrap is None:
        folder = str(ground.folders[0].path)
        environment = environment_of(names, isolated=False, home=home)
        yield _Prepared(ProcessSpec(argv=asked.argv, folder=folder, environment=environment, supervised=True))
        return
    protection = protection_of(ground.workshop)
    seen = SeenFolders(ground.folders, layered=ground.mounts, judged=ground.judged_since is not None, steady=steady)
    with (
        isolated(seen, protection, cwd=asked.cwd, network=asked.network) as how,
        options_file(how.options) as options,
        TemporaryFile() as status,
    ):
        program = ProcessSpec(
            argv=("bwrap", "--json-status-fd", str(status.fileno()), "--args", str(options), "--", *alone(asked.argv)),
            executable=ground.bwrap,
            folder="/",
            environment=environment_of(names, isolated=True, home="/tmp"),  # noqa: S108 - a /tmp of its own
            descriptors=(options, status.fileno(), *how.descriptors),
            joined=joined,
        )
        yield _Prepared(program, how.held_back, status)
