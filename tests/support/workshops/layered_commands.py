"""Commands over layers, as activities run them, one after the other on the same layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import LayerGrounds, ShellActivities
from llm_do_temporal.messages.activities import CommandPreview, ShellInput, ShellResult
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import CarriedLayer, Layer, LayerNode
from llm_do_temporal.policy.shell import working_directory
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.overlay import overlay_problem
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.workshops.layered import EDITOR

HAS_OVERLAYS = overlay_problem(working_bwrap()) is None
"""Whether this machine has them: without, nothing is run on layers, and the tests of the words are what is left."""
WHOLE = Tree(mounts=(Mount(at="/", root="."),))


@dataclass
class LayeredCommands:
    """Workshop with a layer that grows with each command."""

    folder: Path
    blobs: LocalBlobStore
    tree: Tree = WHOLE
    carried: CarriedLayer = field(default_factory=CarriedLayer)

    def __post_init__(self) -> None:
        self.grounds = LayerGrounds(self.folder, self.blobs)
        self.activities = ShellActivities(self.folder, self.blobs, layers=self.grounds)

    def asked(self, *argv: str, **more: Any) -> ShellInput:
        tree: Tree = more.pop("tree", self.tree)
        work = LayerWork(carried=self.carried, author=EDITOR)
        seconds = more.pop("timeout", 60)
        return ShellInput(
            argv=argv, tree=tree, cwd=working_directory(tree), timeout_seconds=seconds, layer=work, **more
        )

    async def run(self, *argv: str, **more: Any) -> ShellResult:
        result = await ActivityEnvironment().run(self.activities.run_command, self.asked(*argv, **more))
        assert result.layer is not None
        self.carried = self.carried.updated(result.layer)
        return result

    async def sh(self, script: str, **more: Any) -> str:
        """Run a shell script; return what it printed."""
        result = await self.run("sh", "-c", script, **more)
        assert result.note is None, result.note
        return result.stdout.text + result.stderr.text

    def preview(self, *argv: str, **more: Any) -> CommandPreview:
        return ActivityEnvironment().run(self.activities.preview_command, self.asked(*argv, **more))

    @property
    def layer(self) -> Layer:
        return LayerContents(self.blobs).whole(self.carried)

    @property
    def changes(self) -> dict[str, LayerNode | None]:
        """Nodes of all changes, by path."""
        return {path: entry.now for path, entry in self.layer.changes.items()}

    def text(self, path: str) -> str:
        node = self.layer.entries[path].now
        assert node is not None
        return LayerContents(self.blobs).read(node, path).decode()


def layered_commands(folder: Path) -> LayeredCommands:
    """Make a workshop of a few files below the folder, and commands over an empty layer."""
    workshop = folder / "workshop"
    for name in ("src/one.py", "src/two.py", "src/deep/three.py", "docs/a.md", "a.txt", ".llm-do/state"):
        (workshop / name).parent.mkdir(parents=True, exist_ok=True)
        (workshop / name).write_text(name)
    (workshop / "workshop.yaml").write_text("name: test\n")
    return LayeredCommands(workshop, LocalBlobStore(folder / "blobs"))
