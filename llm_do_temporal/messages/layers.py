"""Layers: the changes of files by an invocation that works on none of the workshop's own."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_empty, is_zero
from llm_do_temporal.messages.definitions import DelegateTool
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.layers.layer import CarriedLayer, Digest, LayerAuthor, LayerUpdate


class LayerWork(Message):
    """Layer that an activity works on, instead of the workshop's files."""

    carried: CarriedLayer
    author: LayerAuthor
    """Author of the changes that the activity makes."""


class LayerState(Message):
    """State of an invocation that works on a layer: all that its workflow knows of it."""

    carried: CarriedLayer = CarriedLayer()
    created: Mapping[str, Digest] = Field(default_factory=dict, exclude_if=is_empty)
    """Files of workers that were made with `worker_create` and not reviewed yet: the digest of what was written, by
    path below the workshop."""
    proposed: Mapping[str, DelegateTool] = Field(default_factory=dict, exclude_if=is_empty)
    """Tools that call these workers, by the same paths: they are offered once the files were accepted."""


class JoinLayersInput(Message):
    """Input of `join_layers`: a child's layer joins that of its caller."""

    mine: CarriedLayer
    child: CarriedLayer
    fork: CarriedLayer
    """The caller's layer as it was when the child began."""
    tree: Tree
    """The caller's files, for the paths in the result."""


class JoinedLayers(Message):
    """Result of `join_layers`."""

    update: LayerUpdate
    """Update of the caller's layer."""
    conflicts: tuple[str, ...] = ()
    """Paths that both have changed, with the reason, of which the caller's side stays; at most 50."""
    more: int = 0
    """Number of further conflicts."""


class CommittedFile(Message):
    """File that a commit has made or changed."""

    path: str
    """Path below the workshop."""
    bytes: int
    sha256: Digest
    created: bool = Field(default=False, exclude_if=is_zero)
    """Whether nothing was at its path before."""


class CommittedChanges(Message):
    """Result of an activity that makes the changes of a layer for real."""

    committed: bool
    """Whether the changes were made; if not, none was."""
    paths: int = 0
    conflicts: tuple[str, ...] = ()
    """Paths that somebody else has changed meanwhile, with the reason; at most 50."""
    commit: str = ""
    """Name of the git commit; empty where files were changed."""
    files: tuple[CommittedFile, ...] = Field(default=(), exclude_if=is_empty)
    """Files of the workshop that were made or changed, at most 500; none for a git commit."""
    more_files: int = Field(default=0, exclude_if=is_zero)
    """Number of further files."""
