"""Answers of people to a review: what they accept, the layers that result, and the words for the model about the rest.

The words are bounded, whatever the review: differences are left out first, then names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.extensions.review.policy.sections import (
    Needs,
    ReviewManifest,
    Section,
    accepted,
    changed_entry,
    joined,
)
from llm_do_temporal.policy.layers.layer import (
    NO_LAYER,
    Digest,
    Layer,
    LayerEntry,
    LayerNode,
    alike,
    is_file,
    is_folder,
    layer_of,
    lies_below,
)
from llm_do_temporal.policy.values import Value

ALL = "/"
"""Name of the folder in which all changes are: no file can have it."""
_FORMER_ALL = "*"
"""Name that stood for all changes, and may be a file's."""
_LITERAL = "./"
"""Beginning of a name that is a path, whatever else it could mean."""
MAX_COMMENTS = 200
Words = Annotated[str, Field(min_length=1, max_length=4_000)]


class LineComment(Value):
    """Remark of a person on a changed file."""

    path: str
    line: int | None = Field(default=None, ge=1)
    """Number of the line in the changed file, from 1; None: the file as a whole."""
    text: Words


class ReviewAnswer(Value):
    """Arguments of the question that a review asks. As it is asked, all changes are accepted but conflicts."""

    changes: Digest
    """Digest of the changes that were shown."""
    accept: tuple[str, ...] = (ALL,)
    """Paths that are accepted as a whole. One that ends in `/` stands for all below it that is no conflict, and `/` for
    all changes that are none. `./PATH` is the change of this path alone. `*` is an earlier name of `/`, and is refused
    where a changed file is called so."""
    hunks: Mapping[str, tuple[str, ...]] = {}
    """Ids of the hunks that are accepted, of files that are accepted in part."""
    edits: Mapping[str, Digest] = {}
    """Blobs with the contents that a person gave to files, which are accepted with that."""
    comments: tuple[LineComment, ...] = Field(default=(), max_length=MAX_COMMENTS)
    rest: Literal["drop", "keep"] = "drop"
    """Treatment of the changes that are not accepted: files go back to their state before, or stay as they are in the
    layer."""

    def paths(self, layer: Layer, conflicts: frozenset[str] = frozenset()) -> list[str]:
        """Return the paths among the layer's changes that are accepted as a whole.

        Raises DecisionRefused for one that is not among them.
        """
        changed = layer.changes
        taken: set[str] = set()
        for name in self.accept:
            folder = name.removesuffix("/")
            if name == _FORMER_ALL and name in changed:
                raise DecisionRefused(
                    "'*' may mean all changes, or the changed file with this name",
                    next_step="Write '/' for all changes, './*' for the file.",
                )
            if name in (ALL, _FORMER_ALL):
                found = {path for path in changed if path not in conflicts}
            elif name.startswith(_LITERAL):
                found = {name.removeprefix(_LITERAL)} & changed.keys()
            elif name.endswith("/"):
                inside = {path for path in changed if path == folder or lies_below(path, folder)}
                found = inside - conflicts
                if inside and not found:
                    raise DecisionRefused(
                        f"all that changed in '{name}' was changed by somebody else meanwhile",
                        next_step="Accept each of these files by its name.",
                    )
            else:
                found = {name} & changed.keys()
            if not found and name not in (ALL, _FORMER_ALL):
                raise DecisionRefused(f"'{name}' is not among the changes", next_step="Look at the review again.")
            taken |= found
        in_part = {*self.hunks, *self.edits}
        return [path for path in changed if path in taken and path not in in_part]


def named(path: str) -> str:
    """Return the name in `accept` that means the change of this path alone, whatever a stranger called the file."""
    return f"{_LITERAL}{path}" if path == _FORMER_ALL or path.startswith(_LITERAL) else path


class SectionChoice(Value):
    """Part of a section that people have accepted."""

    whole: tuple[str, ...] = ()
    """Paths that are accepted as they are."""
    in_part: Mapping[str, LayerNode] = {}
    """Files of which some hunks are accepted."""
    edited: Mapping[str, LayerNode] = {}
    """Files that are accepted as people have changed them."""
    keeps_rest: bool = False
    """Whether changes that are not accepted stay in the layer."""


class Settlement(Value):
    """Result of a review."""

    accepted: Layer
    rest: Layer = NO_LAYER
    """Changes that were proposed and not accepted, over the accepted ones; those of edited files are not among them."""
    kept: Layer = NO_LAYER
    """Part of the rest that stays in the layer."""
    left_out: Mapping[str, str] = {}
    """Paths that were accepted, and cannot be without another path, which was not."""


def settled(manifest: ReviewManifest, choices: Mapping[Section, SectionChoice]) -> Settlement:
    """Return what the choices come to. Raises DecisionRefused for a path that does not belong to its section.

    Each section is decided by itself: no change is accepted because one of another section needs it, but for new
    folders. So a change is left out where it needs one that was not accepted.
    """
    layer = manifest.layer
    chosen, nodes, edited = set[str](), dict[str, LayerNode](), set[str]()
    for section, choice in choices.items():
        part = manifest.of(section)
        chosen |= joined(part, [*choice.whole, *choice.in_part, *choice.edited])
        nodes |= {**choice.in_part, **choice.edited}
        edited |= choice.edited.keys()
    fresh = {path for path in manifest.sections.get(Section.ORDINARY, ()) if _is_new_folder(layer.entries[path])}
    chosen, left_out = _supported(layer, chosen, fresh - manifest.conflicts.keys())
    part = accepted(layer, chosen, {path: node for path, node in nodes.items() if path in chosen})
    since = layer.since(part).entries
    rest = layer_of({path: since[path] for path in sorted(since) if path not in edited or path in left_out})
    sections = [section for section, choice in choices.items() if choice.keeps_rest]
    kept = {path for section in sections for path in manifest.sections.get(section, ()) if path in rest.entries}
    folders = {path for path, entry in rest.entries.items() if _is_new_folder(entry)}
    kept, _missing = _supported(rest, kept, folders)
    stays = {path: _as_found(manifest, path, rest.entries[path]) for path in sorted(kept)}
    return Settlement(accepted=part, rest=rest, kept=layer_of(stays), left_out=left_out)


def check_file(layer: Layer, path: str) -> LayerEntry:
    """Return the entry of a changed file. Raises DecisionRefused for a path that has not changed, or is no file now."""
    entry = changed_entry(layer.changes, path)
    if not is_file(entry.now):
        raise DecisionRefused(f"'{path}' is no file, so no part of it can be accepted")
    return entry


def _as_found(manifest: ReviewManifest, path: str, entry: LayerEntry) -> LayerEntry:
    """Return the entry over what the layer found at first, where somebody else has changed that and all of it stays."""
    if path not in manifest.found or not alike(entry.base, manifest.layer.entries[path].base):
        return entry
    return entry.model_copy(update={"base": manifest.found[path]})


def _supported(layer: Layer, paths: Collection[str], free: Collection[str]) -> tuple[set[str], dict[str, str]]:
    """Return the paths that need no others but those of `free`, and these; and of the others what each lacks."""
    needs = Needs(layer)
    held, lacking = set(paths), dict[str, str]()
    waiting = sorted(held)
    while waiting:
        missing = {path: needs.of(path) - held - set(free) for path in waiting}
        lost = {path: min(lacks) for path, lacks in missing.items() if lacks}
        lacking |= lost
        held -= lost.keys()
        waiting = sorted(held) if lost else []
    return held | {folder for path in held for folder in needs.of(path) if folder in free}, lacking


def _is_new_folder(entry: LayerEntry) -> bool:
    return entry.base is None and is_folder(entry.now)


MAX_DIFFERENCES = 6_000
"""Most characters of differences."""
MAX_NAMES = 100
"""Most paths that one list names."""
MAX_COMMENT_CHARS = 40_000
"""Most characters of comments."""


class PathDifference(Value):
    """Path with the difference that is told of it."""

    path: str
    difference: str = ""
    """Body of a unified diff; empty where there is none to show."""


class ReturnedSection(Value):
    """Section of a review, as it comes back to the model. Paths are those that the model knows."""

    section: Section
    by: str = ""
    """Name of the person who decided; empty: nobody was asked, or nobody said a name."""
    note: str = ""
    keeps_rest: bool = False
    rejected: tuple[str, ...] = ()
    in_part: tuple[PathDifference, ...] = ()
    """Files that were accepted in part, with the difference that was not."""
    edited: tuple[PathDifference, ...] = ()
    """Files that were accepted as somebody changed them, with what they changed."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Pairs of a path that was accepted and the path it needs, which was not."""
    comments: tuple[LineComment, ...] = ()


def review_words(sections: Sequence[ReturnedSection]) -> str:
    """Return the words; empty where there is nothing to tell."""
    room = _Room()
    return "\n\n".join(part for section in sections for part in _parts(section, room))


class _Room:
    """Characters that are left."""

    def __init__(self) -> None:
        self._differences = MAX_DIFFERENCES
        self._comments = MAX_COMMENT_CHARS

    def has_difference(self, text: str) -> bool:
        if not text or len(text) > self._differences:
            return False
        self._differences -= len(text)
        return True

    def has_comment(self, text: str) -> bool:
        self._comments -= len(text)
        return self._comments >= 0


def _parts(told: ReturnedSection, room: _Room) -> Iterator[str]:
    who = _one_line(told.by) or "the review"
    of = "" if told.section is Section.ORDINARY else f" ({told.section.value.replace('_', ' ')})"
    state = "They are still among your changes" if told.keeps_rest else "They are again as they were before"
    if told.rejected:
        yield f"Not accepted{of}. {state}:\n{_listed(told.rejected)}"
    if told.in_part:
        head = f"Accepted in part{of}. What follows was not accepted, and "
        head += "is still among your changes:" if told.keeps_rest else "is not in the files:"
        yield _shown(head, told.in_part, room)
    if told.edited:
        yield _shown(f"Accepted as {who} has changed it{of}; the files have this now:", told.edited, room)
    if told.left_out:
        pairs = [f"{path}, because of {needed}" for path, needed in told.left_out]
        yield f"Left out{of}, since each needs another change that was not accepted:\n{_listed(pairs)}"
    if told.comments:
        yield f"Comments of {who}{of}:\n" + _comments(told.comments, room)
    if told.note:
        yield f"Said by {who}{of}: {told.note}"


def _shown(head: str, files: Sequence[PathDifference], room: _Room) -> str:
    shown = [head]
    names: list[str] = []
    for file in files:
        if room.has_difference(file.difference):
            shown.append(f"{_one_line(file.path)}:\n{file.difference.rstrip()}")
        else:
            names.append(file.path)
    return "\n".join([*shown, *([_listed(names)] if names else [])])


def _comments(comments: Sequence[LineComment], room: _Room) -> str:
    lines: list[str] = []
    for number, comment in enumerate(comments):
        where = _one_line(comment.path) + ("" if comment.line is None else f":{comment.line}")
        line = f"{where}: " + "\n    ".join(comment.text.splitlines())
        if not room.has_comment(line):
            lines.append(f"and {len(comments) - number} more comments")
            break
        lines.append(line)
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    lines = [f"- {_one_line(name)}" for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        lines.append(f"- and {len(names) - MAX_NAMES} more")
    return "\n".join(lines)


def _one_line(name: str) -> str:
    """Return a name in which nothing can be taken for the next line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
