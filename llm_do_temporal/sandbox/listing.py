"""Lists of the files of a tree: a walk below its mounts that shows only what can be opened there.

Owns glob patterns and the walk. Called by the file activities. A pattern is matched part by part on the
way down, so folders that cannot hold a match are never entered and no pattern makes the walk slow.

Links to folders are not entered: they may lead in a circle, and what they lead to is listed where it is.
Files whose names are not UTF-8 are left out, as no worker could name them, and that is said.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Collection, Generator, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.activities import FileEntry, FileListing, ListFilesInput
from llm_do_temporal.messages.base import is_text
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME, Place, Tree, has_suffix, join, locate_all
from llm_do_temporal.sandbox.os_errors import is_passing
from llm_do_temporal.sandbox.safe_open import FileOpener, FolderEntry, OpenFolder

MAX_FILES = 2_000
MAX_GLOB_CHARS = 1_000
"""Longest pattern: enough for any path, as each name that is looked at is held against every part of it."""
MAX_VISITED = 200_000
"""Most entries that a listing looks at, about a second's work; it is marked as truncated then."""

_MAX_ALTERNATIVES = 64
"""Most patterns that braces stand for."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_PLAIN_SIGNS = re.compile(r"\A!|/!|[|,;(){}\\]|\s")
"""Signs that have a meaning in patterns of other programs, and stand for themselves here."""
_SYNTAX = (
    "no file matches. A pattern knows *, ?, [abc], [!abc], {a,b} and ** for any number of folders; all other signs, "
    "such as !, |, commas and spaces, stand for themselves. Use one call for each pattern"
)
_MAX_NAMED = 3

Matched = frozenset[tuple[int, int]]
"""Alternatives of a pattern, each with a number of its parts that the path so far may have used up; several of one,
because `**` may end anywhere."""


@dataclass(frozen=True)
class Pattern:
    """A glob pattern: `*`, `?` and `[…]` within a name, `**` for any number of folders, `{a,b}` for alternatives."""

    alternatives: tuple[tuple[re.Pattern[str] | None, ...], ...]
    """Regular expression of each name, for each alternative; None is `**`."""

    def begin(self) -> Matched:
        """Return the state before the first name."""
        return self._skipping({(number, 0) for number in range(len(self.alternatives))})

    def step(self, matched: Matched, name: str) -> Matched:
        """Return the state after one more name."""
        reached: set[tuple[int, int]] = set()
        for number, index in matched:
            parts = self.alternatives[number]
            if index == len(parts):
                continue
            part = parts[index]
            if part is None:
                reached.add((number, index))
            elif part.match(name):
                reached.add((number, index + 1))
        return self._skipping(reached)

    def accepts(self, matched: Matched) -> bool:
        """Whether the path so far matches as a whole."""
        return any(index == len(self.alternatives[number]) for number, index in matched)

    def goes_on(self, matched: Matched) -> bool:
        """Whether a longer path can match."""
        return any(index < len(self.alternatives[number]) for number, index in matched)

    def _skipping(self, reached: set[tuple[int, int]]) -> Matched:
        found = set(reached)
        for number, index in sorted(reached):
            parts, following = self.alternatives[number], index
            while following < len(parts) and parts[following] is None:
                following += 1
                found.add((number, following))
        return frozenset(found)


def parse_pattern(pattern: str) -> Pattern:
    """Read a glob pattern. Raises EffectFailed for a pattern that cannot be relative to a folder."""
    if len(pattern) > MAX_GLOB_CHARS:
        raise EffectFailed(f"the pattern has {len(pattern)} characters; at most {MAX_GLOB_CHARS} are accepted")
    return Pattern(tuple(_parts(pattern, one) for one in _alternatives(pattern)))


def _parts(pattern: str, alternative: str) -> tuple[re.Pattern[str] | None, ...]:
    named = [name for name in alternative.split("/") if name not in {"", "."}]
    # Several `**` beside each other mean what one means, and would be walked each for itself.
    names = [name for number, name in enumerate(named) if name != "**" or named[number - 1 : number] != ["**"]]
    if alternative.startswith("/") or ".." in names or not names:
        raise EffectFailed(
            f"pattern '{pattern}' is not relative to a folder; it must not be empty, start with '/' or contain '..'",
            next_step="Give the folder as `path` and a pattern such as '**/*.md' below it.",
        )
    if names[-1] == "**":
        names.append("*")
    return tuple(None if name == "**" else re.compile(fnmatch.translate(name)) for name in names)


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with braces stands for, itself among them: a name may have braces."""
    found = [pattern]
    for one in found:
        braces = _BRACES.search(one)
        if braces is None:
            continue
        for choice in braces[1].split(","):
            inner = f"{one[: braces.start()]}{choice}{one[braces.end() :]}"
            if inner.strip("/.") and inner not in found:
                found.append(inner)
        if len(found) > _MAX_ALTERNATIVES:
            raise EffectFailed(
                f"the braces of the pattern stand for more than {_MAX_ALTERNATIVES} patterns",
                next_step="Use several calls, each with fewer alternatives.",
            )
    return found


def list_tree(opener: FileOpener, asked: ListFilesInput, *, max_visited: int = MAX_VISITED) -> FileListing:
    """Return the files that `asked` describes. Raises EffectFailed where its folder does not exist."""
    pattern = parse_pattern(asked.pattern)
    virtual, places = locate_all(asked.tree, asked.path)
    walks = [Walk(opener, asked.tree, place, pattern, virtual, max_visited) for place in places]
    # A folder that mounts lie in is there even where none of their own folders has been made yet.
    required = [place.path for place in places] == [virtual]
    with ExitStack() as opened:
        files = [opened.enter_context(closing(walk.files(required=required))) for walk in walks]
        found = list(islice(heapq.merge(*files, key=lambda entry: entry.path), MAX_FILES + 1))
    notes = [
        _unnameable([name for walk in walks for name in walk.unnameable]),
        _unreadable([path for walk in walks for path in walk.unreadable]),
    ]
    if not found and _PLAIN_SIGNS.search(asked.pattern):
        notes.append(_SYNTAX)
    return FileListing(
        files=tuple(found[:MAX_FILES]),
        truncated=len(found) > MAX_FILES or any(walk.gave_up for walk in walks),
        note="; ".join(filter(None, notes)),
    )


def _unnameable(names: list[str]) -> str:
    """Return a remark on files that cannot be named; empty for none."""
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in sorted(names)[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (
        f"left out because their names are not UTF-8, so that no tool can name them: {len(names)} of the files "
        f"and folders (with U+FFFD for what cannot be shown: {shown}{more}). Ask a person to rename them"
    )


def _unreadable(paths: list[str]) -> str:
    """Return a remark on folders whose files are not in a listing; empty for none."""
    if not paths:
        return ""
    return f"not all is listed, because permission to read was denied for {folders_in_words(paths)}"


def folders_in_words(paths: Collection[str], most: int = _MAX_NAMED) -> str:
    """Return the number of folders, and the first of their paths, like `2 folders: '/a', '/b'`."""
    shown = ", ".join(f"'{path}'" for path in sorted(paths)[:most])
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return f"{len(paths)} {'folder' if len(paths) == 1 else 'folders'}: {shown}{more}"


@dataclass(frozen=True)
class _Level:
    """Folder on the way down: its path below the first one, its virtual path, and the parts of the pattern so far."""

    relative: str
    virtual: str
    matched: Matched


@dataclass
class Walk:
    """The files below one place, in the order of their virtual paths."""

    opener: FileOpener
    tree: Tree
    place: Place
    pattern: Pattern
    top: str
    """The virtual folder that the pattern is relative to."""
    max_visited: int = MAX_VISITED
    visited: int = 0
    gave_up: bool = False
    unnameable: list[str] = field(default_factory=list[str])
    """Virtual paths, with replacement characters, of what would be listed or entered if its name were UTF-8."""
    unreadable: set[str] = field(default_factory=set[str])
    """Virtual paths of folders that may not be read, or whose entries may not be looked at."""

    def files(self, *, required: bool) -> Generator[FileEntry]:
        """Every file that matches. Raises EffectFailed where the place does not exist, if it is `required`."""
        matched = self.pattern.begin()
        for name in PurePosixPath(self.place.path).relative_to(self.top).parts:
            matched = self.pattern.step(matched, name)
        try:
            with self.opener.folder(self.place) as folder:
                yield from self._below(folder, _Level(".", self.place.path, matched))
        except EffectFailed as error:
            if required or not isinstance(error.__cause__, FileNotFoundError | PermissionError):
                raise
            if isinstance(error.__cause__, PermissionError):
                self.unreadable.add(self.place.path)

    def _below(self, folder: OpenFolder, first: _Level) -> Iterator[FileEntry]:
        # A stack of its own: folders can be nested deeper than Python calls.
        stack = [iter(self._entries(folder, first))]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
            elif isinstance(entry, FileEntry):
                yield entry
            else:
                stack.append(iter(self._entries(folder, entry)))

    def _entries(self, folder: OpenFolder, level: _Level) -> list[FileEntry | _Level]:
        found: list[tuple[str, FileEntry | _Level]] = []
        with ExitStack() as opened:
            try:
                entries = opened.enter_context(folder.entries(level.relative))
            except OSError as error:
                if is_passing(error):
                    raise
                if isinstance(error, PermissionError):
                    self.unreadable.add(level.virtual)
                return []  # removed meanwhile, turned into a link, or not ours to look into
            for entry in entries:
                if self.visited >= self.max_visited:
                    self.gave_up = True
                    break
                self.visited += 1
                shown = self._shown(level, entry)
                if shown is not None:
                    # As text, "a/b" comes after "a-c": a folder is sorted with its slash.
                    found.append((f"{entry.name}/" if isinstance(shown, _Level) else entry.name, shown))
        return [shown for _key, shown in sorted(found, key=lambda pair: pair[0])]

    def _shown(self, level: _Level, entry: FolderEntry) -> FileEntry | _Level | None:
        virtual = f"{level.virtual.rstrip('/')}/{entry.name}"
        if TEMPORARY_NAME.fullmatch(entry.name) or any(mount.at == virtual for mount in self.tree.mounts):
            return None  # a file being written, or a place that another mount shows
        if entry.name.casefold() == STATE_FOLDER:
            return None
        if not is_text(entry.name):
            self._count(level, entry)
            return None
        matched = self.pattern.step(level.matched, entry.name)
        if entry.is_dir(follow_symlinks=False):
            inner = _Level(join(level.relative, entry.name), virtual, matched)
            return inner if self.pattern.goes_on(matched) else None
        if not self.pattern.accepts(matched) or not self._has_allowed_suffix(entry.name):
            return None
        size = self._size(level, entry, virtual)
        return None if size is None else FileEntry(path=virtual, bytes=size)

    def _count(self, level: _Level, entry: FolderEntry) -> None:
        name = entry.name.encode(errors="surrogateescape").decode(errors="replace")
        matched, is_folder = self.pattern.step(level.matched, name), entry.is_dir(follow_symlinks=False)
        wanted = self.pattern.goes_on(matched) if is_folder else self.pattern.accepts(matched)
        if wanted and (is_folder or self._has_allowed_suffix(name)):
            self.unnameable.append(f"{level.virtual.rstrip('/')}/{name}")

    def _has_allowed_suffix(self, name: str) -> bool:
        allowed = self.place.mount.suffixes
        return allowed is None or has_suffix(name, allowed)

    def _size(self, level: _Level, entry: FolderEntry, virtual: str) -> int | None:
        """Bytes of a regular file, or None where the entry is none that can be opened in the tree."""
        if entry.is_file(follow_symlinks=False):
            try:
                return entry.stat(follow_symlinks=False).st_size
            except PermissionError:
                self.unreadable.add(level.virtual)
            except FileNotFoundError:
                pass
        if entry.is_symlink():
            relative = join(self.place.relative, join(level.relative, entry.name))
            target = Place(mount=self.place.mount, relative=relative, path=virtual)
            with suppress(SandboxRefusal, EffectFailed):
                return self.opener.size(target)
        return None
