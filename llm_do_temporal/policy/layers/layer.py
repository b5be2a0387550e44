"""Layer: changes of files, path by path, over a base that they leave as it is.

A layer holds for each path that was touched what is there now, what was in the base when it was first touched, and
whose work it is. It never holds a folder for all that is in it: a deleted folder is an entry for each file below it.
So every change can be compared, shown, accepted and carried out by itself.

A layer grows by `with_updates`: calls return the entries that they changed, not the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import Field, ModelWrapValidatorHandler, model_serializer, model_validator

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, alike
from llm_do_temporal.policy.layers.paths import above, checked_path
from llm_do_temporal.policy.values import Value

MAX_ENTRIES = 20_000
"""Most paths of one layer: some 5 MB of JSON, and more than anybody reviews at once."""
_MAX_MODE = 0o777


class LayerAuthor(Value):
    """Origin of an entry."""

    invocation: str
    """Path of the invocation in its run, such as `main/editor-1`."""
    turn: int = Field(default=0, ge=0)
    """Number of the model turn; 0 for a person."""


class LayerEntry(Value):
    """Path that was touched, in the layer and in the base."""

    now: LayerNode | None
    """Node in the layer; None: nothing is there any more."""
    base: LayerNode | None
    """Node in the base when the path was first touched; None: nothing was there."""
    author: LayerAuthor

    @property
    def is_change(self) -> bool:
        """Whether the path differs from the base; it does not where a change was taken back."""
        return not alike(self.now, self.base)


class Layer(Value):
    """Entries by path."""

    entries: Mapping[str, LayerEntry] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: object, handler: ModelWrapValidatorHandler[Layer]) -> Layer:
        layer = handler(_unpacked(cast("dict[Any, Any]", data)) if isinstance(data, dict) and "at" in data else data)
        try:
            check_entries(layer.entries)
        except SandboxRefusal as error:
            raise ValueError(str(error)) from error
        return layer

    @model_serializer
    def packed(self) -> dict[str, Any]:
        """Return the layer as short JSON: each author once, each entry as a list of author, node and base."""
        numbers: dict[LayerAuthor, int] = {}
        at: dict[str, list[Any]] = {}
        for path in sorted(self.entries):
            entry = self.entries[path]
            number = numbers.setdefault(entry.author, len(numbers))
            at[path] = [number, *(None if node is None else node.text() for node in (entry.now, entry.base))]
        return {"by": [[author.invocation, author.turn] for author in numbers], "at": at}

    @property
    def changes(self) -> dict[str, LayerEntry]:
        """Entries that differ from the base, in the order of their paths."""
        return {path: self.entries[path] for path in sorted(self.entries) if self.entries[path].is_change}

    def digest(self) -> str:
        """Return the digest of the changes: what is reviewed, decided on and committed.

        Authors do not count, nor where bytes are kept.
        """
        changes = self.changes.items()
        return digest_of([[path, *(node and node.seen for node in (one.now, one.base))] for path, one in changes])

    def of_folder(self, folder: str) -> dict[str, LayerEntry]:
        """Return the entries of the folder, of all below it, and of the folders above it: enough to read there."""
        wanted = {folder, *above(folder)}
        return {p: e for p, e in self.entries.items() if not folder or p in wanted or p.startswith(f"{folder}/")}

    def with_updates(self, updates: Layer) -> Layer:
        """Return the layer after further work, of which `updates` has the entries as they are after it."""
        return layer_of({**self.entries, **updates.entries})

    def updates_since(self, earlier: Layer) -> Layer:
        """Return the entries that have changed since an earlier state of this layer, for its `with_updates`."""
        known = earlier.entries
        # Most entries are the very same ones, and comparing what is in them takes long.
        others = {path: entry for path, entry in self.entries.items() if known.get(path) is not entry}
        return layer_of({path: entry for path, entry in others.items() if known.get(path) != entry})

    def since(self, earlier: Layer) -> Layer:
        """Return the changes since an earlier layer over the same base, as a layer over the base with that one.

        After a review with the part of it that was accepted, this is the part that was not; later, what is new.
        """
        entries: dict[str, LayerEntry] = {}
        for path in {**earlier.entries, **self.entries}:
            mine, before = self.entries.get(path), earlier.entries.get(path)
            some = mine or earlier.entries[path]
            now = some.base if mine is None else mine.now
            base = some.base if before is None else before.now
            if not alike(now, base):
                entries[path] = LayerEntry(now=now, base=base, author=some.author)
        return layer_of(entries)

    def with_layer(self, upper: Layer) -> Layer:
        """Return this layer with another one that lies over it, as one: the opposite of `since`."""
        entries = dict(self.entries)
        for path, entry in upper.entries.items():
            mine = entries.get(path)
            base = entry.base if mine is None else mine.base
            entries[path] = LayerEntry(now=entry.now, base=base, author=entry.author)
        return layer_of(entries)


def layer_of(entries: Mapping[str, LayerEntry]) -> Layer:
    """Return the layer with these entries, which are known to be fit for one. Raises SandboxRefusal for too many."""
    check_count(len(entries))
    return Layer.model_construct(entries=entries)


def check_count(count: int) -> None:
    """Raise SandboxRefusal where a layer would have too many entries."""
    if count > MAX_ENTRIES:
        raise SandboxRefusal(
            f"{count} files, links and folders would be changed; at most {MAX_ENTRIES} can be reviewed together",
            next_step="Change fewer: leave out folders that can be made again, such as those of installed packages.",
        )


def check_entries(entries: Mapping[str, LayerEntry]) -> None:
    """Raise SandboxRefusal where these entries make no layer: wherever they come from, they are not trusted."""
    check_count(len(entries))
    for path, entry in entries.items():
        checked_path(path)
        if entry.now is not None and entry.is_change:
            check_node(entry.now, path)
    misplaced = misplaced_in(entries, entries)
    if misplaced:
        raise SandboxRefusal(f"'{misplaced[0]}' lies in what is no folder in this layer")


def check_node(node: LayerNode, path: str) -> None:
    """Raise SandboxRefusal where no layer may put the node at the path."""
    if node.mode > _MAX_MODE:
        raise SandboxRefusal(
            f"'{path}' would run with the rights of its owner or group (set-id bits), which no layer can give",
            next_step="Take the bits away: chmod u-s,g-s.",
        )
    if node.kind is NodeKind.FILE and not node.sha256:
        raise SandboxRefusal(f"'{path}' is a file without a digest")


def misplaced_in(entries: Mapping[str, LayerEntry], paths: Iterable[str]) -> list[str]:
    """Return those of the paths where something is, though an entry above them says that no folder is there."""
    found: list[str] = []
    for path in paths:
        if entries[path].now is None:
            continue
        over = (entries.get(folder) for folder in above(path))
        if any(one is not None and (one.now is None or one.now.kind is not NodeKind.FOLDER) for one in over):
            found.append(path)
    return found


def _unpacked(data: dict[Any, Any]) -> dict[str, Any]:
    authors = [LayerAuthor(invocation=invocation, turn=turn) for invocation, turn in data["by"]]
    entries: dict[str, Any] = {}
    for path, (number, now, base) in data["at"].items():
        entries[path] = {"author": authors[number], "now": now, "base": base}
    return {"entries": entries}


NO_LAYER = Layer()
