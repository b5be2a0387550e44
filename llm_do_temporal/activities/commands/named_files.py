"""Files that the words of a command name: their facts, and the check that they are still as they were shown.

Owns how a word is read as names of files. Called by the shell activity for what a person is asked about. It sees more
names than a program will; a name that it does not see is one that nothing holds to what was shown.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.sandbox import Place, Tree, locate, locate_in_workshop
from llm_do_temporal.policy.identity import SeenFile, digest_of, real_place
from llm_do_temporal.policy.layers.layer import NodeKind, below, parent_of
from llm_do_temporal.policy.layers.view import LayerView
from llm_do_temporal.sandbox.bubblewrap import TOP
from llm_do_temporal.sandbox.changes import check_as_shown, see_file
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.layers.files import LayeredFiles
from llm_do_temporal.sandbox.safe_open import FileOpener, WorkshopFolder
from llm_do_temporal.storage.blobs import BlobStore

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
