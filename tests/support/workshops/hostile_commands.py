"""A workshop in which hostile commands run for real, isolated or not, and what they must not have changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import LayerGrounds, ShellActivities
from llm_do_temporal.errors import Refusal
from llm_do_temporal.messages.activities import ShellInput, ShellResult
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy, ShellRule, judge_command, working_directory
from llm_do_temporal.storage.blobs import LocalBlobStore

WHOLE = Tree(mounts=(Mount(at="/", root="."),))
FILES = Tree(mounts=(Mount(at="/", root="files", base="files"),))
SECRET = "the secret of somebody else"

_LEAD = """\
name: lead
toolsets:
  delegation:
    templates: {allow: ["./prompts/**/*.yaml"]}
---
Lead.
"""


@dataclass
class Ground:
    """A workshop with definitions of every kind, files of a worker, and somebody else's files beside it."""

    folder: Path
    bwrap: str | None
    tree: Tree = WHOLE
    before: dict[str, bytes] = field(default_factory=dict)
    overlays: bool = True
    """Whether this machine has overlays, where it really has them."""

    def __post_init__(self) -> None:
        for name, text in {
            "workshop.yaml": "name: test\nsandbox: {root: files}\n",
            "tools.py": "x = 1\n",
            "lead.worker": _LEAD,
            "workers/helper.worker": "name: helper\n---\nHelp.\n",
            "workers/generated/made.worker": "name: made\n---\nMade.\n",
            "templates/one.yaml": "name: one\ninstructions: One.\n",
            "prompts/deep/two.yaml": "name: two\ninstructions: Two.\n",
            "lib/pkg/mod.py": "y = 1\n",
            ".git/config": "[core]\n\tbare = false\n",
            ".git/hooks/pre-commit": "#!/bin/sh\n",
            ".llm-do/host.json": SECRET,
            ".env": f"KEY={SECRET}\n",
            "notes.md": "notes\n",
            "src/a.txt": "text of a\n",
            "src/evil.txt": "name: evil\n---\nEvil.\n",
            "docs/b.txt": "text of b\n",
            "files/data.txt": "data\n",
            "files/sub/more.txt": "more\n",
        }.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder.parent / "outside.txt").write_text(SECRET)
        self.before = dict(self.contents())

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Every file of the workshop and beside it, as it is; links are told by where they lead."""
        for path in sorted(self.folder.parent.rglob("*")):
            name = path.relative_to(self.folder.parent).as_posix()
            if name.startswith(("blobs", f"{self.folder.name}/.llm-do/locks/")):
                continue
            if path.is_symlink():
                yield name, b"-> " + str(path.readlink()).encode()
            elif path.is_file():
                yield name, path.read_bytes()

    def changed(self) -> set[str]:
        """Files of the workshop that are new, other or gone, as paths below it; `../` for those beside it."""
        now = dict(self.contents())
        names = {name for name in now.keys() | self.before.keys() if now.get(name) != self.before.get(name)}
        top = f"{self.folder.name}/"
        return {name.removeprefix(top) if name.startswith(top) else f"../{name}" for name in names}

    @property
    def activities(self) -> ShellActivities:
        blobs = LocalBlobStore(self.folder.parent / "blobs")
        layers = LayerGrounds(self.folder, blobs, None if self.overlays else lambda _bwrap: "this machine has none")
        return ShellActivities(self.folder, blobs, lambda: self.bwrap, layers=layers)

    async def run(self, *argv: str, timeout: int = 30, **more: Any) -> ShellResult:
        """Run what policy has let through."""
        return await ActivityEnvironment().run(self.activities.run_command, self.asked(*argv, timeout=timeout, **more))

    def asked(self, *argv: str, timeout: int = 30, **more: Any) -> ShellInput:
        """Return the input of the activities for this command."""
        return ShellInput(argv=argv, tree=self.tree, cwd=working_directory(self.tree), timeout_seconds=timeout, **more)

    async def script(self, text: str, **more: Any) -> ShellResult:
        """Run a whole shell script, as a program that is allowed could."""
        return await self.run("sh", "-c", text, **more)

    async def tried(self, command: str, *rules: ShellRule) -> ShellResult | None:
        """What a model's command comes to, from its text to its end: None where it was refused on the way."""
        policy = ShellPolicy(rules=rules, default=ShellDefault(blocked=True))
        try:
            judged = judge_command(policy, self.tree, command)
            asked = ShellInput(
                argv=judged.argv,
                tree=self.tree,
                cwd=judged.cwd,
                timeout_seconds=30,
                sandbox_paths=judged.sandbox_paths,
                spelled=judged.spelled,
            )
            return await ActivityEnvironment().run(self.activities.run_command, asked)
        except (ApplicationError, Refusal):
            return None
