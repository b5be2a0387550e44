"""Reviews of a layer: its sections, the answers of people with the words for the model, and the steps of a commit.

Changes that give power are apart from all others: each section of a review is decided by itself. The manifest has all
that people are shown of a layer, in one blob. It says which change belongs to which section, as only the workshop knows
that, and somebody who decides may be on another machine.

The words about what was not accepted are bounded, whatever the review: differences are left out first, then names. A
rebase leaves nothing out: what somebody else has changed, too, stays in the layer, so that people see it and may still
take it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.files.protection import RESERVED_FOLDERS, Protection, folded
from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    NO_LAYER,
    Digest,
    FileBase,
    Layer,
    LayerChange,
    LayerEntry,
    LayerNode,
    above,
    alike,
    changes_of,
    check_node,
    folder_node,
    is_file,
    is_folder,
    layer_of,
    lies_below,
    renames_in,
    same_content,
    seen_kind,
)
from llm_do_temporal.policy.layers.merge import ConflictKind, LayerConflict, against
from llm_do_temporal.policy.values import Value, words


def joined(layer: Layer, paths: Iterable[str]) -> set[str]:
    """Return the paths, and all that must be accepted with them.

    Both paths of a renamed file; folders that a new file needs; all that is in a folder that goes. Raises
    DecisionRefused for a path that has not changed.
    """
    return _with_all(paths, Needs(layer).of)


def needing(layer: Layer, paths: Iterable[str]) -> set[str]:
    """Return the paths, and all that is not accepted where they are not.

    All that is in a folder among them, whatever has changed of the folder itself; both paths of a renamed file; the
    folders that go with a file in them.
    """
    needs = Needs(layer)
    return _with_all([one for path in paths for one in (path, *needs.inside(path))], needs.of_others)


def _with_all(paths: Iterable[str], next_to: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the paths, and all that is reached from them by going to those next to each."""
    waiting, found = list(paths), set[str]()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += next_to(path)
    return found


class Needs:
    """Paths that changes of a layer need: what must be accepted together."""

    def __init__(self, layer: Layer) -> None:
        self._entries = layer.changes
        self._paths = list(self._entries)
        self._partners: dict[str, str] = {}
        for new, old in renames_in(self._entries).items():
            self._partners |= {new: old, old: new}

    def of(self, path: str) -> set[str]:
        """Return the paths that a change needs itself; what these need, too, is not looked at.

        Raises DecisionRefused for a path that has not changed.
        """
        entry = changed_entry(self._entries, path)
        found = self._partner(path)
        if entry.now is not None:
            found |= {one for one in above(path) if one in self._entries and _becomes_folder(self._entries[one])}
        if _folder_goes(entry):
            found |= set(self._below(path))
        return found

    def of_others(self, path: str) -> set[str]:
        """Return the paths that need this one themselves. Raises DecisionRefused for a path that has not changed."""
        entry = changed_entry(self._entries, path)
        found = self._partner(path)
        if _becomes_folder(entry):
            found |= {one for one in self._below(path) if self._entries[one].now is not None}
        return found | {one for one in above(path) if one in self._entries and _folder_goes(self._entries[one])}

    def inside(self, path: str) -> list[str]:
        """Return all changed paths below a path that is a folder, or was one; none for others.

        Raises DecisionRefused for a path that has not changed.
        """
        entry = changed_entry(self._entries, path)
        return self._below(path) if is_folder(entry.now) or is_folder(entry.base) else []

    def _partner(self, path: str) -> set[str]:
        """Return the other path of a renamed file, if it is one."""
        return {self._partners[path]} if path in self._partners else set()

    def _below(self, path: str) -> list[str]:
        # The paths are sorted, and all below a folder stand together.
        start, end = (bisect_left(self._paths, path + char) for char in ("/", "0"))
        return self._paths[start:end]


def changed_entry(changes: Mapping[str, LayerEntry], path: str) -> LayerEntry:
    """Return the entry of a changed path. Raises DecisionRefused for a path that has not changed."""
    if path not in changes:
        raise DecisionRefused(f"'{path}' is not among the changes", next_step="Look at the review again.")
    return changes[path]


def accepted(layer: Layer, paths: Iterable[str], edited: Mapping[str, LayerNode] | None = None) -> Layer:
    """Return exactly the changes of these paths, and of all that is `joined` to them, as a layer.

    `edited` has the nodes of files that are accepted in part, or that a person has changed. Raises DecisionRefused.
    """
    edited = edited or {}
    entries = layer.changes
    chosen = {path: entries[path] for path in sorted(joined(layer, [*paths, *edited]))}
    for path, node in edited.items():
        if not (is_file(chosen[path].now) and is_file(node)):
            raise DecisionRefused(f"'{path}' is no file, so no part of it can be accepted")
        check_node(node, path)
        chosen[path] = chosen[path].model_copy(update={"now": node})
    return layer_of(chosen)


def _folder_goes(entry: LayerEntry) -> bool:
    return is_folder(entry.base) and not is_folder(entry.now)


def _becomes_folder(entry: LayerEntry) -> bool:
    return is_folder(entry.now) and not is_folder(entry.base)


_AUTOMATION_FOLDERS = words(
    """
    .github/workflows .github/actions .gitlab .circleci .buildkite .woodpecker .forgejo/workflows .gitea/workflows .ci
    .devcontainer .vscode .idea .zed .claude .cursor
    """
)
_AUTOMATION_FILES = words(
    """
    .gitlab-ci.yml .gitlab-ci.yaml .travis.yml .drone.yml .woodpecker.yml .woodpecker.yaml .appveyor.yml
    .devcontainer.json .mcp.json .pre-commit-config.yaml .gitattributes .gitmodules .envrc appveyor.yml
    azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml cloudbuild.yaml codeowners jenkinsfile
    lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml
    """
)


class Section(StrEnum):
    """Part of a review that is decided by itself."""

    ORDINARY = "ordinary"
    WORKERS = "workers"
    """Workers that a model has made with `worker_create`."""
    DEFINITIONS = "definitions"
    """Files that define workers or the workshop: whoever writes them can give a worker power."""
    AUTOMATION = "automation"
    """State and hooks of version control, and what servers, editors and coding agents run by themselves."""
    LINKS_OUT = "links_out"
    """Links that lead out of the workshop."""


CAPABILITIES = {
    Section.ORDINARY: "changes.commit",
    Section.WORKERS: "worker.create",
    Section.DEFINITIONS: "sandbox.write.definitions",
    Section.AUTOMATION: "changes.commit.automation",
    Section.LINKS_OUT: "changes.commit.links_out",
}
"""Capability that each section needs: the rules for files that define are the same whichever way they are written."""


def section_of(change: LayerChange, protection: Protection) -> Section:
    """Return the section of a change: of a renamed file, the stricter one of its two paths."""
    found = {_section_of_path(path, protection) for path in change.paths}
    strictest = next(one for one in (Section.DEFINITIONS, Section.AUTOMATION, Section.ORDINARY) if one in found)
    return Section.LINKS_OUT if strictest is Section.ORDINARY and change.leads_out else strictest


def _section_of_path(path: str, protection: Protection) -> Section:
    parts = folded(path)
    is_named = parts[-1] in _AUTOMATION_FILES
    # The ending of `.gitlab-ci.yaml` would make it a definition, but no worker can have such a name.
    if not RESERVED_FOLDERS.isdisjoint(parts) or (is_named and parts[-1].startswith(".")):
        return Section.AUTOMATION
    if protection.protects(path):
        return Section.DEFINITIONS
    # Wherever it lies: a folder of the workshop may be the top of a repository.
    joined_parts = f"/{'/'.join(parts)}/"
    is_inside = any(f"/{folder}/" in joined_parts for folder in _AUTOMATION_FOLDERS)
    return Section.AUTOMATION if is_named or is_inside else Section.ORDINARY


class ReviewManifest(Value):
    """Layer as it is reviewed, over the files as they are now."""

    layer: Layer
    """All changes, with the bytes of both sides kept."""
    sections: Mapping[Section, tuple[str, ...]]
    """Changed paths of each section, sorted: each belongs to one of them, and a renamed file with both of its paths."""
    conflicts: Mapping[str, str] = {}
    """Reason, in words, for each changed path that somebody else has changed meanwhile, too."""
    found: Mapping[str, LayerNode | None] = {}
    """Node that the layer found at first, for conflicts in files: one that is kept is a conflict in the next review."""
    working: Digest | None = None
    """Blob with the layer of the invocation, over the workshop's files, where the review is about a git branch."""

    def of(self, section: Section) -> Layer:
        """Return exactly the changes of a section."""
        return layer_of({path: self.layer.entries[path] for path in self.sections.get(section, ())})

    def changes(self, section: Section) -> tuple[LayerChange, ...]:
        """Return the changes of a section as people see them."""
        return changes_of(self.of(section))

    def conflicts_of(self, section: Section) -> dict[str, str]:
        """Return the reasons of the conflicts in a section, by path."""
        return {path: self.conflicts[path] for path in self.sections.get(section, ()) if path in self.conflicts}


def sections_of(
    layer: Layer, protection: Protection, created: Mapping[str, Digest] | None = None
) -> dict[Section, tuple[str, ...]]:
    """Return the changed paths of each section, in the order of the sections; none without a change.

    `created` has the digests of the worker files that were made, and checked, by `worker_create`. A file that is not
    any more as it was made is a definition like any other. A folder goes with what is in it, where all of that is of
    one section that is not ordinary.
    """
    by_path: dict[str, Section] = {}
    plain: set[str] = set()
    for change in changes_of(layer):
        section, now = section_of(change, protection), change.now
        is_created = change.base is None and now is not None and now.sha256 == (created or {}).get(change.path)
        if section is Section.DEFINITIONS and is_created:
            section = Section.WORKERS
        if section in (Section.ORDINARY, Section.DEFINITIONS) and all(
            is_folder(node) for node in (change.now, change.base) if node is not None
        ):
            plain.add(change.path)
        by_path |= dict.fromkeys(change.paths, section)
    inside: defaultdict[str, set[Section]] = defaultdict(set)
    for path in by_path.keys() - plain:
        for folder in above(path):
            inside[folder].add(by_path[path])
    for path in plain:
        if len(inside[path]) == 1 and Section.ORDINARY not in inside[path]:
            by_path[path] = next(iter(inside[path]))
    found = {section: tuple(sorted(path for path in by_path if by_path[path] is section)) for section in Section}
    return {section: paths for section, paths in found.items() if paths}


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
    stays = {path: rest.entries[path] for path in sorted(kept)}
    for path in stays.keys() & manifest.found.keys():
        if alike(stays[path].base, layer.entries[path].base):
            # Somebody else has changed it, and all of it stays: it is over what the layer found at first.
            stays[path] = stays[path].model_copy(update={"base": manifest.found[path]})
    return Settlement(accepted=part, rest=rest, kept=layer_of(stays), left_out=left_out)


def check_file(layer: Layer, path: str) -> LayerEntry:
    """Return the entry of a changed file. Raises DecisionRefused for a path that has not changed, or is no file now."""
    entry = changed_entry(layer.changes, path)
    if not is_file(entry.now):
        raise DecisionRefused(f"'{path}' is no file, so no part of it can be accepted")
    return entry


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


@dataclass
class _Room:
    """Characters that are left."""

    differences: int = MAX_DIFFERENCES
    comments: int = MAX_COMMENT_CHARS


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
        if file.difference and len(file.difference) <= room.differences:
            room.differences -= len(file.difference)
            shown.append(f"{_one_line(file.path)}:\n{file.difference.rstrip()}")
        else:
            names.append(file.path)
    return "\n".join([*shown, *([_listed(names)] if names else [])])


def _comments(comments: Sequence[LineComment], room: _Room) -> str:
    lines: list[str] = []
    for number, comment in enumerate(comments):
        where = _one_line(comment.path) + ("" if comment.line is None else f":{comment.line}")
        line = f"{where}: " + "\n    ".join(comment.text.splitlines())
        room.comments -= len(line)
        if room.comments < 0:
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


class Rebase(Value):
    """Result of a rebase."""

    layer: Layer
    conflicts: Mapping[str, str] = {}
    """Reason, in words, for each path that is not accepted but by its name."""
    found: Mapping[str, LayerNode | None] = {}
    """Node that the layer found at first, for each conflict that begins from another one now."""


def rebased(layer: Layer, base: FileBase, *, folds: bool = False) -> Rebase:
    """Return the layer over the base as it is now; `base` and `folds` are as for `against`.

    A path that both have changed begins from what is there now. Folders that are gone, and that something of it lies
    in, are made again by it. What can only be refused (a folder that is to go and has something new in it, a file
    where a folder is needed, names in other capitals) stays in it, and a commit of it is refused with the same words.
    """
    merge = against(layer, base, folds=folds)
    entries = dict(merge.layer.entries)
    found: dict[str, str] = {}
    for conflict in merge.conflicts:
        entry = layer.entries[conflict.path]
        if conflict.kind is ConflictKind.BOTH_CHANGED and not alike(conflict.theirs, FOREIGN):
            entry = entry.model_copy(update={"base": conflict.theirs})
        entries[conflict.path] = entry
        found[conflict.path] = _reason(conflict)
    for conflict in (one for one in merge.conflicts if one.ours is not None):
        author = layer.entries[conflict.path].author
        for folder in above(conflict.path):
            if folder not in entries and seen_kind(base, folder) is None:
                # It is gone, and made again.
                entries[folder] = LayerEntry(now=folder_node(), base=None, author=author)
                found[folder] = "somebody has removed this folder, and a file of these changes lies in it"
    for change in changes_of(layer):
        # A renamed file would be there twice, or not at all, if one of its paths were left out.
        other = next((path for path in change.paths if path in found), None)
        if other is not None:
            for path in change.paths:
                found.setdefault(path, f"it is one file with '{other}', which somebody else has changed")
    conflicts = {path: found[path] for path in sorted(found) if path in entries}
    first = {path: layer.entries[path].base for path in conflicts if path in layer.entries}
    return Rebase(
        layer=layer_of(entries),
        conflicts=conflicts,
        found={path: node for path, node in first.items() if not alike(node, entries[path].base)},
    )


def _reason(conflict: LayerConflict) -> str:
    if alike(conflict.theirs, FOREIGN):
        return "something is there now that can be in no layer, and stays"
    if conflict.kind is ConflictKind.BOTH_CHANGED:
        return "somebody else has removed it" if conflict.theirs is None else "somebody else has changed it"
    return str(conflict.kind)


_PROGRAM, _FILE = 0o755, 0o644


def for_git(layer: Layer) -> Layer:
    """Return the changes that git can hold: it has no folders, and knows of a file whether it is a program."""
    entries: dict[str, LayerEntry] = {}
    for path, entry in layer.changes.items():
        kept = entry.model_copy(update={"now": _for_git(entry.now), "base": _for_git(entry.base)})
        if kept.is_change:
            entries[path] = kept
    return layer_of(entries)


def worked_on(layer: Layer, reviewed: Layer, accepted: Layer, kept: Layer) -> Layer:
    """Return the layer of an invocation after changes were committed to a branch, and not to the files below it.

    What was accepted stays in it, since the files are as they were; of what was `reviewed` and neither accepted nor
    `kept` nothing is left.
    """
    entries: dict[str, LayerEntry] = {}
    gone: set[str] = set()
    for path, entry in layer.entries.items():
        if path in kept.entries or path not in reviewed.entries:
            entries[path] = entry
        elif path in accepted.entries:
            now = accepted.entries[path].now
            entries[path] = entry if same_content(now, entry.now) else entry.model_copy(update={"now": now})
        else:
            gone.add(path)
    for path in gone:
        # A file that is back needs its folders, too.
        for folder in above(path):
            if folder in entries and not is_folder(entries[folder].now):
                del entries[folder]
    return layer_of(entries)


def _for_git(node: LayerNode | None) -> LayerNode | None:
    if is_file(node):
        return node.with_mode(_PROGRAM if node.mode & 0o100 else _FILE)
    return None if is_folder(node) else node


class StepKind(StrEnum):
    """Kind of a step."""

    PUT = "put"
    """A file or link is put into its place, whole."""
    MODE = "mode"
    """A file or folder gets other permissions."""
    MAKE = "make"
    """A folder is made."""
    REMOVE = "remove"
    """A file, a link or an empty folder goes."""


class CommitStep(Value):
    """Step of a commit. Done twice, it changes nothing the second time."""

    kind: StepKind
    path: str
    before: LayerNode | None
    """Node that has to be there; None: nothing is there."""
    after: LayerNode | None
    """Node that is there once the step is done; None: nothing is there."""


def steps_of(layer: Layer) -> tuple[CommitStep, ...]:
    """Return the steps that make the changes of a layer real, in an order in which each finds what it needs.

    What makes room comes first: files and folders that make way for a node of another kind. Then folders, the outer
    ones first; then files and links; then what goes for good, the inner ones first; permissions of folders last, since
    one that nobody may write to takes no files.
    """
    entries = layer.changes
    room: list[CommitStep] = []
    made: list[CommitStep] = []
    put: list[CommitStep] = []
    removed: list[CommitStep] = []
    modes: list[CommitStep] = []
    for path, entry in entries.items():
        now, base = entry.now, entry.base
        if now is None:
            removal = CommitStep(kind=StepKind.REMOVE, path=path, before=base, after=None)
            # Where a folder above the path turns into a file or link, what is in it has to go first.
            over = (entries[folder].now for folder in above(path) if folder in entries)
            makes_room = any(node is not None and not is_folder(node) for node in over)
            (room if makes_room else removed).append(removal)
            continue
        before = base
        if base is not None and is_folder(now) != is_folder(base):
            room.append(CommitStep(kind=StepKind.REMOVE, path=path, before=base, after=None))
            before = None
        if is_folder(now) and before is None:
            # Until all is in it, its owner may write to it.
            before = now.with_mode(0o700)
            made.append(CommitStep(kind=StepKind.MAKE, path=path, before=None, after=before))
        if same_content(now, before):
            modes.append(CommitStep(kind=StepKind.MODE, path=path, before=before, after=now))
        else:
            put.append(CommitStep(kind=StepKind.PUT, path=path, before=before, after=now))
    return (*reversed(room), *made, *put, *reversed(removed), *reversed(modes))
