"""Settlement of a review: the layer that people have accepted, and the layer that is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.changes import Needs, accepted, joined
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerEntry, layer_of
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, alike
from llm_do_temporal.policy.layers.review import ReviewManifest
from llm_do_temporal.policy.layers.sections import Section
from llm_do_temporal.policy.values import Value


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
    entry = layer.changes.get(path)
    if entry is None:
        raise DecisionRefused(f"'{path}' is not among the changes", next_step="Look at the review again.")
    if entry.now is None or entry.now.kind is not NodeKind.FILE:
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
    return entry.base is None and entry.now is not None and entry.now.kind is NodeKind.FOLDER
