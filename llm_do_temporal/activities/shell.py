"""The shell activities: run one command in the worker's files, and say beforehand what would be in its way.

Owns what only the machine knows: where the files are, whether commands can be isolated, whether the program
exists, where links among the arguments lead. Scheduled by workflow code, which has judged the command's text.
`run_command` is attempted once: it must not be retried by anybody but a person.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.failures import user_errors
from llm_do_temporal.activities.isolation import (
    SYSTEM_PATH,
    TOP,
    IsolatedFolder,
    isolation_options,
    options_file,
    working_bwrap,
)
from llm_do_temporal.activities.opening import WorkshopFolder
from llm_do_temporal.activities.processes import KEPT_BYTES, Ended, Program, Stream, run_program
from llm_do_temporal.blobs import BlobStore
from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages import CommandOutput, CommandPreview, ShellInput, ShellResult
from llm_do_temporal.policy.sandbox import Place, Tree, locate
from llm_do_temporal.policy.shell import Isolation

SHOWN_BYTES = 64 * 1024
"""How much of one stream a model is shown; both together stay far below what a history carries."""
_NOTE = "ran without isolation, which does not work on this machine"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Ground:
    """Where a command is to run."""

    folders: list[IsolatedFolder]
    bwrap: str | None

    @property
    def real(self) -> tuple[str, str]:
        """The real folder that commands see as the virtual one, in this order."""
        first = self.folders[0]
        return (TOP, "/") if self.bwrap else (str(first.path), first.place.path)


class ShellActivities:
    """Commands in one workshop. `bwrap` finds what isolates them, for machines (and tests) that differ."""

    def __init__(self, workshop: Path, blobs: BlobStore, bwrap: Callable[[], str | None] = working_bwrap) -> None:
        self._workshop = workshop.resolve()
        self._folder = WorkshopFolder(workshop)
        self._blobs = blobs
        self._bwrap = bwrap

    @activity.defn(name="preview_command")
    def preview_command(self, asked: ShellInput) -> CommandPreview:
        """Everything `run_command` checks, without running it. Fails like it."""
        with user_errors(), self._ground(asked, self._bwrap()) as ground:
            _environment(asked, ground, home="")
            return CommandPreview(isolated=ground.bwrap is not None)

    @activity.defn(name="run_command")
    async def run_command(self, asked: ShellInput) -> ShellResult:
        """Run the command until it ends, its time is over or it is cancelled; nothing of it is left afterwards.

        Fails with SandboxRefusal or EffectFailed where it may or can not run; whatever the program itself does,
        its exit code is a result.
        """
        bwrap = await asyncio.to_thread(self._bwrap)
        with (
            user_errors(),
            self._ground(asked, bwrap) as ground,
            tempfile.TemporaryDirectory(prefix="command-", ignore_cleanup_errors=True) as home,
        ):
            if ground.bwrap is None:
                _log.warning("'%s' %s", asked.argv[0][:80], _NOTE)
            ended = await _run(asked, ground, home)
            try:
                return await asyncio.to_thread(self._result, ended, ground)
            finally:
                ended.close()

    @contextmanager
    def _ground(self, asked: ShellInput, bwrap: str | None) -> Generator[_Ground]:
        """The worker's folders, open, and everything checked that can be before the command runs."""
        if not asked.tree.mounts:
            raise SandboxRefusal("commands cannot run here: this worker has no file access")
        if bwrap is None:
            _check_unisolated(asked)
        with ExitStack() as opened:
            folders = [self._opened(Place(mount=m, relative=".", path=m.at), opened) for m in asked.tree.mounts]
            ground = _Ground(folders, bwrap)
            if asked.sandbox_paths is not None:
                self._check_arguments(asked, asked.sandbox_paths)
            _check_program(asked, ground)
            yield ground

    def _opened(self, place: Place, opened: ExitStack) -> IsolatedFolder:
        folder = opened.enter_context(self._folder.folder(place))
        return IsolatedFolder(
            descriptor=folder.descriptor,
            path=self._workshop / folder.in_workshop,
            place=place,
            in_workshop=folder.in_workshop,
        )

    def _check_arguments(self, asked: ShellInput, allowed: tuple[str, ...]) -> None:
        """Among the arguments, whatever is a file must really lie in the rule's paths, links followed."""
        inside = [os.path.realpath(self._host_path(asked.tree, path)) for path in allowed]
        for argument in asked.argv[1:]:
            for name in _readings(argument):
                path = self._host_path(asked.tree, name if name.startswith("/") else f"{asked.cwd}/{name}")
                if os.path.lexists(path) and not any(
                    Path(os.path.realpath(path)).is_relative_to(folder) for folder in inside
                ):
                    raise SandboxRefusal(
                        f"'{argument}' names a file outside the paths that this command may use: "
                        f"{', '.join(allowed) or 'none'}"
                    )

    def _host_path(self, tree: Tree, path: str) -> Path:
        try:
            place = locate(tree, path)
        except SandboxRefusal:
            return self._workshop / "\N{REPLACEMENT CHARACTER}"  # no file: policy has judged what looks like a path
        return self._workshop / place.mount.root / place.relative

    def _result(self, ended: Ended, ground: _Ground) -> ShellResult:
        return ShellResult(
            exit_code=ended.exit_code,
            stdout=self._output(ended.stdout, ground),
            stderr=self._output(ended.stderr, ground),
            timed_out=ended.timed_out,
            isolated=ground.bwrap is not None,
            note=None if ground.bwrap is not None else _NOTE,
        )

    def _output(self, stream: Stream, ground: _Ground) -> CommandOutput:
        real, virtual = ground.real
        text = _virtual(stream.head(SHOWN_BYTES).decode(errors="replace"), real, virtual)
        if stream.total <= SHOWN_BYTES:
            return CommandOutput(text=text, bytes=stream.total, kept_bytes=stream.kept)
        stream.file.seek(0)
        sha256, kept = self._blobs.put_stream(stream.file, KEPT_BYTES)
        return CommandOutput(text=text, bytes=stream.total, truncated=True, sha256=sha256, kept_bytes=kept)


def _check_unisolated(asked: ShellInput) -> None:
    """Without isolation nothing holds a command to read-only files, or to several folders at once."""
    why = "isolation of commands (bubblewrap) does not work on this machine, and "
    if asked.settings.isolation is Isolation.REQUIRED:
        raise SandboxRefusal(
            f"commands cannot run here: {why}the workshop requires it (shell.isolation: required)",
            next_step="Somebody who runs the worker service has to change this; go on without commands.",
        )
    if any(mount.readonly for mount in asked.tree.mounts):
        raise SandboxRefusal(
            f"commands cannot run here: {why}only isolation keeps them from writing to read-only files",
            next_step="Go on without commands.",
        )
    if len(asked.tree.mounts) > 1:
        raise SandboxRefusal(
            f"commands cannot run here: {why}only isolation can show them several folders as one tree",
            next_step="Go on without commands.",
        )


def _check_program(asked: ShellInput, ground: _Ground) -> None:
    program = asked.argv[0]
    if "/" not in program and shutil.which(program, path=_search_path(ground)) is None:
        raise EffectFailed(
            f"there is no program '{program[:80]}' where this command would run",
            next_step="Use another one, or go on without it.",
        )


async def _run(asked: ShellInput, ground: _Ground, home: str) -> Ended:
    with _program(asked, ground, home) as program:
        try:
            return await run_program(program, timeout_seconds=asked.timeout_seconds)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
            raise EffectFailed(f"'{asked.argv[0][:80]}' cannot be run: {reason}") from error


@contextmanager
def _program(asked: ShellInput, ground: _Ground, home: str) -> Generator[Program]:
    if ground.bwrap is None:
        folder = str(ground.folders[0].path)
        yield Program(argv=asked.argv, folder=folder, environment=_environment(asked, ground, home))
        return
    with options_file(isolation_options(ground.folders, cwd=asked.cwd, network=asked.network)) as options:
        yield Program(
            argv=("bwrap", "--args", str(options), "--", *asked.argv),
            executable=ground.bwrap,
            folder="/",
            environment=_environment(asked, ground, "/tmp"),  # noqa: S108 - a /tmp of its own
            descriptors=(options, *(folder.descriptor for folder in ground.folders)),
        )


def _environment(asked: ShellInput, ground: _Ground, home: str) -> dict[str, str]:
    """All that a command sees of the environment; the worker service's own holds the keys of its models."""
    passed = {name: os.environ[name] for name in asked.settings.env if name in os.environ}
    return {"PATH": _search_path(ground), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **passed}


def _search_path(ground: _Ground) -> str:
    if ground.bwrap is not None:
        return SYSTEM_PATH
    # A relative entry would let a file that a model wrote stand in for a program.
    return os.pathsep.join(
        entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry.startswith("/")
    )


def _readings(argument: str) -> set[str]:
    """What a program may read as a path in one argument."""
    pieces = {argument, *re.split(r"[=:,@]", argument)}
    if argument.startswith("-") and not argument.startswith("--"):
        pieces.add(argument[2:])
    return {piece for piece in pieces if piece and "\0" not in piece}


def _virtual(text: str, real: str, virtual: str) -> str:
    """The text with a folder of the host called what the model knows it by."""
    top = virtual.rstrip("/")
    text = re.sub(rf"(?<![\w.-]){re.escape(real)}(?=/\w)", lambda _: top, text)
    return re.sub(rf"(?<![\w.-]){re.escape(real)}(?![\w.-])", lambda _: virtual, text)
