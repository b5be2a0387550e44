"""Protection of the files that define a workshop: a worker that writes one can give itself power.

Two sides hold one rule. Nothing protected is written by a tool or by an isolated command, and nothing is loaded as a
definition, or as Python, unless it is protected. Paths are those of the real files, relative to the workshop, with
links followed; capitals do not count, as some file systems do not tell them apart.

Pure: `definitions.protection` finds the files that a workshop's definitions name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any

from llm_do_temporal.policy.files.sandbox import Place, Tree, check_readable, check_size, check_writable, join, locate
from llm_do_temporal.policy.values import CapabilityUse

RESERVED_FOLDERS = frozenset({".git", ".hg", ".svn", ".jj", ".githooks", ".husky", ".llm-do"})
"""Folders that are protected wherever they lie: tools run the programs that are configured there, and the product keeps
its own state there."""
DEFINITION_FOLDERS = ("workers", "templates")
"""Folders at the top of a workshop in which definitions are looked for."""
_DEFINITION_PLACES = frozenset((name,) for name in DEFINITION_FOLDERS)
_WORKER_SUFFIX = ".worker"
_YAML_SUFFIXES = (".yaml", ".yml")
_PYTHON_SUFFIXES = (".py", ".pyc", ".pyo", ".pyi", ".pyw", ".pyd", ".so", ".pth", ".egg-link")
_PYTHON_FOLDER = "__pycache__"
_WORKSHOP_NAMES = frozenset({"workshop.yaml", "workshop.yml"})
_GLOB_CHARACTERS = frozenset("*?[")
ANY_FOLDERS = "**"


@dataclass(frozen=True)
class Protection:
    """Protected files of one workshop."""

    templates: tuple[str, ...] = ()
    """Paths and globs of the templates that any worker's `allow` or `lock` names."""
    included: tuple[str, ...] = ()
    """Files that definitions include, every other place where these are looked for, and links on the way."""
    programs: tuple[str, ...] = ()
    """Programs in the workshop that definitions name (MCP servers), or their folders, with everything below."""
    shared: tuple[str, ...] = ()
    """Folders in which workers write (a sandbox root below the workshop): Python in them is data."""

    def protects(self, path: str) -> bool:
        """Return whether the file or folder at `path` defines, or would if it were made."""
        parts = folded(path)
        if not parts:
            return False
        if any(part in RESERVED_FOLDERS for part in parts):
            return True
        name = parts[-1]
        if name in _WORKSHOP_NAMES or name.endswith(_WORKER_SUFFIX):
            return True
        if name.endswith(_YAML_SUFFIXES) and (len(parts) == 1 or parts[0] in DEFINITION_FOLDERS):
            return True
        if parts in self._included or any(parts[: len(one)] == one for one in self._programs):
            return True
        if name.endswith(_PYTHON_SUFFIXES) or _PYTHON_FOLDER in parts:
            return not self._is_data(parts)
        return name.endswith(_YAML_SUFFIXES) and any(fits(parts, glob) for glob in self._templates)

    def protects_code(self, path: str) -> bool:
        """Return whether Python at `path` may be run: no worker can write it, and none could before a definition named
        the file."""
        return self.protects(path) and not self._is_shared(folded(path))

    def may_define(self, folder: str) -> bool:
        """Return whether an entry made in `folder`, or in folders made below it, could define.

        Outside of the shared folders it could: authors load Python from where they like.
        """
        parts = folded(folder)
        if not self._is_shared(parts) or any(part in RESERVED_FOLDERS for part in parts):
            return True
        if any(parts[: len(one)] == one or one[: len(parts)] == parts for one in self._programs):
            return True
        return any(len(one) > len(parts) and one[: len(parts)] == parts for one in self._included) or any(
            _may_lead_to(parts, glob) for glob in self._templates
        )

    def is_looked_for(self, path: str, *, link: bool = False) -> bool:
        """Return whether the protected file or link at `path` is used from there, and not merely named like such a
        file.

        Worker files and workshops' files are no definitions among the files that workers write, and a link there with
        the name of a tool's folder (`.git`) is as easily made as any other file.
        """
        parts = folded(path)
        if not self._is_shared(parts):
            return True
        if any(part in RESERVED_FOLDERS for part in parts[:-1]) or parts in self._included:
            return True
        name = parts[-1]
        if name in RESERVED_FOLDERS:
            return not link
        if not (name in _WORKSHOP_NAMES or name.endswith(_WORKER_SUFFIX)):
            return True
        return name.endswith(_YAML_SUFFIXES) and any(fits(parts, glob) for glob in self._templates)

    def _is_shared(self, parts: tuple[str, ...]) -> bool:
        """Return whether workers write in the place, and its position alone makes no file there a definition."""
        return parts[:1] not in _DEFINITION_PLACES and any(parts[: len(one)] == one for one in self._shared)

    def _is_data(self, parts: tuple[str, ...]) -> bool:
        """Return whether Python there is data for workers: in a shared folder, and not beside definitions."""
        return self._is_shared(parts) and not any(_begins_with_fixed(parts, glob) for glob in self._templates)

    @cached_property
    def _templates(self) -> tuple[tuple[str, ...], ...]:
        return tuple(map(folded, self.templates))

    @cached_property
    def _included(self) -> frozenset[tuple[str, ...]]:
        return frozenset(map(folded, self.included))

    @cached_property
    def _programs(self) -> tuple[tuple[str, ...], ...]:
        return tuple(filter(None, map(folded, self.programs)))

    @cached_property
    def _shared(self) -> tuple[tuple[str, ...], ...]:
        return tuple(filter(None, map(folded, self.shared)))


def defines(place: Place) -> bool:
    """Return whether the path alone protects the place; the real file behind it has not been looked at."""
    return Protection(shared=(place.mount.base,)).protects(join(place.mount.root, place.relative))


@lru_cache(maxsize=4096)
def is_always_protected(path: str) -> bool:
    """Return whether the file at `path` is protected in every workshop, whatever its definitions name."""
    return Protection(shared=PurePosixPath(path).parts[:1]).protects(path)


@lru_cache(maxsize=4096)
def folded(path: str) -> tuple[str, ...]:
    """Return the parts of a path in the form in which they are compared; none for the workshop's own folder."""
    return tuple(
        unicodedata.normalize("NFKC", part).casefold() for part in PurePosixPath(path).parts if part not in ("/", ".")
    )


def fits(names: Sequence[str], glob: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a glob, in which `**` is any number of folders."""
    return _reached(names, glob)[-1]


def _reached(names: Sequence[str], glob: Sequence[str]) -> list[bool]:
    """Return for each number n whether the whole glob can stand for the first n names.

    The glob is gone through once, part by part, so that no number of `**` makes this slow.
    """
    reached = [True, *(False for _ in names)]
    for pattern in glob:
        if pattern == ANY_FOLDERS:
            first = reached.index(True) if True in reached else len(reached)
            reached = [n >= first for n in range(len(reached))]
        else:
            reached = [False, *(reached[n] and fnmatchcase(name, pattern) for n, name in enumerate(names))]
    return reached


def _may_lead_to(folder: tuple[str, ...], glob: tuple[str, ...]) -> bool:
    """Return whether a file below `folder` can match the glob."""
    beginnings = range(len(glob) + (glob[-1:] == (ANY_FOLDERS,)))
    return any(fits(folder, glob[:length]) for length in beginnings)


def _begins_with_fixed(parts: tuple[str, ...], glob: tuple[str, ...]) -> bool:
    """Return whether the path lies in the folder that the glob names before its first wildcard."""
    fixed = 0
    while fixed < len(glob) - 1 and not _GLOB_CHARACTERS & set(glob[fixed]):
        fixed += 1
    return parts[:fixed] == glob[:fixed]


WRITING_TOOLS = frozenset({"write_file", "edit_file"})
PATH_TOOLS = frozenset({"read_file"}) | WRITING_TOOLS
"""Tools that `judge_path` can judge."""


def judge_path(tool: str, tree: Tree, args: dict[str, Any]) -> Place:
    """Return the place of a file tool's `path` argument. Raises SandboxRefusal where the tool may not be used there.

    Pure, so that the desk can say no to changed arguments as soon as they arrive.
    """
    place = locate(tree, str(args.get("path", ".")))
    if tool in ("read_file", "edit_file"):
        check_readable(place)
    if tool in WRITING_TOOLS:
        check_writable(place, tree)
    if tool == "write_file":
        check_size(place, utf8_bytes(args.get("content")))
    return place


def file_use(tool: str, place: Place, args: dict[str, Any]) -> CapabilityUse:
    """Return the use that a call of a file tool makes of the place."""
    if tool not in WRITING_TOOLS:
        return CapabilityUse(name="sandbox.read", payload={"path": place.path}, asks=place.mount.read_approval)
    size = utf8_bytes(args["content" if tool == "write_file" else "new_text"])
    name = "sandbox.write.definitions" if defines(place) else "sandbox.write"
    return CapabilityUse(name=name, payload={"path": place.path, "bytes": size}, asks=place.mount.write_approval)


def utf8_bytes(text: object) -> int:
    """Return the size of a text as UTF-8, in bytes; half characters count as the one that replaces them."""
    return len(str(text).encode("utf-8", errors="replace"))
