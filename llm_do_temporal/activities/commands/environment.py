"""Surroundings of a command: its program, its environment and its mounts.

Called by the shell activity, which has checked the command. Must not judge it, nor look at what it wrote.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from llm_do_temporal.activities.commands.ground import Ground
from llm_do_temporal.definitions.protection.protected_places import protection_of
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.messages.effects import ShellInput
from llm_do_temporal.sandbox.bubblewrap import SYSTEM_PATH, isolated, options_file
from llm_do_temporal.sandbox.git_settings import GIT_HABITS, git_settings
from llm_do_temporal.sandbox.processes import Ended, ProcessSpec, run_program


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

    `check` is called last, with all mounts open, and raises where it must not run after all. Raises EffectFailed where
    it cannot be started.
    """
    preparing = _prepared(ground, asked, home, joined=joined)
    # Looking through a large tree takes a moment, in which other activities go on.
    program, held_back = await asyncio.to_thread(preparing.__enter__)
    try:
        await asyncio.to_thread(check)
        return await run_program(
            program, timeout_seconds=asked.timeout_seconds if seconds is None else seconds
        ), held_back
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


@contextmanager
def _prepared(
    ground: Ground, asked: ShellInput, home: str, *, joined: bool
) -> Generator[tuple[ProcessSpec, tuple[str, ...]]]:
    names = asked.settings.env
    if ground.bwrap is None:
        folder = str(ground.folders[0].path)
        environment = environment_of(names, isolated=False, home=home)
        yield ProcessSpec(argv=asked.argv, folder=folder, environment=environment, supervised=True), ()
        return
    protection = protection_of(ground.workshop)
    with (
        isolated(ground.folders, protection, cwd=asked.cwd, network=asked.network, layered=ground.mounts) as how,
        options_file(how.options) as options,
    ):
        program = ProcessSpec(
            argv=("bwrap", "--args", str(options), "--", *asked.argv),
            executable=ground.bwrap,
            folder="/",
            environment=environment_of(names, isolated=True, home="/tmp"),  # noqa: S108 - a /tmp of its own
            descriptors=(options, *how.descriptors),
            joined=joined,
        )
        yield program, how.held_back
