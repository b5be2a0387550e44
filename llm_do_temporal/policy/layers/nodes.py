"""Nodes: what is at a path, in a layer or in the files below it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field, ModelWrapValidatorHandler, model_serializer, model_validator

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.layers.paths import MAX_PATH_BYTES
from llm_do_temporal.policy.values import Value

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


class NoFiles:
    """Base without any file."""

    def kind(self, path: str) -> NodeKind | None:
        """Return None."""
        return None

    def look(self, path: str) -> LayerNode | None:
        """Return None."""
        return None

    def kept(self, path: str) -> LayerNode | None:
        """Return None."""
        return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return no name."""
        return ()


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
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.sha256, one.target) == (other.kind, other.mode, other.sha256, other.target)


def same_content(one: LayerNode | None, other: LayerNode | None) -> bool:
    """Return whether two nodes differ in nothing but their permissions."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.sha256, one.target) == (other.kind, other.sha256, other.target)
