"""A workshop in which commands really run, isolated or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import ShellActivities
from llm_do_temporal.messages.activities import ShellInput, ShellResult
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import Isolation, working_directory
from llm_do_temporal.storage.blobs import LocalBlobStore

WHOLE = Tree(mounts=(Mount(at="/", root="."),))


@dataclass
class Commands:
    """A workshop in which commands run, one way or the other."""

    folder: Path
    blobs: LocalBlobStore
    bwrap: str | None
    tree: Tree = WHOLE
    isolation: Isolation = Isolation.PREFERRED

    def asked(self, *argv: str, timeout: int = 60, **more: Any) -> ShellInput:
        tree: Tree = more.pop("tree", self.tree)
        return ShellInput(argv=argv, tree=tree, cwd=working_directory(tree), timeout_seconds=timeout, **more)

    async def run(self, *argv: str, **more: Any) -> ShellResult:
        return await ActivityEnvironment().run(self.activities.run_command, self.asked(*argv, **more))

    async def refused(self, *argv: str, **more: Any) -> str:
        """What the command and its preview are both refused with."""
        with pytest.raises(ApplicationError) as previewed:
            ActivityEnvironment().run(self.activities.preview_command, self.asked(*argv, **more))
        with pytest.raises(ApplicationError) as caught:
            await self.run(*argv, **more)
        assert caught.value.message == previewed.value.message
        assert str(self.folder) not in caught.value.message
        return caught.value.message

    @property
    def activities(self) -> ShellActivities:
        return ShellActivities(self.folder, self.blobs, lambda: self.bwrap, isolation=self.isolation)
