"""Mounts of a folder for an isolated command: which parts it may change, planned from the real files.

Owns the one rule: what defines (`Protection`) is read-only for commands, no command makes a new definition, and none
puts one in the place of another by renaming a folder above it. So each folder is one of

- read-only: it defines as a whole;
- closed: something in it defines, or what is made in it could. Its entries are fixed: the folder is read-only, and the
  files and open folders in it are mounted upon it, writable each;
- pinned: only the state of other tools (`.git`) lies in it or below. It is writable, that state is read-only, and the
  folders on the way to it are mounted upon themselves, as a mount point cannot be renamed;
- open: writable as a whole.

Where a closed folder lies under an overlay, whose work is judged once the command has ended, what defines is mounted
upon the overlay, read-only, and single files need no mounts.

Upon all of these, wherever they lie, the product's own state folders are hidden, and so are folders that could not be
looked into, as there may be such state in them. Outside of the folders that are for what workers write, all is closed.

All files are reached through descriptors and without following a link, and mounted by the descriptor that was looked
at. Looking is bounded. Called by `bubblewrap`. Must not start anything.
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

from llm_do_temporal.policy.files.protection import RESERVED_FOLDERS, Protection, folded
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, join

MAX_ENTRIES = 100_000
"""Most files and folders that are looked at before a command; that takes about half a second."""
MAX_DEPTH = 100
"""Most levels of folders that are looked at, for the same reason."""
MAX_PATH_BYTES = 2_000
"""Longest path below the workshop of a folder that is looked into: with its real place before it, the system takes it
as one path, which a mount needs."""
MAX_BINDS = 200
"""Most entries that are mounted by themselves, those further up first: each is an open file and a mount."""
MAX_HIDDEN = 500
"""Most folders that are hidden by themselves; of more, folders above them are hidden."""
_SHARE_OF_FILES = 16
"""Divisor: a command takes at most this part of the files that the process may have open."""
_LOOKED_AT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Access(IntEnum):
    """Access of commands to an entry, the freest first."""

    OPEN = 0
    NAMED = 1
    """Read-only where there is room for its mount: it is named like a definition where none is looked for."""
    PINNED = 2
    RESERVED = 3
    """Read-only, and held in its place by a mount upon it."""
    HIDDEN = 4
    """State of the product: nothing of it is seen."""
    UNKNOWN = 5
    """Hidden, because it was not looked into."""
    CLOSED = 6
    READ_ONLY = 7


@dataclass(frozen=True)
class _Entry:
    """File or folder that was looked at."""

    name: str
    access: _Access
    identity: tuple[int, int]
    mode: int
    children: tuple[_Entry, ...] = ()
    """Content of closed and pinned folders; of others only hidden entries, and those that lead to them."""

    @property
    def is_hidden(self) -> bool:
        """Whether commands see nothing of the entry."""
        return self.access in (_Access.HIDDEN, _Access.UNKNOWN)


@dataclass(frozen=True)
class Bind:
    """Mount of an open file or folder at the path where a command sees it."""

    descriptor: int
    inside: str
    writable: bool


@dataclass(frozen=True)
class Steady:
    """Files that have not changed for a while, so that they are likely to be at their place when they are mounted."""

    since: float
    """Time of the last change at the latest, as `time.time()`: one of content, name, rights or place."""
    folders_too: bool = False
    """Whether folders count, which change with each of their entries."""


@dataclass
class MountPlan:
    """Plan of the mounts of one folder, in their order."""

    binds: list[Bind] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Folders of which commands see nothing, over the binds."""
    held_back: list[str] = field(default_factory=list)
    """Paths inside that are read-only or hidden only because looking and mounting are bounded."""


@dataclass
class _Look:
    """Look through a tree, with the number of entries that it may still look at."""

    protection: Protection
    entries: int


@dataclass
class _Mounting:
    """A plan being made, and what may still be opened for it."""

    plan: MountPlan
    opened: ExitStack
    left: int
    steady: Steady | None = None
    overlaid: bool = False
    """Whether the folder is an overlay, in which all is writable upon which nothing is mounted."""
    later: list[tuple[_Entry, int, str]] = field(default_factory=list)
    """Mounts for which there may be no room: entry, open folder, path inside."""

    def open(self, child: _Entry, folder: int) -> int | None:
        """Open the entry, if it is still the one that was looked at and there is room for it; else return None."""
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

    def is_steady(self, descriptor: int) -> bool:
        """Return whether an open file or folder may be mounted by itself."""
        facts = os.fstat(descriptor)
        if self.steady is None or (stat.S_ISDIR(facts.st_mode) and not self.steady.folders_too):
            return True
        return facts.st_ctime < self.steady.since


def plan_mounts(
    descriptor: int,
    in_workshop: str,
    inside: str,
    *,
    readonly: bool,
    protection: Protection,
    opened: ExitStack,
    steady: Steady | None = None,
    overlaid: bool = False,
) -> MountPlan:
    """Plan the mounts of the file or folder `descriptor` at `inside`; `in_workshop` is its path below the workshop.

    Files that the plan opens stay open as long as `opened`. `steady` are those that are mounted by themselves; others
    are read-only; None: all. Where the folder is `overlaid`, it is mounted already, as an overlay.
    """
    plan = MountPlan()
    top = _looked_at_top(descriptor, in_workshop, _Look(protection, MAX_ENTRIES), readonly=readonly)
    if top.access is _Access.HIDDEN and not stat.S_ISDIR(top.mode):
        return plan
    mounting = _Mounting(plan, opened, most_binds(), steady, overlaid)
    if top.access is _Access.PINNED:
        plan.binds += _pinned(top, descriptor, inside, mounting)
    elif not top.is_hidden and not overlaid:
        plan.binds.append(Bind(descriptor, inside, writable=top.access is _Access.OPEN))
    if top.access is _Access.CLOSED:
        _mount_upon_closed(top, descriptor, inside, mounting)
    for child, folder, at in mounting.later:
        found = mounting.open(child, folder)
        plan.binds += [] if found is None or not mounting.is_steady(found) else [Bind(found, at, writable=False)]
    _hide(top, inside, plan)
    return plan


def most_binds() -> int:
    """Return the most entries that one command can have mounted by themselves."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_BINDS if soft == resource.RLIM_INFINITY else min(MAX_BINDS, soft // _SHARE_OF_FILES)


def _looked_at_top(descriptor: int, path: str, look: _Look, *, readonly: bool) -> _Entry:
    facts = os.fstat(descriptor)
    if STATE_FOLDER in folded(path):
        return _entry("", _Access.HIDDEN, facts)
    given = _Access.READ_ONLY if readonly or look.protection.protects(path) else None
    if stat.S_ISDIR(facts.st_mode):
        return _looked_through("", descriptor, path, look, 0, given)
    return _entry("", _Access.OPEN if given is None else given, facts)


def _looked_through(
    name: str, descriptor: int, path: str, look: _Look, depth: int, given: _Access | None = None
) -> _Entry:
    """Return the folder with its content, as far down as anything in it is not simply open.

    `given` is the access to it where that is known: then only hidden entries are looked for.
    """
    facts = os.fstat(descriptor)
    with os.scandir(descriptor) as entries:
        found = list(islice(entries, look.entries + 1))
        names = sorted(one.name for one in found if given is None or one.is_dir(follow_symlinks=False))
    if len(found) > look.entries:
        # What lies beside a very large folder is looked at all the same; halves keep the sum bounded.
        look.entries //= 2
        return _entry(name, _Access.UNKNOWN, facts)
    look.entries -= len(found)
    children = [_looked_at(one, descriptor, join(path, one), look, depth, given) for one in names]
    if given is not None:
        return _entry(name, given, facts, tuple(child for child in children if child.is_hidden or child.children))
    worst = max((child.access for child in children), default=_Access.OPEN)
    if worst >= _Access.CLOSED or look.protection.may_define(path):
        return _entry(name, _Access.CLOSED, facts, tuple(children))
    if worst is _Access.OPEN:
        return _entry(name, _Access.OPEN, facts)
    return _entry(name, _Access.PINNED, facts, tuple(children))


def _looked_at(name: str, folder: int, path: str, look: _Look, depth: int, given: _Access | None) -> _Entry:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        # Gone meanwhile, as when another command moves it: nothing to mount. What comes next at this name was not
        # looked at, which matters only where it could define.
        could_define = look.protection.protects(path) or look.protection.may_define(path)
        return _Entry(name, _Access.READ_ONLY if could_define else _Access.OPEN, (0, 0), 0)
    is_folder = stat.S_ISDIR(facts.st_mode)
    if is_folder and folded(name) == (STATE_FOLDER,):
        return _entry(name, _Access.HIDDEN, facts)
    if given is None and look.protection.protects(path):
        given = _access_of_protected(name, path, facts.st_mode, look.protection)
    if not is_folder:
        return _entry(name, _Access.OPEN if given is None else given, facts)
    if depth >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES:
        return _entry(name, _Access.UNKNOWN, facts)
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return _entry(name, _Access.UNKNOWN, facts)
    try:
        return _looked_through(name, descriptor, path, look, depth + 1, given)
    finally:
        os.close(descriptor)


def _access_of_protected(name: str, path: str, mode: int, protection: Protection) -> _Access | None:
    """Return the access to an entry with a protected name; None: the same as to any other."""
    is_file, is_folder = stat.S_ISREG(mode), stat.S_ISDIR(mode)
    if folded(name)[0] in RESERVED_FOLDERS and (is_file or is_folder):
        return _Access.RESERVED
    if protection.is_looked_for(path, link=not (is_file or is_folder)):
        return _Access.READ_ONLY
    return _Access.NAMED if is_file else None


def _mount_upon_closed(top: _Entry, descriptor: int, inside: str, mounting: _Mounting) -> None:
    """Mount the entries upon closed folders that differ from these, those further up first."""
    plan = mounting.plan
    waiting = deque([(top, descriptor, inside)])
    while waiting:
        folder, folder_descriptor, where = waiting.popleft()
        for child in folder.children:
            at = f"{where}/{child.name}"
            # A link, a socket or a pipe keeps its place in the read-only folder.
            if not _differs(child, mounting) or not (stat.S_ISDIR(child.mode) or stat.S_ISREG(child.mode)):
                continue
            if child.access is _Access.READ_ONLY and stat.S_ISREG(child.mode):
                mounting.later.append((child, folder_descriptor, at))
                continue
            found = mounting.open(child, folder_descriptor)
            if found is None or not mounting.is_steady(found):
                plan.held_back.append(at)
            elif child.access is _Access.CLOSED:
                waiting.append((child, found, at))
            elif child.access is _Access.PINNED:
                plan.binds += _pinned(child, found, at, mounting)
            else:
                plan.binds.append(Bind(found, at, writable=child.access is _Access.OPEN))


def _differs(entry: _Entry, mounting: _Mounting) -> bool:
    """Return whether anything there needs a mount: it is writable, or upon an overlay is not."""
    if entry.access is _Access.CLOSED:
        return any(_differs(child, mounting) for child in entry.children)
    if not mounting.overlaid:
        return entry.access in (_Access.OPEN, _Access.PINNED)
    return not entry.is_hidden and (entry.access is not _Access.OPEN or stat.S_ISDIR(entry.mode))


def _pinned(entry: _Entry, descriptor: int, inside: str, mounting: _Mounting) -> list[Bind]:
    """Return the mounts of a writable folder with reserved entries; read-only as a whole where these do not fit."""
    binds = [Bind(descriptor, inside, writable=True)]
    for child in entry.children:
        at = f"{inside}/{child.name}"
        if child.access is _Access.NAMED:
            mounting.later.append((child, descriptor, at))
        if child.access in (_Access.OPEN, _Access.NAMED) or child.is_hidden:
            continue
        found = mounting.open(child, descriptor)
        if found is None or not mounting.is_steady(found):
            mounting.plan.held_back.append(inside)
            return [Bind(descriptor, inside, writable=False)]
        if child.access is _Access.PINNED:
            binds += _pinned(child, found, at, mounting)
        else:
            binds.append(Bind(found, at, writable=False))
    return binds


def _hide(top: _Entry, inside: str, plan: MountPlan) -> None:
    """Hide the hidden entries or, of too many, folders above them: in the end the whole."""
    found = list(_hidden(top, ()))
    depth = max((len(way) for way, _entry in found), default=0)
    while len({way[:depth] for way, _entry in found}) > MAX_HIDDEN:
        depth -= 1
    for way, entry in found:
        path = "/".join((inside, *way[:depth]))
        if path not in plan.hidden:
            plan.hidden.append(path)
        if (entry.access is _Access.UNKNOWN or len(way) > depth) and path not in plan.held_back:
            plan.held_back.append(path)


def _hidden(entry: _Entry, way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Entry]]:
    """Every entry that is hidden, and the names that lead to it."""
    if entry.is_hidden:
        yield way, entry
        return
    for child in entry.children:
        yield from _hidden(child, (*way, child.name))


def _entry(name: str, access: _Access, facts: os.stat_result, children: tuple[_Entry, ...] = ()) -> _Entry:
    return _Entry(name, access, (facts.st_dev, facts.st_ino), facts.st_mode, children)
