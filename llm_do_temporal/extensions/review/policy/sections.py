"""Sections of a review: what belongs together among the changes of a layer, and what is decided by itself.

Changes that give power are apart from all others: each section of a review is decided by itself. The manifest has all
that people are shown of a layer, in one blob. It says which change belongs to which section, as only the workshop knows
that, and somebody who decides may be on another machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.files.protection import RESERVED_FOLDERS, Protection, folded
from llm_do_temporal.policy.layers.layer import (
    Digest,
    Layer,
    LayerChange,
    LayerEntry,
    LayerNode,
    above,
    changes_of,
    check_node,
    is_file,
    is_folder,
    layer_of,
    renames_in,
)
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
    return Section.AUTOMATION if is_named or _is_in_automation(parts) else Section.ORDINARY


def _is_in_automation(parts: tuple[str, ...]) -> bool:
    # Wherever it lies: a folder of the workshop may be the top of a repository.
    path = f"/{'/'.join(parts)}/"
    return any(f"/{folder}/" in path for folder in _AUTOMATION_FOLDERS)


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
        section = section_of(change, protection)
        if section is Section.DEFINITIONS and _is_created(change, created or {}):
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


def _is_created(change: LayerChange, created: Mapping[str, Digest]) -> bool:
    return change.base is None and change.now is not None and change.now.sha256 == created.get(change.path)
