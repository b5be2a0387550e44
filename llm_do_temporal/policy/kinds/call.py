"""Call as a question at the desk puts it: all that a kind of calls is held against."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.shell import WITHOUT_ISOLATION
from llm_do_temporal.policy.uses import ALWAYS_ASKS, CapabilityUse
from llm_do_temporal.policy.values import Value

NEVER_COVERED = ALWAYS_ASKS | {
    "changes.commit",
    "changes.commit.automation",
    "changes.commit.links_out",
    "sandbox.write.definitions",
    "worker.create",
}
"""Capabilities of calls that are asked about one by one: repetitions, limits, reviews, and what defines a worker."""


class AskedCall(Value):
    """Call as a question puts it, with the facts that were looked up for the person."""

    tool: str
    args: dict[str, Any]
    uses: tuple[CapabilityUse, ...]
    tree: Tree = Tree()
    """Files of the invocation that makes the call."""
    files: tuple[SeenFile, ...] = ()
    """Files that the call names, as they were found; none where nobody looked."""
    attachments: tuple[Attachment, ...] = ()
    """Files that the call hands over."""
    worker: str = ""
    """Name of the worker that makes the call."""
    circumstances: str = ""
    """Digest of all else that the call's effect depends on, and for a command whether it would be isolated."""
    surroundings: str = ""
    """Digest of that part of it which calls of one kind have in common; empty where nothing of it counts."""

    @property
    def isolated(self) -> bool:
        """Whether a command would run in isolation."""
        return not self.circumstances.endswith(WITHOUT_ISOLATION)

    @property
    def names(self) -> frozenset[str]:
        """Names of the capabilities that the call uses."""
        return frozenset(use.name for use in self.uses)

    @property
    def may_be_covered(self) -> bool:
        """Whether a kind may cover the call at all."""
        return bool(self.uses) and not self.names & NEVER_COVERED
