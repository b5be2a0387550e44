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
import stat
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from temporalio import activity

from llm_do_temporal.activities.command_environment import Ground, run_on, search_path
from llm_do_temporal.activities.command_files import NamedFiles, readings
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.environment import ISOLATION_VARIABLE
from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.messages.activities import PREVIEW_COMMAND, RUN_COMMAND
from llm_do_temporal.messages.effects import CommandOutput, CommandPreview, ShellInput, ShellResult
from llm_do_temporal.messages.sizes import SHOWN_OUTPUT_BYTES
from llm_do_temporal.policy.files.sandbox import Place, Tree, join, locate, locate_all
from llm_do_temporal.policy.shell import Isolation, lies_in
from llm_do_temporal.sandbox.bubblewrap import IsolatedFolder, working_bwrap
from llm_do_temporal.sandbox.processes import KEPT_BYTES, Ended, Stream
from llm_do_temporal.sandbox.safe_open import WorkshopFolder
from llm_do_temporal.storage.blobs import BlobStore

_NOTE = "ran without isolation, which does not work on this machine"
_HELD_BACK = "too many files to look at or to mount; read-only here or hidden, though it need not be"
_SOMEBODY = "Somebody who runs the worker service has to change this; go on without commands."
_MAX_LISTED = 5
_LOOKED_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger(__name__)


class ShellActivities:
    """Commands in one workshop. `bwrap` finds what isolates them, for machines (and tests) that differ.

    `isolation` is what the worker service wants; a workshop can want more and not less.
    """

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        bwrap: Callable[[], str | None] = working_bwrap,
        *,
        isolation: Isolation = Isolation.PREFERRED,
    ) -> None:
        self._workshop = workshop.resolve()
        self._folder = WorkshopFolder(workshop)
        self._blobs = blobs
        self._bwrap = bwrap
        self._isolation = isolation
        self._named = NamedFiles(self._workshop)

    @activity.defn(name=PREVIEW_COMMAND.name)
    def preview_command(self, asked: ShellInput) -> CommandPreview:
        """Check all that `run_command` checks, without running the command. Fails like it."""
        with user_errors(), self._ground(asked, self._bwrap()) as ground:
            return CommandPreview(isolated=ground.bwrap is not None, files=self._named.found(asked))

    @activity.defn(name=RUN_COMMAND.name)
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
            ended, held_back = await run_on(ground, asked, home, lambda: self._check_as_shown(asked, ground))
            try:
                return await asyncio.to_thread(self._result, ended, ground, held_back)
            finally:
                ended.close()

    @contextmanager
    def _ground(self, asked: ShellInput, bwrap: str | None) -> Generator[Ground]:
        """Open the worker's folders, and check all that can be checked before the command runs."""
        if not asked.tree.mounts:
            raise SandboxRefusal("commands cannot run here: this worker has no file access")
        if bwrap is None:
            _check_unisolated(asked, self._isolation)
        with ExitStack() as opened:
            places = [Place(mount=m, relative=".", path=m.at) for m in asked.tree.mounts]
            if asked.sandbox_paths is not None:
                self._check_arguments(asked, asked.sandbox_paths, isolated=bwrap is not None)
            if asked.sandbox_paths is None or bwrap is None:
                folders = [self._opened(place, opened) for place in places]
            else:
                # All that is opened here a command can reach; what lies outside of these paths is not.
                folders = self._parts(asked.tree, asked.sandbox_paths, opened)
            _check_program(asked, bwrap)
            yield Ground(self._workshop, folders, bwrap)

    def _opened(self, place: Place, opened: ExitStack) -> IsolatedFolder:
        folder = opened.enter_context(self._folder.folder(place))
        return IsolatedFolder(
            descriptor=folder.descriptor,
            path=self._workshop / folder.in_workshop,
            place=place,
            in_workshop=folder.in_workshop,
        )

    def _parts(self, tree: Tree, allowed: Sequence[str], opened: ExitStack) -> list[IsolatedFolder]:
        """The parts of the tree at these virtual paths, each once; none for a path where there is nothing."""
        found: list[IsolatedFolder] = []
        for place in _outermost(tree, allowed):
            try:
                found.append(self._opened(place, opened))
            except EffectFailed:
                if (file := self._opened_file(place, opened)) is not None:
                    found.append(file)
        return found

    def _opened_file(self, place: Place, opened: ExitStack) -> IsolatedFolder | None:
        """The one file at `place`, itself and no link, or None where there is none."""
        above = PurePosixPath(place.relative).parent
        try:
            folder = self._opened(place.model_copy(update={"relative": str(above)}), opened)
            name = PurePosixPath(place.relative).name
            descriptor = os.open(name, _LOOKED_AT, dir_fd=folder.descriptor)
        except (EffectFailed, OSError):
            return None
        opened.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        in_workshop = join(folder.in_workshop, name)
        return IsolatedFolder(
            descriptor=descriptor, path=self._workshop / in_workshop, place=place, in_workshop=in_workshop
        )

    def _check_arguments(self, asked: ShellInput, allowed: tuple[str, ...], *, isolated: bool) -> None:
        """Raise SandboxRefusal where an argument names a file outside the rule's paths `allowed`, links followed.

        An isolated command finds no other file whatever its arguments say; the check only spares a useless question.
        Without isolation these are all of its files, and a link must not lead out of them to a file still to be made.
        """
        inside = [os.path.realpath(self._host_path(asked.tree, path)) for path in allowed]
        for word in asked.argv[asked.spelled :]:
            for name in readings(word):
                path = self._host_path(asked.tree, name if name.startswith("/") else f"{asked.cwd}/{name}")
                if (not isolated or os.path.lexists(path)) and not _is_inside(path, inside):
                    raise _outside(word, allowed)

    def _check_as_shown(self, asked: ShellInput, ground: Ground) -> None:
        """Raise ShownDiffers where the command would not run as it was shown."""
        if asked.expected_isolated is not None and asked.expected_isolated != (ground.bwrap is not None):
            raise ShownDiffers("isolation of commands is not as it was when this was shown", next_step="Try it again.")
        if asked.expected is not None:
            self._named.check(asked, asked.expected)

    def _host_path(self, tree: Tree, path: str) -> Path:
        try:
            place = locate(tree, path)
        except SandboxRefusal:
            return self._workshop / "\N{REPLACEMENT CHARACTER}"  # no file: policy has judged what looks like a path
        return self._workshop / place.mount.root / place.relative

    def _result(self, ended: Ended, ground: Ground, held_back: Sequence[str]) -> ShellResult:
        return ShellResult(
            exit_code=ended.exit_code,
            stdout=self._output(ended.stdout, ground),
            stderr=self._output(ended.stderr, ground),
            timed_out=ended.timed_out,
            isolated=ground.bwrap is not None,
            note=_NOTE if ground.bwrap is None else _held_back(held_back),
        )

    def _output(self, stream: Stream, ground: Ground) -> CommandOutput:
        real, virtual = ground.real
        text = _virtual(stream.head(SHOWN_OUTPUT_BYTES).decode(errors="replace"), real, virtual)
        if stream.total <= SHOWN_OUTPUT_BYTES:
            return CommandOutput(text=text, bytes=stream.total, kept_bytes=stream.kept)
        stream.file.seek(0)
        sha256, kept = self._blobs.put_stream(stream.file, KEPT_BYTES)
        return CommandOutput(text=text, bytes=stream.total, truncated=True, sha256=sha256, kept_bytes=kept)


def _check_unisolated(asked: ShellInput, wanted: Isolation) -> None:
    """Without isolation nothing holds a command to a part of the files, to read-only ones, or to several folders."""
    why = "isolation of commands (bubblewrap) does not work on this machine, and "
    if asked.settings.isolation is Isolation.REQUIRED:
        raise SandboxRefusal(
            f"commands cannot run here: {why}the workshop requires it (shell.isolation: required)",
            next_step=_SOMEBODY,
        )
    if wanted is Isolation.REQUIRED:
        raise SandboxRefusal(
            f"commands cannot run here: {why}the worker service requires it ({ISOLATION_VARIABLE}=required)",
            next_step=_SOMEBODY,
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
    if asked.sandbox_paths is not None and not all(lies_in(one.at, asked.sandbox_paths) for one in asked.tree.mounts):
        raise SandboxRefusal(
            f"this command cannot run here: {why}only isolation keeps it to the paths that its rule allows "
            f"(sandbox_paths: {', '.join(asked.sandbox_paths) or 'none'}), whatever its arguments or files name",
            next_step="Go on without it, or with the tools for files.",
        )


def _check_program(asked: ShellInput, bwrap: str | None) -> None:
    program = asked.argv[0]
    if "/" not in program and shutil.which(program, path=search_path(isolated=bwrap is not None)) is None:
        raise EffectFailed(
            f"there is no program '{program[:80]}' where this command would run",
            next_step="Use another one, or go on without it.",
        )


def _held_back(paths: Sequence[str]) -> str | None:
    if not paths:
        return None
    # Names are bytes; what is no UTF-8 cannot be part of a result.
    names = [os.fsencode(path).decode(errors="replace") for path in paths[:_MAX_LISTED]]
    listed = ", ".join(names) + (f" and {len(paths) - _MAX_LISTED} more" if len(paths) > _MAX_LISTED else "")
    return f"{_HELD_BACK}: {listed}"


def _outermost(tree: Tree, allowed: Sequence[str]) -> list[Place]:
    """Return the places of these virtual paths, without those below another; for `/` of several mounts, all mounts."""
    outer = [
        path for path in dict.fromkeys(allowed) if not any(path != one and lies_in(path, [one]) for one in allowed)
    ]
    places: list[Place] = []
    for path in outer:
        try:
            _virtual_path, found = locate_all(tree, path)
        except SandboxRefusal:
            continue  # outside of the worker's files
        places += found
    return places


def _is_inside(path: Path, folders: Sequence[str]) -> bool:
    return any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in folders)


def _outside(word: str, allowed: Sequence[str]) -> SandboxRefusal:
    return SandboxRefusal(
        f"'{word}' names a file outside the paths that this command may use: {', '.join(allowed) or 'none'}"
    )


def _virtual(text: str, real: str, virtual: str) -> str:
    """Return the text with the folder `real` of the host under its virtual name."""
    top = virtual.rstrip("/")
    text = re.sub(rf"(?<![\w.-]){re.escape(real)}(?=/\w)", lambda _: top, text)
    return re.sub(rf"(?<![\w.-]){re.escape(real)}(?![\w.-])", lambda _: virtual, text)
