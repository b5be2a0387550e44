"""Layer: changes of files, path by path, over a base that they leave as it is.

A layer holds for each path that was touched the node that is there now, the node that was in the base when the path was
first touched, and its author. It never holds a folder for all that is in it: a deleted folder is an entry for each file
below it. So every change can be compared, shown, accepted and carried out by itself.

A layer grows by `with_updates`: calls return the entries that they changed, not the whole. To an activity it travels as
`CarriedLayer`: a blob with most of it, and beside that the entries that have changed since. A layer that went along
whole with each call would make a history grow with the square of the work.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Protocol, TypeGuard, cast

from pydantic import Field, ModelWrapValidatorHandler, model_serializer, model_validator

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER, TEMPORARY_NAME, Place, join
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.values import Value

MAX_NAME_BYTES = 255
"""Longest name of a file that common file systems take."""
MAX_PATH_BYTES = 3_500
"""Longest path: the kernel takes 4,096 bytes, and the workshop's own path stands before it."""
MAX_LINKS = 40
"""Most links on the way to one file; the kernel gives up after as many, too."""
MAX_LINK_PARTS = 200
"""Most names that the links on one way may lead through."""


def path_of(place: Place) -> str:
    """Return the path in a layer of a place in a worker's tree. Raises SandboxRefusal."""
    return checked_path(join(place.mount.root, place.relative))


def checked_path(path: str) -> str:
    """Return the path. Raises SandboxRefusal unless a file or folder of a layer can have it."""
    parts = path.split("/")
    if not all(parts) or not {".", ".."}.isdisjoint(parts):
        raise SandboxRefusal(f"'{path}' is no path of a layer: names joined by '/', and none of them '.' or '..'")
    for part in parts:
        check_name(part, path)
    if len(path.encode()) > MAX_PATH_BYTES:
        raise SandboxRefusal(f"the path '{path[:80]}…' has more than the {MAX_PATH_BYTES} bytes that a path may have")
    return path


def check_name(name: str, path: str) -> None:
    """Raise SandboxRefusal unless one part of the path can be the name of a file in a layer."""
    if not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
        raise SandboxRefusal(f"the name of '{shown(path)}' is not UTF-8", next_step="Give the file another name.")
    if "\0" in name:
        raise SandboxRefusal("a path cannot contain a NUL character")
    if len(name) > MAX_NAME_BYTES or len(name.encode()) > MAX_NAME_BYTES:
        raise SandboxRefusal(f"the name '{name[:80]}…' has more than the {MAX_NAME_BYTES} bytes that a name may have")
    if folded_name(name) == STATE_FOLDER or TEMPORARY_NAME.fullmatch(name):
        raise SandboxRefusal(
            f"'{path}' is a name that llm-do-temporal keeps for its own files", next_step="Choose another name."
        )


def shown(path: str) -> str:
    """Return a path with bytes that are no UTF-8 as escapes, so that any message can hold it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the top."""
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        yield path


def parent_of(path: str) -> str:
    """Return the folder that the path lies in; empty at the top."""
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def below(folder: str, name: str) -> str:
    """Return the path of `name` in `folder`; an empty folder is the top."""
    return f"{folder}/{name}" if folder else name


def lies_below(path: str, folder: str) -> bool:
    """Return whether the path lies below the folder, and is not the folder itself."""
    return not folder or path.startswith(f"{folder}/")


def folded_name(name: str) -> str:
    """Return the form in which names are the same file where a file system tells neither capitals nor composed
    characters apart."""
    return (name if name.isascii() else unicodedata.normalize("NFKC", name)).casefold()


def clashes(paths: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of paths, sorted, that such a file system takes for one: each has at least two."""
    groups: dict[str, set[str]] = {}
    for path in paths:
        # A clash of two folders is one of every file below them; the shortest paths tell it.
        for one in (path, *above(path)):
            groups.setdefault(folded_name(one), set()).add(one)
    found = [tuple(sorted(group)) for group in groups.values() if len(group) > 1]
    heads = {path for group in found for path in group}
    return tuple(sorted(group for group in found if not any(one in heads for path in group for one in above(path))))


def leads_out(path: str, target: str) -> bool:
    """Return whether a link at the path leads out of the workshop, or into the product's own state, by its text.

    An absolute one always does.
    """
    depth = path.count("/")
    for part in PurePosixPath(target).parts:
        if part == "/" or folded_name(part) == STATE_FOLDER:
            return True
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
NEW_FILE_MODE = 0o644
NEW_FOLDER_MODE = 0o755
_FILE = re.compile(r"f([0-7]{1,4}) ([0-9a-f]{64}) (\d{1,15})(?: (=|[0-9a-f]{64}))?")
_FOLDER = re.compile(r"d([0-7]{1,3})")


class NodeKind(StrEnum):
    """Kind of a node."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"


class LayerNode(Value):
    """File, link or folder. It is written as a short text: a layer has thousands, and crosses Temporal."""

    kind: NodeKind
    mode: int = Field(default=0, ge=0, le=0o7777)
    """Permission bits; of links none, as these have none of their own. Only files that were there before any layer
    can have bits of the set-id kind."""
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    """Digest of a file's bytes; empty for others."""
    bytes: int = Field(default=0, ge=0)
    """Size of a file."""
    blob: Digest | None = None
    """Name in the blob store under which a file's bytes are kept; None: they are only in the file itself."""
    target: str = Field(default="", max_length=MAX_PATH_BYTES)
    """Text of a link."""

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: object, handler: ModelWrapValidatorHandler[LayerNode]) -> LayerNode:
        return node_of(data) if isinstance(data, str) else handler(data)

    @model_serializer
    def text(self) -> str:
        """Return the short text of the node."""
        return self.seen + ("" if self.blob is None else " =" if self.blob == self.sha256 else f" {self.blob}")

    @property
    def seen(self) -> str:
        """The short text without where the bytes are kept: what somebody sees who looks at the files."""
        if self.kind is NodeKind.LINK:
            return f"l{self.target}"
        if self.kind is NodeKind.FOLDER:
            return f"d{self.mode:o}"
        return f"f{self.mode:o} {self.sha256} {self.bytes}"

    def with_mode(self, mode: int) -> LayerNode:
        """Return the node with other permission bits."""
        return self.model_copy(update={"mode": mode})


FOREIGN = LayerNode(kind=NodeKind.LINK)
"""Node of what no layer can hold, such as a pipe: it is like no other, as no link is without a text."""


class FileBase(Protocol):
    """Files that a layer lies over. No method follows a link: what lies behind one is not there.

    `kind`, `look` and `kept` raise SandboxRefusal for what no layer can hold: special files, names that are no UTF-8.
    """

    def kind(self, path: str) -> NodeKind | None:
        """Return the kind of the node at the path; None where there is none."""
        ...

    def look(self, path: str) -> LayerNode | None:
        """Return the node at the path; None where there is none."""
        ...

    def kept(self, path: str) -> LayerNode | None:
        """Return the node at the path, the bytes of a file kept in the blob store."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Return all names in a folder, sorted; none where the path is no folder. The top's path is empty."""
        ...


def is_file(node: LayerNode | None) -> TypeGuard[LayerNode]:
    """Return whether there is a file."""
    return node is not None and node.kind is NodeKind.FILE


def is_folder(node: LayerNode | None) -> TypeGuard[LayerNode]:
    """Return whether there is a folder."""
    return node is not None and node.kind is NodeKind.FOLDER


def seen_node(base: FileBase, path: str) -> LayerNode | None:
    """Return the node at the path; FOREIGN where no layer can hold it, and None where there is none."""
    try:
        return base.look(path)
    except SandboxRefusal:
        return FOREIGN


def seen_kind(base: FileBase, path: str) -> NodeKind | None:
    """Return the kind of the node at the path, that of FOREIGN where no layer can hold it; None where there is none."""
    try:
        return base.kind(path)
    except SandboxRefusal:
        return FOREIGN.kind


def file_node(sha256: str, size: int, *, blob: str | None, mode: int = NEW_FILE_MODE) -> LayerNode:
    """Return a file of `size` bytes."""
    return LayerNode(kind=NodeKind.FILE, mode=mode, sha256=sha256, bytes=size, blob=blob)


def folder_node(mode: int = NEW_FOLDER_MODE) -> LayerNode:
    """Return a folder."""
    return LayerNode(kind=NodeKind.FOLDER, mode=mode)


def link_node(target: str, path: str = "") -> LayerNode:
    """Return a symbolic link (at `path`, for messages). Raises SandboxRefusal where no link can have this text."""
    link = f"the link '{path}'" if path else "a link"
    if not target or "\0" in target or any("\ud800" <= char <= "\udfff" for char in target):
        raise SandboxRefusal(f"the text of {link} is empty, is not UTF-8, or contains a NUL character")
    if len(target.encode()) > MAX_PATH_BYTES:
        raise SandboxRefusal(f"the text of {link} has more than the {MAX_PATH_BYTES} bytes that it may have")
    return LayerNode(kind=NodeKind.LINK, target=target)


def node_of(text: str) -> LayerNode:
    """Return the node with this short text. Raises ValueError where none has."""
    if text.startswith("l"):
        try:
            return link_node(text[1:])
        except SandboxRefusal as error:
            raise ValueError(str(error)) from error
    if found := _FOLDER.fullmatch(text):
        return LayerNode.model_construct(kind=NodeKind.FOLDER, mode=int(found[1], 8))
    if not (found := _FILE.fullmatch(text)):
        raise ValueError(f"'{text[:80]}' describes neither a file nor a link nor a folder")
    mode, sha256, size, blob = found.groups()
    name = sha256 if blob == "=" else blob
    return LayerNode.model_construct(
        kind=NodeKind.FILE, mode=int(mode, 8), sha256=sha256, bytes=int(size), blob=name, target=""
    )


def alike(one: LayerNode | None, other: LayerNode | None) -> bool:
    """Return whether two nodes are the same for whoever looks at the files: kind, permissions, bytes, text of a link.

    None: nothing is there.
    """
    return same_content(one, other) and (one is None or other is None or one.mode == other.mode)


def same_content(one: LayerNode | None, other: LayerNode | None) -> bool:
    """Return whether two nodes differ in nothing but their permissions."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.sha256, one.target) == (other.kind, other.sha256, other.target)


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
    if is_file(node) and not node.sha256:
        raise SandboxRefusal(f"'{path}' is a file without a digest")


def misplaced_in(entries: Mapping[str, LayerEntry], paths: Iterable[str]) -> list[str]:
    """Return those of the paths where something is, though an entry above them says that no folder is there."""
    found: list[str] = []
    for path in paths:
        if entries[path].now is None:
            continue
        if any(folder in entries and not is_folder(entries[folder].now) for folder in above(path)):
            found.append(path)
    return found


def _unpacked(data: dict[Any, Any]) -> dict[str, Any]:
    authors = [LayerAuthor(invocation=invocation, turn=turn) for invocation, turn in data["by"]]
    entries: dict[str, Any] = {}
    for path, (number, now, base) in data["at"].items():
        entries[path] = {"author": authors[number], "now": now, "base": base}
    return {"entries": entries}


NO_LAYER = Layer()


MAX_RECENT = 16
"""Most entries beside a manifest before a new one is kept: some 3 KB."""


class LayerUpdate(Value):
    """Changes of a layer by an activity."""

    entries: Layer = NO_LAYER
    """Entries that have changed, as they are now."""
    manifest: Digest | None = None
    """Blob with the layer as it was before `entries`, where a new one was kept; None: that of before holds."""


class CarriedLayer(Value):
    """Layer on its way."""

    manifest: Digest | None = None
    """Blob with an earlier state of the layer; None: there is none yet."""
    recent: Layer = NO_LAYER
    """Entries that have changed since."""

    @property
    def is_long(self) -> bool:
        """Whether whoever gets it should keep a new manifest."""
        return len(self.recent.entries) > MAX_RECENT

    def updated(self, update: LayerUpdate) -> CarriedLayer:
        """Return the layer after an activity has changed it."""
        if update.manifest is not None:
            return CarriedLayer(manifest=update.manifest, recent=update.entries)
        return self.model_copy(update={"recent": self.recent.with_updates(update.entries)})


def carried(layer: Layer, manifest: str | None = None, manifest_layer: Layer = NO_LAYER) -> CarriedLayer:
    """Return the layer as it travels, where the blob `manifest` has `manifest_layer`, an earlier state of it."""
    return CarriedLayer(manifest=manifest, recent=layer.updates_since(manifest_layer))


class LayerChangeKind(StrEnum):
    """Kind of a change."""

    ADDED = "added"
    MODIFIED = "modified"
    MODE = "mode"
    DELETED = "deleted"
    RENAMED = "renamed"


class LayerChange(Value):
    """Change of one path, or of two where a file was renamed."""

    kind: LayerChangeKind
    path: str
    now: LayerNode | None
    base: LayerNode | None
    """Node before the change: of a renamed file, at its old path."""
    author: LayerAuthor
    old_path: str | None = None
    """Old path of a renamed file; None for others."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the change touches: all or none of them are accepted."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    @property
    def leads_out(self) -> bool:
        """Whether the change makes a link that leads out of the workshop."""
        return self.now is not None and self.now.kind is NodeKind.LINK and leads_out(self.path, self.now.target)


def changes_of(layer: Layer) -> tuple[LayerChange, ...]:
    """Return the changes in the order of their paths. A file that is gone from one path, and is with the same bytes at
    a new one, was renamed."""
    entries = layer.changes
    old_paths = renames_in(entries)
    gone = set(old_paths.values())
    found: list[LayerChange] = []
    for path, entry in entries.items():
        old = old_paths.get(path)
        if old is not None:
            kind, base = LayerChangeKind.RENAMED, entries[old].base
            found.append(LayerChange(kind=kind, path=path, now=entry.now, base=base, author=entry.author, old_path=old))
        elif path not in gone:
            kind = _kind_of(entry)
            found.append(LayerChange(kind=kind, path=path, now=entry.now, base=entry.base, author=entry.author))
    return tuple(found)


def renames_in(entries: Mapping[str, LayerEntry]) -> dict[str, str]:
    """Return the old path of every file that was renamed, by its new one."""
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for path, entry in entries.items():
        if entry.now is None and is_file(entry.base) and entry.base.bytes:
            gone[entry.base.sha256].append(path)
    found: dict[str, str] = {}
    added = [path for path, entry in entries.items() if entry.base is None]
    # Of several files with the same bytes, those that kept their name first.
    for same_name in (True, False):
        for path in added:
            node = entries[path].now
            if path in found or not is_file(node):
                continue
            fitting = (old for old in gone[node.sha256] if not same_name or name_of(old) == name_of(path))
            if (old := next(fitting, None)) is not None:
                gone[node.sha256].remove(old)
                found[path] = old
    return found


def _kind_of(entry: LayerEntry) -> LayerChangeKind:
    if entry.now is None:
        return LayerChangeKind.DELETED
    if entry.base is None:
        return LayerChangeKind.ADDED
    return LayerChangeKind.MODE if same_content(entry.now, entry.base) else LayerChangeKind.MODIFIED
