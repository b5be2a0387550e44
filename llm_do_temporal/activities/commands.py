"""The activities that run commands of workers: what a command may reach, what isolates it, and what it leaves.

Owns what only the machine knows: where the files are, whether commands can be isolated, whether the program exists,
where links among the arguments lead. Scheduled by workflow code, which has judged the command's text. `run_command` is
attempted once: it must not be retried by anybody but a person.
"""

from __future__ import annotations

import asyncio
import logging
import os
import posixpath
import re
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from temporalio import activity

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
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.messages.sizes import SHOWN_OUTPUT_BYTES
from llm_do_temporal.policy.files.sandbox import Place, Tree, join, locate, locate_all, locate_in_workshop
from llm_do_temporal.policy.identity import SeenFile, digest_of, real_place
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer, LayerUpdate, NodeKind, below, parent_of
from llm_do_temporal.policy.layers.view import LayerView
from llm_do_temporal.policy.shell import Isolation, lies_in
from llm_do_temporal.sandbox.bubblewrap import (
    SYSTEM_PATH,
    TOP,
    IsolatedFolder,
    SeenFolders,
    alone,
    isolated,
    options_file,
    working_bwrap,
)
from llm_do_temporal.sandbox.changes import check_as_shown, see_file
from llm_do_temporal.sandbox.layers.command_folders import CommandFolders, FolderLayout, split_note
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.layers.files import LayeredFiles
from llm_do_temporal.sandbox.layers.overlay import KeptLowers, LayerMount, base_problem, overlay_problem, scratch_folder
from llm_do_temporal.sandbox.layers.written_files import WrittenFiles
from llm_do_temporal.sandbox.mounts import Steady
from llm_do_temporal.sandbox.processes import KEPT_BYTES, Ended, ProcessSpec, Stream, run_program
from llm_do_temporal.sandbox.programs import GIT_HABITS, git_settings
from llm_do_temporal.sandbox.safe_open import FileOpener, WorkshopFolder
from llm_do_temporal.storage.blobs import BlobStore

_LOOKED_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Ground:
    """Folders and isolation that a command is to run with."""

    workshop: Path
    folders: list[IsolatedFolder]
    """All folders that the command may reach; without isolation, the first is its working folder."""
    bwrap: str | None
    """Path of the program that isolates the command; None: it runs without isolation."""
    over: CommandFolders | None = None
    """Folders among these that are seen through an overlay; None: all are the real ones."""
    judged_since: float | None = None
    """Time, as `time.time()`, at which these were laid out, where no layer takes what the command writes, and the real
    files take what `write_file` may write; None: there is a layer, or no overlay."""
    no_new_files: str = ""
    """Reason why the command can make no files in some of the folders, and what to do; empty where it can."""

    @property
    def mounts(self) -> Mapping[str, LayerMount]:
        """Mounts of the folders that are seen through a layer, by virtual path."""
        return {} if self.over is None else self.over.mounts

    def virtual(self, text: str) -> str:
        """Return what a command wrote with its folder under its virtual name."""
        first = self.folders[0]
        real, virtual = (TOP, "/") if self.bwrap is not None else (str(first.path), first.place.path)
        top = virtual.rstrip("/")
        text = re.sub(rf"(?<![\w.-]){re.escape(real)}(?=/\w)", lambda _: top, text)
        return re.sub(rf"(?<![\w.-]){re.escape(real)}(?![\w.-])", lambda _: virtual, text)


class OpenFolders:
    """Real folders of one workshop, opened for commands."""

    def __init__(self, workshop: Path) -> None:
        self._workshop = workshop
        self._folder = WorkshopFolder(workshop)

    def whole(self, tree: Tree, opened: ExitStack) -> list[IsolatedFolder]:
        """Open all folders of a tree."""
        return [self._opened(place, opened) for place in mounted_places(tree)]

    def _opened(self, place: Place, opened: ExitStack) -> IsolatedFolder:
        folder = opened.enter_context(self._folder.folder(place))
        return IsolatedFolder(
            descriptor=folder.descriptor,
            path=self._workshop / folder.in_workshop,
            place=place,
            in_workshop=folder.in_workshop,
        )

    def parts(self, tree: Tree, allowed: Sequence[str], opened: ExitStack) -> list[IsolatedFolder]:
        """Open the parts of the tree at these virtual paths, each once; none for a path where there is nothing."""
        found: list[IsolatedFolder] = []
        for place in outermost_places(tree, allowed):
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


def mounted_places(tree: Tree) -> list[Place]:
    """Return the places of all mounts of a tree."""
    return [Place(mount=mount, relative=".", path=mount.at) for mount in tree.mounts]


def outermost_places(tree: Tree, allowed: Sequence[str]) -> list[Place]:
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


NO_LAYERS = "commands cannot work on changes that are not made yet"
_known_problem = cache(overlay_problem)


class LayerGrounds:
    """Grounds of commands over layers in one workshop."""

    def __init__(
        self, workshop: Path, blobs: BlobStore, problem: Callable[[str | None], str | None] | None = None
    ) -> None:
        """`problem` returns the reason why commands have no layers with a `bwrap`, for machines (and tests) that
        differ; None: it is found by trying, once a process."""
        self._workshop = workshop.resolve()
        self._blobs = blobs
        self._contents = LayerContents(blobs)
        self._problem = problem or _known_problem
        self._fit: set[int] = set()
        self._kept = KeptLowers()

    @contextmanager
    def ground(self, asked: ShellInput, carried: CarriedLayer, bwrap: str | None) -> Generator[Ground]:
        """Lay the worker's folders out over the layer. Raises LayerUnavailable where that is not possible."""
        self._check_problem(bwrap)
        layer = self._contents.whole(carried)
        # All that is laid out here a command can reach; what lies outside of these places is not.
        paths = asked.sandbox_paths
        places = mounted_places(asked.tree) if paths is None else outermost_places(asked.tree, paths)
        with self._laid_out(layer, places, bwrap) as over:
            if paths is None and len(over.parts) < len(places):
                there = {folder.place.path for folder in over.folders}
                missing = next(place.path for place in places if place.path not in there)
                raise EffectFailed(f"the folder '{missing}' does not exist")
            yield Ground(self._workshop, over.folders, bwrap, over)

    @contextmanager
    def judged(self, ground: Ground, closed: Sequence[IsolatedFolder]) -> Generator[Ground]:
        """Lay an overlay over the `closed` ones of the folders. Raises LayerUnavailable where that is not possible."""
        self._check_problem(ground.bwrap)
        since = time.time()
        with self._laid_out(NO_LAYER, [folder.place for folder in closed], ground.bwrap) as over:
            laid = {folder.place.path: folder for folder in over.folders}
            folders = [laid.get(folder.place.path, folder) for folder in ground.folders]
            yield replace(ground, folders=folders, over=over, judged_since=since)

    @contextmanager
    def _laid_out(self, layer: Layer, places: Sequence[Place], bwrap: str | None) -> Generator[CommandFolders]:
        layout = FolderLayout(self._workshop, self._blobs, lambda base: self._check_base(bwrap, base), self._kept)
        with (
            base_files(self._workshop, contents=self._contents) as base,
            layout.laid_out(layer, base, places) as over,
        ):
            yield over

    def taken(self, over: CommandFolders, work: LayerWork) -> tuple[LayerUpdate, str]:
        """Return what a command has changed in the layer, and a remark on that; empty for none.

        Where it left behind what no layer can hold, nothing has changed, and the remark says so.
        """
        try:
            layer, split = over.read_back(work.author)
        except SandboxRefusal as refusal:
            return LayerUpdate(), f"{refusal.message}. {refusal.next_step or ''}".strip()
        return self._contents.update_of(work.carried, over.layer, layer), split_note(split)

    def close(self) -> None:
        """Remove what is kept for further commands."""
        self._kept.close()

    def _check_problem(self, bwrap: str | None) -> None:
        problem = self._problem(bwrap)
        if bwrap is None or problem is not None:
            raise LayerUnavailable(f"{NO_LAYERS}: {problem}")

    def _check_base(self, bwrap: str | None, base: int) -> None:
        device = os.fstat(base).st_dev
        if bwrap is None or device in self._fit:
            return
        problem = base_problem(bwrap, base)
        if problem is not None:
            raise LayerUnavailable(f"{NO_LAYERS}: {problem}")
        self._fit.add(device)


MAX_NAMED = 1000
"""Most names that the words of one command may have; a command has some ten."""
_FILE_ADDRESS = re.compile(r"file:(?://[^/]*(?=/))?", re.IGNORECASE)
_AFTER_NAME = re.compile(r"[?#\[]")
"""Begin of text after a name: the rest of an address or, for programs for pictures, the number of a page."""
_RUN_SUFFIXES = (".js", ".mjs", ".cjs", ".json", ".tex")
"""Suffixes that programs add to a name that is not there; files with any other suffix are not compared."""
_OUTSIDE = "outside-of-the-workshop"
_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(cwd|root)(?=/|$)")


class _Files(Protocol):
    """Files of a workshop, real or as a layer has them."""

    @property
    def opener(self) -> FileOpener:
        """Way to a file of a tree."""
        ...

    def real(self, path: str) -> str:
        """Return an absolute path of the host with all links followed; nothing need be there."""
        ...


class _RealFiles:
    """Files of a workshop as they are."""

    def __init__(self, workshop: Path) -> None:
        self.opener = WorkshopFolder(workshop)

    def real(self, path: str) -> str:
        return os.path.realpath(path)


class _LayerFiles:
    """Files of a workshop as a layer has them."""

    def __init__(self, workshop: Path, work: LayerWork, contents: LayerContents, base: BaseFiles) -> None:
        self.opener = LayeredFiles(workshop, work, contents)
        self._workshop = PurePosixPath(workshop)
        self._view = LayerView(contents.whole(work.carried), base)

    def real(self, path: str) -> str:
        """See _Files. A link out of the workshop comes to a name of its own for each of its texts."""
        led_to = ""
        for part in PurePosixPath(path).relative_to(self._workshop).parts:
            if part == "..":
                led_to = parent_of(led_to)
                continue
            spelled = below(led_to, part)
            try:
                led_to = self._view.followed(spelled)
            except (OSError, SandboxRefusal):
                target = self._target(spelled)
                if target is not None:
                    return f"/{_OUTSIDE}/{digest_of(target)}"
                led_to = spelled  # no name that a file of a layer can have
        return str(self._workshop / led_to)

    def _target(self, path: str) -> str | None:
        """Return the text of the link at the path; None where there is none."""
        with suppress(OSError, SandboxRefusal):
            node = self._view.look(path)
            return None if node is None or node.kind is not NodeKind.LINK else node.target
        return None


class NamedFiles:
    """Files that commands in one workshop name."""

    def __init__(self, workshop: Path, blobs: BlobStore) -> None:
        self._workshop = workshop.resolve()
        self._contents = LayerContents(blobs)

    def found(self, asked: ShellInput) -> tuple[SeenFile, ...]:
        """The regular files of the tree that the words name, as they are now, and all else that a link leads away from.

        Raises SandboxRefusal where there are too many names to look at: those left out would be held to nothing.
        """
        names = sorted({name for word in asked.argv for name in _names(word)})
        if len(names) > MAX_NAMED:
            raise SandboxRefusal(
                f"the command has {len(names)} words and parts of words that may name files; at most {MAX_NAMED} are "
                "looked at before it is asked about",
                next_step="Use fewer words: several commands, or a file with the list.",
            )
        seen: dict[str, SeenFile] = {}
        with self._files(asked.layer) as files:
            for name in (*names, *_completed(asked.argv)):
                path = name if name.startswith("/") else f"{asked.cwd}/{name}"
                for place in self._places(asked.tree, path, asked.cwd, files):
                    seen[place.path] = self._seen(place, files)
        return tuple(one for one in seen.values() if one.sha256 is not None or one.place is not None)

    def check(self, asked: ShellInput, expected: tuple[SeenFile, ...]) -> None:
        """Raise ShownDiffers where the files are not those, or not as they were."""
        before = {one.path: one for one in expected}
        now = {one.path: one for one in self.found(asked)}
        for path in (*before, *now):
            there = SeenFile(path=path, place=real_place(asked.tree, path))
            check_as_shown(before.get(path) or there, now.get(path) or there)

    @contextmanager
    def _files(self, work: LayerWork | None) -> Generator[_Files]:
        if work is None:
            yield _RealFiles(self._workshop)
            return
        with base_files(self._workshop) as base:
            yield _LayerFiles(self._workshop, work, self._contents, base)

    def _seen(self, place: Place, files: _Files) -> SeenFile:
        """The file at a place; of a folder, or where nothing is yet, the real place if a link leads elsewhere."""
        seen = see_file(files.opener, place)
        if seen.sha256 is not None:
            return seen
        spelled = self._workshop / place.mount.root / place.relative
        real = files.real(str(spelled))
        if real == os.path.normpath(spelled):
            return SeenFile(path=place.path)
        if PurePosixPath(real).is_relative_to(self._workshop):
            return SeenFile(path=place.path, place=os.path.relpath(real, self._workshop))
        # Nobody is told the paths of the machine.
        return SeenFile(path=place.path, place=f"../{digest_of(os.fsencode(real).hex())[:32]}")

    def _places(self, tree: Tree, path: str, cwd: str, files: _Files) -> Iterator[Place]:
        """Return the places of a path: as spelled, as the kernel follows it, and by other names of the same folder."""
        path = re.sub(r"/(?:\.?/)*", "/", path)
        process = _PROCESS.match(posixpath.normpath(path))
        if process is not None:
            path = _PROCESS.sub(cwd if process[1] == "cwd" else "", posixpath.normpath(path)) or "/"
        elif path.startswith(f"{TOP}/"):
            path = path.removeprefix(TOP)
        elif PurePosixPath(path).is_relative_to(self._workshop):
            yield from self._really(tree, path, files)
        with suppress(SandboxRefusal):
            yield locate(tree, re.sub("^/+", "/", posixpath.normpath(path)))
        head, back, rest = path.partition("/../")
        if back:
            # `..` behind a link is the folder above the one that the link leads to.
            with suppress(SandboxRefusal):
                place = locate(tree, head or "/")
                above = self._workshop / place.mount.root / place.relative
                yield from self._really(tree, f"{above}/../{rest}", files)

    def _really(self, tree: Tree, path: str, files: _Files) -> Iterator[Place]:
        """Return the place in the tree that a path of the host leads to."""
        real = PurePosixPath(files.real(path))
        with suppress(SandboxRefusal, ValueError):
            place = locate_in_workshop(tree, str(real.relative_to(self._workshop)))
            if place is not None:
                yield place


def readings(argument: str) -> set[str]:
    """Yield the parts of one argument that a program may read as a path."""
    pieces = {argument, *re.split(r"[=:,@]", argument)}
    if _is_short_option(argument):
        pieces.add(argument[2:])
    if address := _FILE_ADDRESS.search(argument):
        pieces |= {argument[address.end() :], unquote(argument[address.end() :])}
    pieces |= {_AFTER_NAME.split(piece, maxsplit=1)[0] for piece in pieces}
    return {piece for piece in pieces if piece and "\0" not in piece}


def _names(argument: str) -> set[str]:
    """The readings of an argument, and all that may be glued to several short options."""
    glued = {argument[start:] for start in range(2, len(argument))} if _is_short_option(argument) else set[str]()
    return readings(argument) | {piece for piece in glued if "\0" not in piece}


def _completed(argv: Iterable[str]) -> Iterator[str]:
    """Names that a program makes of a word when nothing is called like it."""
    for word in argv:
        if not word.startswith("-") and "\0" not in word and word and not PurePosixPath(word).suffix:
            yield from (f"{word}{suffix}" for suffix in _RUN_SUFFIXES)


def _is_short_option(argument: str) -> bool:
    return argument.startswith("-") and not argument.startswith("--")


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
            try:
                timeout = asked.timeout_seconds if seconds is None else seconds
                ended = await run_program(prepared.program, timeout_seconds=timeout)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
                raise EffectFailed(f"'{asked.argv[0][:80]}' cannot be run: {reason}") from error
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
    texts = [os.fsencode(path).decode(errors="replace") for path in paths[:_MAX_LISTED]]
    names = [text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…" for text in texts]
    listed = ", ".join(names) + (f" and {len(paths) - _MAX_LISTED} more" if len(paths) > _MAX_LISTED else "")
    return f"{_HELD_BACK}: {listed}"
