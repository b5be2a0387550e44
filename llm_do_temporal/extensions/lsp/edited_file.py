"""Files of definitions as an editor holds them: lines, kind, the part that is YAML, and the problems of their workshop.

No Python of the workshop is run: opening a folder must run nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.workers.places import (
    SUFFIXES,
    WorkerPlace,
    named_worker,
    own_candidates,
)
from llm_do_temporal.definitions.workers.worker_file import parse_worker, split_front_matter
from llm_do_temporal.definitions.yaml.documents import MAX_FILE_BYTES, Problem, Unreadable, decode, read_bytes, unsaved
from llm_do_temporal.errors import WorkshopNotFound
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.lsp.yaml_places import Offsets, Span, TextPlace, spans
from llm_do_temporal.workshop_search import WORKSHOP_FILE, search_upwards

MAX_LIVE_CHARS = 200_000
"""Longest YAML that is looked at while people type; a longer one is only checked."""
_LINE_END = re.compile(r"\r\n|\r|\n")
_INSTRUCTIONS = re.compile(r"^['\"]?instructions['\"]?\s*:", re.MULTILINE)


@dataclass(frozen=True)
class EditedFile:
    """File of definitions, with the text that an editor holds."""

    path: Path
    """Path with links followed."""
    root: Path
    """The workshop's folder; for a file outside any, its own folder."""
    kind: str
    """`worker`, `workshop`, or the kind of a capability's DefinitionFiles."""
    text: str
    """Text with plain newlines, whatever the editor's are."""
    in_workshop: bool = True

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines, without their ends; there is always one."""
        return tuple(self.text.split("\n"))

    @cached_property
    def offsets(self) -> Offsets:
        """Places of offsets in the part that is YAML."""
        return Offsets(self.front)

    @cached_property
    def spans(self) -> list[Span]:
        """The keys and single values of the part that is YAML; none of a text that is too long to look at live."""
        return spans(self.front) if len(self.front) <= MAX_LIVE_CHARS else []

    def span_at(self, spot: TextPlace) -> Span | None:
        """Return the key or value at a place; None where there is none."""
        offset = self.offsets.offset(spot)
        if self.offsets.spot(offset) != spot:
            return None
        return next((one for one in self.spans if one.holds(offset)), None)

    @cached_property
    def front(self) -> str:
        """The part that is YAML, its lines numbered as in the file."""
        return split_front_matter(self.text)[0] if self.path.suffix == ".worker" else self.text

    @property
    def body_line(self) -> int | None:
        """Line, from 0, on which a worker's instructions begin below its keys; None where there are none."""
        if self.path.suffix != ".worker":
            return None
        _, body, line = split_front_matter(self.text)
        return None if body is None else line - 1

    @property
    def label(self) -> str:
        """Path of the file below the root, as messages name it."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def worker_place(self) -> WorkerPlace:
        """Place of the worker that the file defines."""
        return WorkerPlace(named_worker(self.path), self.path, self.root)

    def own_problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with a worker's file by itself, for one that no workshop knows."""
        if self.kind != "worker":
            return ()
        if len(self.text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
            return (Problem(self.label, None, f"larger than {MAX_FILE_BYTES} bytes, the most a file may have"),)
        return parse_worker(self.text, self.worker_place, sha256="").problems


def edited_file(path: Path, text: str) -> EditedFile | None:
    """Return the file of definitions at a path, with this text; None for a file that is none of ours."""
    plain = plain_lines(text)
    real = path.parent.resolve() / path.name
    real = real.resolve() if real.exists() else real
    try:
        root, inside = search_upwards(real.parent), True
    except WorkshopNotFound:
        root, inside = real.parent, False
    kind = _kind_of(real, root, plain)
    return None if kind is None else EditedFile(real, root, kind, plain, inside)


def plain_lines(text: str) -> str:
    """Return the text with a newline at the end of each line, as definitions are read; without a byte order mark."""
    return _LINE_END.sub("\n", text.removeprefix("\ufeff"))


def held_bytes(sources: Mapping[Path, EditedFile]) -> dict[Path, bytes]:
    """Return what counts in place of the files: the bytes of each text that UTF-8 can write."""
    return {path: one.text.encode("utf-8", "surrogatepass") for path, one in sources.items()}


def _kind_of(path: Path, root: Path, text: str) -> str | None:
    if path.name == WORKSHOP_FILE:
        return "workshop"
    for files in definition_files():
        if path.name.endswith(files.suffix):
            return files.kind
    if path.suffix == ".worker":
        return "worker"
    label = path.relative_to(root).as_posix()
    if path.suffix not in SUFFIXES or label not in own_candidates(named_worker(path)):
        return None
    return "worker" if "/" in label or _INSTRUCTIONS.search(text) else None


def find_problems(root: Path, held: Mapping[Path, EditedFile]) -> list[Problem]:
    """Return the problems of a workshop; `held` are the open texts, by their real paths."""
    with unsaved(held_bytes(held)):
        found = check_workshop(root, run_python=False)
    ours = [one for one in held.values() if one.root == root]
    new = (problem for one in ours if not one.path.exists() for problem in one.own_problems())
    return [*found, *new, *(problem for one in ours for problem in _saved_otherwise(one))]


def _saved_otherwise(file: EditedFile) -> Iterator[Problem]:
    """Yield what is wrong with a file whose text an editor can show, and nobody else can read."""
    try:
        saved = read_bytes(file.path, file.root)
    except Unreadable:
        return
    try:
        decode(saved, file.label)
    except Unreadable as error:
        yield Problem(file.label, None, str(error), next_step="Save it as UTF-8.")


def saved_lines(file: str, root: Path) -> Sequence[str]:
    """Return the lines of a file of the workshop, as it is on disk; none of one that the workshop may not read."""
    try:
        return plain_lines(read_bytes(root / file, root).decode("utf-8", "replace")).split("\n")
    except (Unreadable, ValueError):
        return ()
