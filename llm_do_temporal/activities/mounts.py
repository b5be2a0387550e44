"""Which parts of a folder an isolated command may change: a plan of mounts, made from the real files.

Owns the one rule: what defines (`Protection`) is read-only for commands, no command makes a new definition, and none
puts one in the place of another by renaming a folder above it. So each folder is one of

- read-only: it defines as a whole, or could not be looked into;
- closed: something in it defines, or what is made in it could. Its entries are fixed: the folder is read-only, and the
  files and open folders in it are mounted upon it, writable each;
- pinned: only the state of other tools (`.git`) lies in it or below. It is writable, that state is read-only, and the
  folders on the way to it are mounted upon themselves, as a mount point cannot be renamed;
- open: writable as a whole.

Everything is reached through descriptors and without following a link, and mounted by the descriptor that was looked
at. Looking is bounded; what is not reached is read-only. Called by `isolation`. Must not start anything.
"""

from __future__ import annotations

import os
import resource
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice

from llm_do_temporal.policy.protection import RESERVED_FOLDERS, Protection, folded
from llm_do_temporal.policy.sandbox import STATE_FOLDER, join

MAX_ENTRIES = 100_000
"""How many files and folders are looked at before a command; that takes about half a second."""
MAX_DEPTH = 100
"""How deep, for the same reason."""
MAX_BINDS = 200
"""How many entries are mounted by themselves, those further up first: each is an open file and a mount."""
_SHARE_OF_FILES = 16
"""One command takes at most this part of the files that the process may have open."""
_LOOKED_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Access(IntEnum):
    """What commands may do with an entry, the freest first."""

    OPEN = 0
    PINNED = 1
    RESERVED = 2
    """Read-only, and held in its place by a mount upon it."""
    CLOSED = 3
    READ_ONLY = 4
    UNKNOWN = 5
    """Read-only, because it was not looked into."""


@dataclass(frozen=True)
class _Entry:
    """One file or folder that was looked at."""

    name: str
    access: _Access
    identity: tuple[int, int]
    mode: int
    children: tuple[_Entry, ...] = ()
    """Of closed and pinned folders; of others nothing is remembered."""


@dataclass(frozen=True)
class Bind:
    """One mount: an open file or folder, and where a command sees it."""

    descriptor: int
    inside: str
    writable: bool


@dataclass
class MountPlan:
    """What is mounted of one folder, in this order."""

    binds: list[Bind] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Folders of which commands see nothing, over the binds."""
    held_back: list[str] = field(default_factory=list)
    """What is read-only only because looking and mounting are bounded, as paths inside."""


@dataclass
class _Look:
    """One look through a tree, and how much of it is left."""

    protection: Protection
    entries: int


@dataclass
class _Mounting:
    """A plan being made, and what may still be opened for it."""

    plan: MountPlan
    opened: ExitStack
    left: int

    def open(self, child: _Entry, folder: int) -> int | None:
        """The entry, open, if it is still what was looked at and there is room for it."""
        if self.left <= 0:
            return None
        try:
            descriptor = os.open(child.name, _LOOKED_AT, dir_fd=folder)
        except OSError:
            return None
        self.opened.callback(os.close, descriptor)
        self.left -= 1
        facts = os.fstat(descriptor)
        return descriptor if (facts.st_dev, facts.st_ino) == child.identity else None


def plan_mounts(
    descriptor: int, in_workshop: str, inside: str, *, readonly: bool, protection: Protection, opened: ExitStack
) -> MountPlan:
    """How the file or folder `descriptor`, `in_workshop` below the workshop, is mounted at `inside`.

    What is opened for it stays open as long as `opened`.
    """
    plan = MountPlan()
    facts = os.fstat(descriptor)
    if readonly or protection.protects(in_workshop):
        entry = _entry("", _Access.READ_ONLY, facts)
    elif stat.S_ISDIR(facts.st_mode):
        entry = _looked_through("", descriptor, in_workshop, _Look(protection, MAX_ENTRIES), 0)
    else:
        entry = _entry("", _Access.OPEN, facts)
    mounting = _Mounting(plan, opened, most_binds())
    if entry.access is _Access.PINNED:
        plan.binds += _pinned(entry, descriptor, inside, mounting)
    else:
        plan.binds.append(Bind(descriptor, inside, writable=entry.access is _Access.OPEN))
    if entry.access is _Access.CLOSED:
        _mount_upon_closed(entry, descriptor, inside, mounting)
    if entry.access is _Access.UNKNOWN:
        plan.held_back.append(inside)
    if in_workshop == ".":
        plan.hidden += _state_folders(descriptor, inside)
    return plan


def most_binds() -> int:
    """How many entries one command can have mounted by themselves."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_BINDS if soft == resource.RLIM_INFINITY else min(MAX_BINDS, soft // _SHARE_OF_FILES)


def _state_folders(descriptor: int, inside: str) -> Iterator[str]:
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if folded(entry.name) == (STATE_FOLDER,) and entry.is_dir(follow_symlinks=False):
                yield f"{inside}/{entry.name}"


def _looked_through(name: str, descriptor: int, path: str, look: _Look, depth: int) -> _Entry:
    """The folder and what is in it, as far down as anything in it is not simply open."""
    facts = os.fstat(descriptor)
    with os.scandir(descriptor) as entries:
        names = sorted(entry.name for entry in islice(entries, look.entries + 1))
    look.entries -= len(names)
    if look.entries < 0:
        return _entry(name, _Access.UNKNOWN, facts)
    children: list[_Entry] = []
    for one in names:
        children.append(_looked_at(one, descriptor, join(path, one), look, depth))
        if look.entries < 0:
            break  # what was not looked at stays as it is in a folder that is closed
    worst = max((child.access for child in children), default=_Access.OPEN)
    if worst >= _Access.CLOSED or look.protection.may_define(path):
        return _entry(name, _Access.CLOSED, facts, tuple(children))
    if worst is _Access.OPEN:
        return _entry(name, _Access.OPEN, facts)
    return _entry(name, _Access.PINNED, facts, tuple(children))


def _looked_at(name: str, folder: int, path: str, look: _Look, depth: int) -> _Entry:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        # Gone meanwhile: nothing to mount, and what comes next at this name was not looked at.
        return _Entry(name, _Access.READ_ONLY, (0, 0), 0)
    is_folder = stat.S_ISDIR(facts.st_mode)
    if look.protection.protects(path):
        # A link cannot be held in its place by a mount.
        reserved = folded(name)[0] in RESERVED_FOLDERS and (is_folder or stat.S_ISREG(facts.st_mode))
        return _entry(name, _Access.RESERVED if reserved else _Access.READ_ONLY, facts)
    if not is_folder:
        return _entry(name, _Access.OPEN, facts)
    if depth >= MAX_DEPTH:
        return _entry(name, _Access.UNKNOWN, facts)
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return _entry(name, _Access.UNKNOWN, facts)
    try:
        return _looked_through(name, descriptor, path, look, depth + 1)
    finally:
        os.close(descriptor)


def _mount_upon_closed(top: _Entry, descriptor: int, inside: str, mounting: _Mounting) -> None:
    """Mount what is writable upon closed folders, those further up first."""
    plan = mounting.plan
    waiting = deque([(top, descriptor, inside)])
    while waiting:
        folder, folder_descriptor, where = waiting.popleft()
        for child in folder.children:
            at = f"{where}/{child.name}"
            if child.access is _Access.UNKNOWN:
                plan.held_back.append(at)
            # A link, a socket or a pipe keeps its place in the read-only folder.
            if not _differs_from_closed(child) or not (stat.S_ISDIR(child.mode) or stat.S_ISREG(child.mode)):
                continue
            found = mounting.open(child, folder_descriptor)
            if found is None:
                plan.held_back.append(at)
            elif child.access is _Access.CLOSED:
                waiting.append((child, found, at))
            elif child.access is _Access.PINNED:
                plan.binds += _pinned(child, found, at, mounting)
            else:
                plan.binds.append(Bind(found, at, writable=True))


def _differs_from_closed(entry: _Entry) -> bool:
    """Whether anything there is writable, or was not looked into."""
    if entry.access is _Access.CLOSED:
        return any(_differs_from_closed(child) or child.access is _Access.UNKNOWN for child in entry.children)
    return entry.access in (_Access.OPEN, _Access.PINNED)


def _pinned(entry: _Entry, descriptor: int, inside: str, mounting: _Mounting) -> list[Bind]:
    """The folder, writable, with what is reserved mounted upon it; read-only as a whole where that cannot be done."""
    binds = [Bind(descriptor, inside, writable=True)]
    for child in entry.children:
        if child.access is _Access.OPEN:
            continue
        at = f"{inside}/{child.name}"
        found = mounting.open(child, descriptor)
        if found is None:
            mounting.plan.held_back.append(inside)
            return [Bind(descriptor, inside, writable=False)]
        if child.access is _Access.PINNED:
            binds += _pinned(child, found, at, mounting)
        else:
            binds.append(Bind(found, at, writable=False))
    return binds


def _entry(name: str, access: _Access, facts: os.stat_result, children: tuple[_Entry, ...] = ()) -> _Entry:
    return _Entry(name, access, (facts.st_dev, facts.st_ino), facts.st_mode, children)
