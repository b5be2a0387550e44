"""Files that commands may run, and files that kinds of calls let workers write: who may do both runs what he likes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from llm_do_temporal.policy.files.protection import WRITING_TOOLS
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.kinds.kind import CallKind, form_of, place_in
from llm_do_temporal.policy.programs import may_free_file
from llm_do_temporal.policy.shell import working_directory

_PIECES = re.compile("[=:,@]")
"""Signs between a word and a path: `--file=x`."""


class Area(NamedTuple):
    """Files in a folder whose names end so; with `deep` also those in folders below it."""

    folder: PurePosixPath
    end: str
    deep: bool = False

    def meets(self, other: Area) -> bool:
        """Return whether a file may be in both."""
        near = self.folder == other.folder
        near = near or (self.deep and other.folder.is_relative_to(self.folder))
        near = near or (other.deep and self.folder.is_relative_to(other.folder))
        return near and (self.end.endswith(other.end) or other.end.endswith(self.end))


class RunnableFiles(NamedTuple):
    """Files that a command may run."""

    area: Area
    argv: tuple[str, ...] | None
    """Words of the command; None where the files are the program itself."""

    def may_run(self, written: Area) -> bool:
        """Return whether a file of this area may be run."""
        if self.argv is None or not self.area.meets(written):
            return self.area.meets(written)
        end = max(self.area.end, written.end, key=len)
        return not may_free_file(self.argv, PurePosixPath(f"x{end}").suffix)


def written_by(kind: CallKind) -> Area | None:
    """Return the files that a kind lets workers write; None for one that is not about writing."""
    if kind.tool not in WRITING_TOOLS:
        return None
    if kind.path is not None:
        return _file(kind.path)
    return Area(PurePosixPath(kind.folder or kind.below or "/"), kind.suffix or "", deep=kind.folder is None)


def runs_of(kind: CallKind, trees: Iterable[Tree]) -> Iterator[RunnableFiles]:
    """Yield what a kind of commands may run in trees of these files."""
    if kind.command is None:
        return
    words, free = form_of(kind.command)
    for tree in trees:
        if not tree.mounts:
            continue
        cwd = working_directory(tree)
        yield from runs_in(words, tree, cwd)
        if kind.folder is not None:
            yield RunnableFiles(Area(PurePosixPath(kind.folder), kind.suffix or ""), words)
        elif free is not None:
            is_path = words[free] == "{path}"
            yield RunnableFiles(Area(PurePosixPath(cwd), "", deep=is_path), words)


def runs_in(words: Sequence[str], tree: Tree, cwd: str) -> Iterator[RunnableFiles]:
    """Yield what a command may run in this folder by what its words name."""
    argv = tuple(words)
    for at, word in enumerate(argv):
        if at == 0 and "/" not in word:
            continue
        for piece in {word, *_PIECES.split(word)} - {""}:
            place = place_in(tree, piece if piece.startswith("/") else f"{cwd}/{piece}")
            if place is not None:
                yield from runs_at(place.path, argv if at else None)


def runs_at(path: str, argv: tuple[str, ...] | None) -> Iterator[RunnableFiles]:
    """Yield the file at a path and, where it may be a folder, all below it."""
    yield RunnableFiles(_file(path), argv)
    if not PurePosixPath(path).suffix:
        yield RunnableFiles(Area(PurePosixPath(path), "", deep=True), argv)


def _file(path: str) -> Area:
    pure = PurePosixPath(path)
    return Area(pure.parent, pure.name)
