"""Lists of the files of a tree: a walk below its mounts that shows only what can be opened there.

Owns glob patterns and the walk. Called by the file activities. A pattern is matched part by part on the
way down, so folders that cannot hold a match are never entered and no pattern makes the walk slow.

Links to folders are not entered: they may lead in a circle, and what they lead to is listed where it is.
Files whose names are not UTF-8 are left out: no worker could name them.
"""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.messages.effects import FileEntry, FileListing, ListFilesInput
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME, Place, Tree, has_suffix, join, locate_all
from llm_do_temporal.sandbox.openers import FileOpener, FolderEntry, OpenFolder
from llm_do_temporal.sandbox.os_errors import is_passing

MAX_FILES = 2_000
MAX_GLOB_CHARS = 1_000
"""Longest pattern: enough for any path, as each name that is looked at is held against every part of it."""
MAX_VISITED = 200_000
"""Most entries that a listing looks at, about a second's work; it is marked as truncated then."""

Matched = frozenset[int]
"""Numbers of a pattern's parts that the path so far may have used up; several, because `**` may end anywhere."""


@dataclass(frozen=True)
class Pattern:
    """A glob pattern: `*`, `?` and `[…]` within a name, `**` for any number of folders."""

    parts: tuple[re.Pattern[str] | None, ...]
    """Regular expression of each name; None is `**`."""

    def begin(self) -> Matched:
        """Return the state before the first name."""
        return self._skipping({0})

    def step(self, matched: Matched, name: str) -> Matched:
        """Return the state after one more name."""
        reached: set[int] = set()
        for index in matched:
            if index == len(self.parts):
                continue
            part = self.parts[index]
            if part is None:
                reached.add(index)
            elif part.match(name):
                reached.add(index + 1)
        return self._skipping(reached)

    def accepts(self, matched: Matched) -> bool:
        """Whether the path so far matches as a whole."""
        return len(self.parts) in matched

    def goes_on(self, matched: Matched) -> bool:
        """Whether a longer path can match."""
        return any(index < len(self.parts) for index in matched)

    def _skipping(self, reached: set[int]) -> Matched:
        found = set(reached)
        for index in sorted(reached):
            following = index
            while following < len(self.parts) and self.parts[following] is None:
                following += 1
                found.add(following)
        return frozenset(found)


def parse_pattern(pattern: str) -> Pattern:
    """Read a glob pattern. Raises EffectFailed for a pattern that cannot be relative to a folder."""
    if len(pattern) > MAX_GLOB_CHARS:
        raise EffectFailed(f"the pattern has {len(pattern)} characters; at most {MAX_GLOB_CHARS} are accepted")
    named = [name for name in pattern.split("/") if name not in {"", "."}]
    # Several `**` beside each other mean what one means, and would be walked each for itself.
    names = [name for number, name in enumerate(named) if name != "**" or named[number - 1 : number] != ["**"]]
    if pattern.startswith("/") or ".." in names or not names:
        raise EffectFailed(
            f"pattern '{pattern}' is not relative to a folder; it must not be empty, start with '/' or contain '..'",
            next_step="Give the folder as `path` and a pattern such as '**/*.md' below it.",
        )
    if names[-1] == "**":
        names.append("*")
    return Pattern(tuple(None if name == "**" else re.compile(fnmatch.translate(name)) for name in names))


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
    return FileListing(
        files=tuple(found[:MAX_FILES]),
        truncated=len(found) > MAX_FILES or any(walk.gave_up for walk in walks),
    )


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

    def files(self, *, required: bool) -> Generator[FileEntry]:
        """Every file that matches. Raises EffectFailed where the place does not exist, if it is `required`."""
        matched = self.pattern.begin()
        for name in PurePosixPath(self.place.path).relative_to(self.top).parts:
            matched = self.pattern.step(matched, name)
        try:
            with self.opener.folder(self.place) as folder:
                yield from self._below(folder, _Level(".", self.place.path, matched))
        except EffectFailed as error:
            if required or not isinstance(error.__cause__, FileNotFoundError):
                raise

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
        if not _is_utf8(entry.name) or self._is_hidden(entry.name, virtual):
            return None
        matched = self.pattern.step(level.matched, entry.name)
        if entry.is_dir(follow_symlinks=False):
            inner = _Level(join(level.relative, entry.name), virtual, matched)
            return inner if self.pattern.goes_on(matched) else None
        if not self.pattern.accepts(matched) or not self._has_allowed_suffix(entry.name):
            return None
        size = self._size(level, entry, virtual)
        return None if size is None else FileEntry(path=virtual, bytes=size)

    def _is_hidden(self, name: str, virtual: str) -> bool:
        if TEMPORARY_NAME.fullmatch(name) or any(mount.at == virtual for mount in self.tree.mounts):
            return True  # a file being written, or a place that another mount shows
        return name.casefold() == STATE_FOLDER

    def _has_allowed_suffix(self, name: str) -> bool:
        allowed = self.place.mount.suffixes
        return allowed is None or has_suffix(name, allowed)

    def _size(self, level: _Level, entry: FolderEntry, virtual: str) -> int | None:
        """Bytes of a regular file, or None where the entry is none that can be opened in the tree."""
        if entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError):
                return entry.stat(follow_symlinks=False).st_size
        if entry.is_symlink():
            relative = join(self.place.relative, join(level.relative, entry.name))
            target = Place(mount=self.place.mount, relative=relative, path=virtual)
            with suppress(SandboxRefusal, EffectFailed):
                return self.opener.size(target)
        return None


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
