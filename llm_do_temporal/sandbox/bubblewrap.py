"""Commands in a sandbox of the operating system: bubblewrap, where the machine lets it work.

Owns what an isolated command sees. The system's programs and libraries, read-only; the worker's files below
`/llm-do`, at their virtual paths; an empty `/tmp`; nothing else of the machine, no other process, and no network
unless the worker has it. Called by the shell activity. Must not decide whether isolation is needed.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Place
from llm_do_temporal.sandbox.layers.overlay import LayerMount
from llm_do_temporal.sandbox.mounts import MountPlan, Steady, plan_mounts
from llm_do_temporal.sandbox.programs import InstalledProgram, find_bwrap

TOP = "/llm-do"
"""Folder of the worker's files as isolated commands see it."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROBE_SECONDS = 60
"""A cold start on a busy machine; it usually takes milliseconds."""
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "ssl/certs",
    "ssl/openssl.cnf",
)
_ETC_NETWORK = ("hosts", "resolv.conf", "services")
_TAKEN = frozenset({"bin", "sbin", "lib", "lib32", "lib64", "libx32", "dev", "etc", "proc", "tmp", "usr", TOP[1:]})
_MAX_LINKS = 500
"""Folders at the top of a tree that also get their virtual path; a command line must stay a command line."""
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent"),
)

_WAIT = """
left=10000
while [ $left -gt 0 ]; do
  left=$((left-1)) seen= open=
  for one in /proc/1/fd/*; do
    [ -L "$one" ] && seen=1
    [ -d "$one" ] && open=1
  done
  [ "$seen" ] && [ ! "$open" ] && break
done
unset left seen open one
exec "$@"
"""
"""Script that waits for the open folders of the first process; where nobody may see them at all, it goes on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IsolatedFolder:
    """Open mount of the worker's tree, or a part of one."""

    descriptor: int
    path: Path
    """The real folder, for commands that are not isolated."""
    place: Place
    in_workshop: str
    """Path of the folder below the workshop, links followed."""

    @property
    def workshop(self) -> Path:
        """The real folder of the workshop."""
        return Path(*self.path.parts[: len(self.path.parts) - len(Path(self.in_workshop).parts)])

    @property
    def inside(self) -> str:
        """Path of the folder as isolated commands see it."""
        return TOP if self.place.path == "/" else TOP + self.place.path


def working_bwrap() -> str | None:
    """The `bwrap` program, if commands can be isolated with it on this machine; tried once a process."""
    program = choose_bwrap().program
    return None if program is None else program.path


@dataclass(frozen=True)
class BwrapChoice:
    """Choice of the `bwrap` of this machine."""

    program: InstalledProgram | None
    """None where commands cannot be isolated."""
    passed_over: tuple[str, ...]
    """Programs that come before it and cannot be used, each with the reason."""


@cache
def choose_bwrap() -> BwrapChoice:
    """The first `bwrap` of this machine that works; tried once a process."""
    search = find_bwrap()
    passed_over = list(search.passed_over)
    reasons: list[str] = []
    for program in search.found:
        reason = _probe(program.path)
        if reason is None:
            return BwrapChoice(program, tuple(passed_over))
        passed_over.append(f"{program.path} {reason}")
        reasons.append(f"bwrap {program.version} {reason}")
    _log.warning("commands cannot be isolated: %s", "; ".join(reasons) or "there is no bwrap that can be used")
    return BwrapChoice(None, tuple(passed_over))


def _probe(bwrap: str) -> str | None:
    """Return the reason why commands cannot be isolated with it; None where they can."""
    probe = [bwrap, *_NAMESPACES, "--unshare-net", *_system(network=False), "--", "true"]
    try:
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {type(error).__name__}"
    if done.returncode != 0:
        return f"does not work on this machine: {done.stderr.decode(errors='replace').strip()[:200]}"
    return None


@dataclass(frozen=True)
class Isolated:
    """Options and open files with which `bwrap` isolates a command."""

    options: list[str]
    """Options of `bwrap`."""
    descriptors: tuple[int, ...]
    """Open files that it inherits."""
    held_back: tuple[str, ...]
    """Virtual paths that are read-only or hidden only because planning is bounded."""


@dataclass(frozen=True)
class SeenFolders:
    """Folders that a command sees, and no others."""

    folders: Sequence[IsolatedFolder]
    layered: Mapping[str, LayerMount] = field(default_factory=dict[str, LayerMount])
    """Mounts of those that are seen through a layer, by their virtual paths. What is written there becomes part of the
    layer, where definitions are reviewed by themselves, so of them nothing but the product's own state is held back."""
    judged: bool = False
    """Whether these take what is written for no layer, but for the real files: what defines is read-only there, too."""
    steady: Steady | None = None
    """Files that may be mounted by themselves; None: all."""


@contextmanager
def isolated(seen: SeenFolders, protection: Protection, *, cwd: str, network: bool) -> Generator[Isolated]:
    """Prepare the isolation of a command in the virtual folder `cwd`."""
    folders = seen.folders
    start = TOP if cwd == "/" else TOP + cwd
    options = [*_NAMESPACES, *(() if network else ("--unshare-net",)), *_system(network=network)]
    options += [*_covered({folder.workshop for folder in folders}, network=network), "--dir", start]
    descriptors: list[int] = []
    held_back: list[str] = []
    with ExitStack() as opened:
        for folder in folders:
            mount = seen.layered.get(folder.place.path)
            readonly = folder.place.mount.readonly
            judged = mount is not None and seen.judged
            plan = plan_mounts(
                folder.descriptor,
                folder.in_workshop,
                folder.inside,
                readonly=readonly or (mount is not None and not judged),
                protection=protection,
                opened=opened,
                steady=seen.steady,
                overlaid=judged,
            )
            if mount is not None and not (readonly and mount.is_unchanged):
                # Through a layer, hidden folders that are seen there are left; where `judged`, all mounted upon it.
                hidden = [one for one in plan.hidden if mount.shows_base(one.removeprefix(folder.inside).lstrip("/"))]
                binds = plan.binds if judged else []
                plan = MountPlan(binds=binds, hidden=hidden, held_back=[one for one in plan.held_back if one in hidden])
                options += mount.overlay.options(folder.descriptor, folder.inside, readonly=readonly)
                descriptors += [folder.descriptor] if mount.overlay.takes_base else []
            options += _mounted(folder, plan, None if mount is None else mount.names)
            descriptors += [bind.descriptor for bind in plan.binds]
            # Names of files need not be UTF-8, and a message can hold nothing else.
            names = (path.removeprefix(TOP) or "/" for path in plan.held_back)
            held_back += [os.fsencode(name).decode(errors="replace") for name in names]
        yield Isolated(
            options=[*options, "--remount-ro", "/", "--chdir", start],
            descriptors=tuple(descriptors),
            held_back=tuple(held_back),
        )


@contextmanager
def options_file(options: Sequence[str]) -> Generator[int]:
    """Descriptor of an open file with the options, for `bwrap --args`: a command can read its own command line."""
    with TemporaryFile() as file:
        file.write(b"".join(os.fsencode(option) + b"\0" for option in options))
        file.seek(0)
        yield file.fileno()


def alone(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command, to be started when no process that it sees has a folder of the machine open.

    The first process of its namespace is bubblewrap's own, which closes such folders at the same time as the command
    would start. Until that process gives up its rights nobody can look at its open files, so that this is waited for.
    """
    return ("/bin/sh", "-c", _WAIT, "sh", *argv)


def _system(*, network: bool) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
    for path in _etc(network=network):
        yield from ("--ro-bind-try", path, path)
    # The owner of a file below /proc/sys can write it without any capability, and root owns them all.
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    yield from ("--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108 - a /tmp of its own


def _etc(*, network: bool) -> list[str]:
    return [f"/etc/{name}" for name in (*_ETC, *(_ETC_NETWORK if network else ()))]


def _covered(workshops: Iterable[Path], *, network: bool) -> Iterator[str]:
    """Yield options that hide a workshop below a folder of the system: only its mounts are seen."""
    for workshop in sorted({one.resolve() for one in workshops}):
        for shown in ("/usr", *_SYSTEM_FOLDERS, *_etc(network=network)):
            real = Path(shown).resolve()
            if workshop.is_relative_to(real) and not (shown in _SYSTEM_FOLDERS and Path(shown).is_symlink()):
                at = str(Path(shown) / workshop.relative_to(real))
                yield from ("--tmpfs", at, "--remount-ro", at)


def _mounted(folder: IsolatedFolder, plan: MountPlan, names: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the options for the plan; `names` are those in the folder, None: the real folder has them."""
    for bind in plan.binds:
        yield from ("--bind-fd" if bind.writable else "--ro-bind-fd", str(bind.descriptor), bind.inside)
    for hidden in plan.hidden:
        yield from ("--tmpfs", hidden, "--remount-ro", hidden)
    # Virtual paths are absolute ones here too.
    if folder.place.path != "/":
        if folder.place.path.split("/")[1] not in _TAKEN:
            yield from ("--symlink", folder.inside, folder.place.path)
        return
    found = sorted(entry.name for entry in os.scandir(folder.descriptor)) if names is None else names
    for name in [name for name in found if name not in _TAKEN][:_MAX_LINKS]:
        yield from ("--symlink", f"{folder.inside}/{name}", f"/{name}")
