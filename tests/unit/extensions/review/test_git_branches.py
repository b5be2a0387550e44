"""Commits to git branches, with real git: one commit or none, and nobody's work is touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.extensions.review.git_branch import GitBranch, GitFiles, GitRepository
from llm_do_temporal.extensions.review.policy.review import for_git
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, Seen, seen

ENDED = 77
KEY = "r1#1-abc@run"


@dataclass
class Tree:
    """Work tree with a workshop in it."""

    top: Path
    workshop: Path
    contents: LayerContents

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.top, capture_output=True, text=True, check=True).stdout

    def drafted(self, *work: Callable[[PlayedDraft], None]) -> Layer:
        with base_files(self.workshop, contents=self.contents) as base:
            draft = PlayedDraft(NO_LAYER, base, EDITOR)
            for one in work:
                one(draft)
            return for_git(draft.layer())

    def write(self, path: str, text: str, mode: int | None = None) -> Callable[[PlayedDraft], None]:
        return lambda draft: draft.write(path, self.contents.keep(text.encode(), path), mode)

    def commit(
        self, layer: Layer, name: str = "review", *, key: str = KEY, repository: GitRepository | None = None
    ) -> CommittedChanges:
        branch = GitBranch(repository or GitRepository(self.workshop, "files"), name)
        return branch.commit(
            layer, self.contents, key=key, reviewed=layer.digest(), message="1 change\nby a worker", by="Ada\nL"
        )

    def committed(self, name: str = "review") -> dict[str, str]:
        """Return mode and text of each file of the branch."""
        lines = self.git("ls-tree", "-r", name).splitlines()
        found = [(line.split()[0], line.partition("\t")[2]) for line in lines]
        return {path: f"{mode} {self.git('show', f'{name}:{path}')}" for mode, path in found}

    def state(self) -> tuple[Seen, bytes]:
        """Return all that people who work there have: files, and the index."""
        files = {path: one for path, one in seen(self.top).items() if not path.startswith(".git")}
        return files, (self.top / ".git/index").read_bytes()


def _made(top: Path, workshop: Path) -> Tree:
    for name in ("a.txt", "b.txt", "d/c.txt", "run.sh"):
        path = workshop / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (workshop / "files/run.sh").chmod(0o755)
    tree = Tree(top, workshop, LayerContents(MemoryBlobs()))
    tree.git("init", "-q", "-b", "main")
    tree.git("add", ".")
    tree.git("commit", "-q", "-m", "first")
    return tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Workshop in a folder of a work tree."""
    return _made(tmp_path / "repo", tmp_path / "repo/shop")


def test_changes_are_one_commit_and_the_work_tree_stays_as_it_is(tree: Tree) -> None:
    layer = tree.drafted(
        tree.write("files/a.txt", "new\n"),
        tree.write("files/new dir/ü\n.txt", "odd\n"),
        lambda d: d.delete("files/d"),
        lambda d: d.change_mode("files/run.sh", 0o644),
        lambda d: d.link("files/l", "a.txt"),
    )
    (tree.top / "shop/files/b.txt").write_text("not committed by anybody\n")
    tree.git("add", "shop/files/b.txt")
    before = tree.state()
    outcome = tree.commit(layer)

    assert tree.state() == before
    assert tree.git("rev-parse", "review").strip() == outcome.commit
    assert tree.git("rev-parse", "review^") == tree.git("rev-parse", "main")
    names = tree.git("ls-tree", "-r", "-z", "--name-only", "review").split("\0")
    assert names == [
        *("shop/files/a.txt", "shop/files/b.txt", "shop/files/l", "shop/files/new dir/ü\n.txt", "shop/files/run.sh", "")
    ]
    assert tree.git("show", "review:shop/files/a.txt") == "new\n"
    assert tree.git("show", "review:shop/files/b.txt") == "b.txt\n"
    assert "100644" in tree.git("ls-tree", "review", "shop/files/run.sh")
    assert tree.git("show", "review:shop/files/l") == "a.txt"
    assert tree.git("log", "-1", "--format=%B", "review").strip() == (
        f"1 change by a worker\n\nReviewed-by: Ada L\nLlm-Do-Commit: {KEY}"
    )


def test_a_branch_that_is_there_goes_on_and_a_commit_that_was_made_is_found(tree: Tree) -> None:
    first = tree.commit(tree.drafted(tree.write("files/a.txt", "one\n")))
    other = tree.drafted(tree.write("files/b.txt", "two\n"))
    second = tree.commit(other, key="r1#2")
    assert tree.git("rev-parse", "review^").strip() == first.commit
    assert tree.commit(other, key="r1#2") == second
    assert tree.commit(tree.drafted(tree.write("files/a.txt", "one\n"))) == first
    assert tree.git("rev-list", "--count", "main..review").strip() == "2"


def test_a_work_tree_below_the_workshop_takes_the_files_in_it_and_no_others(tmp_path: Path) -> None:
    tree = _made(tmp_path / "shop/files", tmp_path / "shop")
    tree.commit(tree.drafted(tree.write("files/a.txt", "new\n")))
    assert tree.committed()["a.txt"] == "100644 new\n"
    with pytest.raises(SandboxRefusal, match=r"'w\.worker' does not lie in the git work tree"):
        tree.commit(tree.drafted(tree.write("w.worker", "x")), key="other")


def test_what_is_not_on_the_branch_as_it_was_found_is_a_conflict_and_nothing_is_committed(tree: Tree) -> None:
    tree.commit(tree.drafted(tree.write("files/a.txt", "on the branch\n")))
    tip = tree.git("rev-parse", "review")
    layer = tree.drafted(tree.write("files/a.txt", "mine\n"), tree.write("files/b.txt", "mine\n"))
    outcome = tree.commit(layer, key="r2")
    assert (outcome.commit, outcome.conflicts) == ("", ("files/a.txt: it was changed on both sides",))
    # A file in the place of a folder that keeps something.
    (tree.workshop / "files/d/c.txt").unlink()
    (tree.workshop / "files/d").rmdir()
    outcome = tree.commit(tree.drafted(tree.write("files/d", "a file\n")), key="r3")
    assert (outcome.commit, len(outcome.conflicts)) == ("", 2)
    assert tree.git("rev-parse", "review") == tip


@pytest.mark.parametrize("name", ["main", "-x", "a b", "../x", "a..b", "x.lock", "", "HEAD^", "a\nb"])
def test_a_name_that_no_branch_can_have_and_a_branch_that_is_checked_out_are_refused(tree: Tree, name: str) -> None:
    before = tree.git("for-each-ref")
    with pytest.raises(SandboxRefusal, match="checked out" if name == "main" else "cannot be the name"):
        tree.commit(tree.drafted(tree.write("files/a.txt", "new\n")), name)
    assert tree.git("for-each-ref") == before


def test_a_branch_that_is_checked_out_in_another_work_tree_is_refused(tree: Tree, tmp_path: Path) -> None:
    tree.git("worktree", "add", "-q", "-b", "elsewhere", str(tmp_path / "other"))
    with pytest.raises(SandboxRefusal, match="checked out"):
        tree.commit(tree.drafted(tree.write("files/a.txt", "new\n")), "elsewhere")


def test_files_of_git_itself_are_on_no_branch(tree: Tree) -> None:
    with pytest.raises(SandboxRefusal, match="belongs to git itself"):
        tree.commit(tree.drafted(tree.write("files/.GIT/config", "x")))


def test_another_layer_than_the_reviewed_one_is_refused(tree: Tree) -> None:
    layer = tree.drafted(tree.write("files/a.txt", "new\n"))
    with pytest.raises(ShownDiffers):
        GitBranch(GitRepository(tree.workshop), "review").commit(
            layer, tree.contents, key=KEY, reviewed="0" * 64, message="x"
        )


def test_without_a_work_tree_or_a_commit_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefusal, match="lie in no git work tree"):
        GitRepository(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with pytest.raises(EffectFailed, match="has no commit yet"):
        GitBranch(GitRepository(tmp_path), "review").parent()


def test_nothing_that_the_repository_names_is_run(tree: Tree, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hook = f"#!/bin/sh\ntouch {mark}\n"
    for name in ("reference-transaction", "pre-commit", "post-commit", "post-index-change"):
        path = tree.top / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(hook)
        path.chmod(0o755)
    tree.git("config", "filter.f.clean", f"touch {mark}; cat")
    tree.git("config", "core.fsmonitor", f"touch {mark}")
    (tree.top / ".git/info/attributes").write_text("* filter=f eol=crlf\n")
    tree.commit(tree.drafted(tree.write("files/a.txt", "new\n")))
    assert tree.git("cat-file", "blob", "review:shop/files/a.txt") == "new\n"
    assert not mark.exists()


def test_a_submodule_is_a_conflict_and_no_file(tree: Tree) -> None:
    head = tree.git("rev-parse", "HEAD").strip()
    tree.git("update-index", "--add", "--cacheinfo", f"160000,{head},shop/files/sub")
    tree.git("commit", "-q", "-m", "submodule")
    outcome = tree.commit(tree.drafted(tree.write("files/sub", "a file\n")))
    assert outcome.conflicts == ("files/sub: it was changed on both sides",)
    files = GitFiles(GitRepository(tree.workshop), "HEAD", tree.contents, ["files/sub"])
    with pytest.raises(SandboxRefusal, match="such as a submodule"):
        files.look("files/sub")
    assert files.names("files") == ("a.txt", "b.txt", "d", "run.sh", "sub")


class _EndingRepository(GitRepository):
    """Repository for which the process ends before its git command of this number."""

    def __init__(self, workshop: Path, last: int) -> None:
        self.last, self.calls = 0, 0
        super().__init__(workshop)
        self.last, self.calls = last, 0

    def _started(
        self, arguments: list[str], data: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        self.calls += 1
        if self.calls == self.last:
            os._exit(ENDED)
        return super()._started(arguments, data, variables)


def test_a_process_that_ends_between_any_two_commands_leaves_one_commit_or_none(tree: Tree) -> None:
    layer = tree.drafted(tree.write("files/a.txt", "new\n"), lambda d: d.delete("files/b.txt"))
    counting = _EndingRepository(tree.workshop, -1)
    tree.commit(layer, "counted", repository=counting)
    for last in range(1, counting.calls + 1):
        name = f"ended-{last}"
        child = os.fork()
        if child == 0:
            try:
                tree.commit(layer, name, repository=_EndingRepository(tree.workshop, last))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED
        outcome = tree.commit(layer, name)
        assert tree.git("rev-parse", name).strip() == outcome.commit
        assert tree.git("rev-list", "--count", f"main..{name}").strip() == "1"
        assert tree.committed(name) == tree.committed("counted")
    assert counting.calls > 5
