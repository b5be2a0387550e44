"""Commit of a layer to a git branch: all of it in one commit, or nothing. The files of the workshop stay as they are.

The new commit is made of objects that nobody sees until the branch leads to it, which is one step. The commit's message
names the review it belongs to, so that the same commit, asked for again, is found and not repeated. Called by the
activity that has the reviewed layer; must not decide what is accepted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.policy.files.sandbox import WorkshopSandbox
from llm_do_temporal.policy.layers.layer import Layer, LayerEntry
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind
from llm_do_temporal.sandbox.layers.base_files import TolerantFiles
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.git_files import GitFiles, GitRepository

TRAILER = "Llm-Do-Commit"
SEARCHED_COMMITS = 500
"""Newest commits of a branch among which one that was made already is looked for."""
_ATTEMPTS = 5
_NONE = "0" * 40
_AUTHOR = {
    "GIT_AUTHOR_NAME": "llm-do-temporal",
    "GIT_AUTHOR_EMAIL": "llm-do-temporal@localhost",
    "GIT_COMMITTER_NAME": "llm-do-temporal",
    "GIT_COMMITTER_EMAIL": "llm-do-temporal@localhost",
}


@dataclass(frozen=True)
class BranchOutcome:
    """Result of a commit to a branch."""

    commit: str
    """Name of the commit; empty: nothing was committed."""
    conflicts: tuple[str, ...] = ()
    """Paths that are not on the branch as the layer found them, with the reason."""


class GitBranch:
    """Branch of a repository; it begins where the repository's HEAD is."""

    def __init__(self, repository: GitRepository, name: str) -> None:
        """Raises SandboxRefusal for a name that no branch can have, or of a branch that is checked out."""
        self._repository = repository
        self._ref = f"refs/heads/{name}"
        if name.startswith("-") or not repository.says_yes("check-ref-format", self._ref):
            raise SandboxRefusal(
                f"'{name[:80]}' cannot be the name of a git branch", next_step="Choose another, such as review/api."
            )
        trees = repository.run("worktree", "list", "--porcelain").splitlines()
        if f"branch {self._ref}".encode() in trees:
            raise SandboxRefusal(
                f"the branch '{name}' is checked out, and changes would be committed under the feet of whoever works "
                "there",
                next_step="Name another branch; one that does not exist yet is made.",
            )

    def parent(self) -> str:
        """Return the commit that the next one comes after. Raises EffectFailed where there is none."""
        parent = self._repository.commit_of(self._ref) or self._repository.commit_of("HEAD")
        if parent is None:
            raise EffectFailed("the git repository has no commit yet", next_step="Commit something, then start again.")
        return parent

    def commit(
        self, layer: Layer, contents: LayerContents, *, key: str, reviewed: str, message: str, by: str = ""
    ) -> BranchOutcome:
        """Commit the layer, in the form that git can hold, or nothing of it.

        `key` names this commit, `reviewed` is the digest of the changes that people have seen, `by` their names. Raises
        ShownDiffers where the layer is another one, EffectFailed where git fails.
        """
        if layer.digest() != reviewed:
            raise ShownDiffers("these changes are not the ones that were reviewed", next_step="Review them again.")
        for _ in range(_ATTEMPTS):
            tip = self._repository.commit_of(self._ref)
            made = self._made_before(tip, key)
            if made is not None:
                return BranchOutcome(made)
            parent = tip or self.parent()
            files = GitFiles(self._repository, parent, contents, layer.changes)
            conflicts = self._conflicts(layer, files)
            if conflicts:
                return BranchOutcome("", conflicts)
            commit = self._written(layer, contents, parent, _message(message, key, by))
            if self._repository.says_yes("update-ref", "--create-reflog", self._ref, commit, tip or _NONE):
                return BranchOutcome(commit)
        raise EffectFailed("the branch moves each time that changes are to be committed to it", next_step="Try again.")

    def _made_before(self, tip: str | None, key: str) -> str | None:
        """Return the commit of this key; None where there is none."""
        if tip is None:
            return None
        form = f"--format=%x1e%H%x1f%(trailers:key={TRAILER},valueonly,separator=%x1f)"
        told = self._repository.run("log", f"--max-count={SEARCHED_COMMITS}", form, tip)
        for commit in told.decode("utf-8", "replace").split("\x1e"):
            name, *keys = (part.strip() for part in commit.split("\x1f"))
            if key in keys:
                return name
        return None

    def _conflicts(self, layer: Layer, files: GitFiles) -> tuple[str, ...]:
        conflicts = [str(conflict) for conflict in against(layer, TolerantFiles(files)).conflicts]
        gone = {self._repository.path_of(path) for path, entry in layer.changes.items() if entry.now is None}
        for path, entry in layer.changes.items():
            if entry.now is not None and files.has_other_below(path, gone):
                conflicts.append(f"{path}: there is something else in the folder that it takes the place of")
        return tuple(conflicts)

    def _written(self, layer: Layer, contents: LayerContents, parent: str, message: bytes) -> str:
        """Write the objects of the commit, which nothing leads to yet, and return its name."""
        git = self._repository
        with tempfile.TemporaryDirectory(prefix="llm-do-git-") as name:
            folder = Path(name)
            index = {"GIT_INDEX_FILE": str(folder / "index")}
            git.run("read-tree", parent, variables=index)
            lines = self._index_lines(layer.changes.items(), contents, folder)
            git.run("update-index", "--add", "--replace", "-z", "--index-info", data=lines, variables=index)
            tree = git.run("write-tree", variables=index).decode().strip()
            return git.run("commit-tree", tree, "-p", parent, data=message, variables=_AUTHOR).decode().strip()

    def _index_lines(self, changes: Collection[tuple[str, LayerEntry]], contents: LayerContents, folder: Path) -> bytes:
        """Return what `update-index` is told: what goes first, then what is there."""
        put = [(path, entry.now) for path, entry in changes if entry.now is not None]
        lines = [f"0 {_NONE}\t{self._repository.path_of(path)}" for path, entry in changes if entry.now is None]
        for number, (path, node) in enumerate(put):
            data = node.target.encode() if node.kind is NodeKind.LINK else contents.read(node, path)
            (folder / str(number)).write_bytes(data)
        names = "".join(f"{folder / str(number)}\n" for number in range(len(put)))
        objects = self._repository.run("hash-object", "-w", "--no-filters", "--stdin-paths", data=names.encode())
        for (path, node), name in zip(put, objects.decode().split(), strict=True):
            lines.append(f"{_mode(node)} {name}\t{self._repository.path_of(path)}")
        return b"".join(f"{line}\0".encode() for line in lines)


def check_branch(workshop: Path, sandbox: WorkshopSandbox | None, name: str) -> None:
    """Raise SandboxRefusal or EffectFailed where the branch cannot take changes of a workshop's files."""
    GitBranch(repository_of(workshop, sandbox), name).parent()


def repository_of(workshop: Path, sandbox: WorkshopSandbox | None) -> GitRepository:
    """Return the repository of the workers' files. Raises SandboxRefusal where they are in none."""
    return GitRepository(workshop, "." if sandbox is None else sandbox.root)


def _mode(node: LayerNode) -> str:
    return "120000" if node.kind is NodeKind.LINK else "100755" if node.mode & 0o100 else "100644"


def _message(message: str, key: str, by: str) -> bytes:
    names = " ".join(by.split())
    trailers = [*([f"Reviewed-by: {names}"] if names else []), f"{TRAILER}: {key}"]
    return "\n".join([" ".join(message.split()), "", *trailers, ""]).encode()
