"""The activities that run commands of workers.

Owns what only the machine knows: where the files are, whether commands can be isolated, whether the program exists,
where links among the arguments lead. Scheduled by workflow code, which has judged the command's text. `run_command` is
attempted once: it must not be retried by anybody but a person.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.commands.environment import program_problem, run_on
from llm_do_temporal.activities.commands.grounds import NO_LAYERS, Ground, LayerGrounds, OpenFolders
from llm_do_temporal.activities.commands.named_files import NamedFiles, readings
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import in_thread, to_end
from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.environment import ISOLATION_VARIABLE
from llm_do_temporal.errors import (
    EffectFailed,
    LayerUnavailable,
    SandboxRefusal,
    ShownDiffers,
)
from llm_do_temporal.messages.activities import (
    PREVIEW_COMMAND,
    RUN_COMMAND,
    CommandOutput,
    CommandPreview,
    ShellInput,
    ShellResult,
)
from llm_do_temporal.messages.sizes import SHOWN_OUTPUT_BYTES
from llm_do_temporal.policy.files.sandbox import Tree, locate
from llm_do_temporal.policy.shell import Isolation, lies_in
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.overlay import scratch_folder
from llm_do_temporal.sandbox.layers.written_files import WrittenFiles
from llm_do_temporal.sandbox.processes import KEPT_BYTES, Ended, Stream
from llm_do_temporal.storage.blobs import BlobStore

_NOTE = "ran without isolation, which does not work on this machine"
_HELD_BACK = (
    "read-only here or hidden, though it need not be (there is too much to look at or to mount, a path is too long, or "
    "it changed while the command was about to begin)"
)
_NO_NEW_FILES = (
    "commands can change the files that are in {named}, but not make, rename or remove any there ({why}); make them "
    "with write_file, or give workers a folder of their own (`sandbox: {{root: files}}` in workshop.yaml)"
)
_SOMEBODY = "Somebody who runs the worker service has to change this; go on without commands."
_MAX_LISTED = 5
_SHOWN_CHARS = 300

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
        layers: LayerGrounds | None = None,
    ) -> None:
        """`layers` lays commands out over layers; None: as this machine can."""
        self._workshop = workshop.resolve()
        self._folders = OpenFolders(workshop)
        self._blobs = blobs
        self._layers = layers or LayerGrounds(workshop, blobs)
        self._bwrap = bwrap
        self._isolation = isolation
        self._named = NamedFiles(self._workshop, blobs)

    @activity.defn(name=PREVIEW_COMMAND.name)
    def preview_command(self, asked: ShellInput) -> CommandPreview:
        """Check all that `run_command` checks, without running the command. Fails like it."""
        with user_errors(), self._ground(asked, self._bwrap()) as ground:
            files = self._named.found(asked)
            return CommandPreview(isolated=ground.bwrap is not None, files=files, note=ground.no_new_files)

    @activity.defn(name=RUN_COMMAND.name)
    async def run_command(self, asked: ShellInput) -> ShellResult:
        """Run the command until it ends, its time is over or it is cancelled; nothing of it is left afterwards.

        Fails with SandboxRefusal or EffectFailed where it may or can not run, with LayerUnavailable where it cannot run
        over the layer; whatever the program itself does, its exit code is a result.
        """
        bwrap = await asyncio.to_thread(self._bwrap)
        with user_errors():
            async with in_thread(self._ground(asked, bwrap)) as ground, in_thread(scratch_folder()) as home:
                if ground.bwrap is None:
                    _log.warning("'%s' %s", asked.argv[0][:80], _NOTE)
                ended, held_back = await run_on(ground, asked, str(home), lambda: self._check_as_shown(asked, ground))
                try:
                    return await to_end(self._result, ended, ground, held_back, asked)
                finally:
                    ended.close()

    @contextmanager
    def _ground(self, asked: ShellInput, bwrap: str | None) -> Generator[Ground]:
        """Open the worker's folders, and check all that can be checked before the command runs."""
        if not asked.tree.mounts:
            raise SandboxRefusal("commands cannot run here: this worker has no file access")
        if asked.layer is not None:
            with self._layers.ground(asked, asked.layer.carried, bwrap) as ground:
                _check_program(asked, bwrap)
                yield ground
            return
        if bwrap is None:
            _check_unisolated(asked, self._isolation)
        with ExitStack() as opened:
            if asked.sandbox_paths is not None:
                self._check_arguments(asked, asked.sandbox_paths, isolated=bwrap is not None)
            if asked.sandbox_paths is None or bwrap is None:
                folders = self._folders.whole(asked.tree, opened)
            else:
                # All that is opened here a command can reach; what lies outside of these paths is not.
                folders = self._folders.parts(asked.tree, asked.sandbox_paths, opened)
            _check_program(asked, bwrap)
            yield self._judged(Ground(self._workshop, folders, bwrap), opened)

    def _judged(self, ground: Ground, opened: ExitStack) -> Ground:
        """Return the ground with an overlay over the folders to which nothing may be added, where there are any."""
        protection = protection_of(self._workshop)
        closed = [
            folder
            for folder in ground.folders
            if not folder.place.mount.readonly
            and protection.may_define(folder.in_workshop)
            and not protection.protects(folder.in_workshop)
            and stat.S_ISDIR(os.fstat(folder.descriptor).st_mode)
        ]
        if ground.bwrap is None or not closed:
            return ground
        try:
            return opened.enter_context(self._layers.judged(ground, closed))
        except LayerUnavailable as error:
            named = ", ".join(f"'{folder.place.path}'" for folder in closed[:_MAX_LISTED])
            return replace(
                ground, no_new_files=_NO_NEW_FILES.format(named=named, why=error.message.removeprefix(f"{NO_LAYERS}: "))
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
                real = Path(os.path.realpath(path))
                if (not isolated or os.path.lexists(path)) and not any(real.is_relative_to(one) for one in inside):
                    raise SandboxRefusal(
                        f"'{word}' names a file outside the paths that this command may use: "
                        f"{', '.join(allowed) or 'none'}"
                    )

    def _check_as_shown(self, asked: ShellInput, ground: Ground) -> None:
        """Raise ShownDiffers where the command would not run as it was shown."""
        if asked.expected_isolated is not None and asked.expected_isolated != (ground.bwrap is not None):
            raise ShownDiffers("the isolation of commands has changed since it was shown", next_step="Try it again.")
        if asked.expected is not None:
            self._named.check(asked, asked.expected)

    def _host_path(self, tree: Tree, path: str) -> Path:
        try:
            place = locate(tree, path)
        except SandboxRefusal:
            return self._workshop / "\N{REPLACEMENT CHARACTER}"  # no file: policy has judged what looks like a path
        return self._workshop / place.mount.root / place.relative

    def _result(self, ended: Ended, ground: Ground, held_back: Sequence[str], asked: ShellInput) -> ShellResult:
        notes = [_NOTE if ground.bwrap is None else _held_back(held_back), ground.no_new_files]
        taken = None
        if ground.over is not None and asked.layer is not None:
            taken, note = self._layers.taken(ground.over, asked.layer)
            notes.append(note)
        elif ground.over is not None and ground.judged_since is not None:
            points = frozenset(folder.place.path for folder in ground.folders)
            protection = protection_of(self._workshop)
            written = WrittenFiles(self._workshop, asked.tree, protection, ground.judged_since, points)
            notes.append(written.take(ground.over))
        return ShellResult(
            exit_code=ended.exit_code,
            stdout=self._output(ended.stdout, ground),
            stderr=self._output(ended.stderr, ground),
            timed_out=ended.timed_out,
            isolated=ground.bwrap is not None,
            note="; ".join(note for note in notes if note) or None,
            layer=taken,
        )

    def _output(self, stream: Stream, ground: Ground) -> CommandOutput:
        text = ground.virtual(stream.head(SHOWN_OUTPUT_BYTES).decode(errors="replace"))
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
    problem = program_problem(asked.argv[0], isolated=bwrap is not None)
    if problem is not None:
        raise EffectFailed(problem, next_step="Use another one, or go on without it.")


def _held_back(paths: Sequence[str]) -> str | None:
    if not paths:
        return None
    # Names are bytes; what is no UTF-8 cannot be part of a result.
    names = [_shortened(os.fsencode(path).decode(errors="replace")) for path in paths[:_MAX_LISTED]]
    listed = ", ".join(names) + (f" and {len(paths) - _MAX_LISTED} more" if len(paths) > _MAX_LISTED else "")
    return f"{_HELD_BACK}: {listed}"


def _shortened(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARS else f"{path[:_SHOWN_CHARS]}…"
