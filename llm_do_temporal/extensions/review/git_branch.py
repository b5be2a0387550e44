"""Commit of a layer to a git branch: all of it in one commit, or nothing. The files of the workshop stay as they are.

Git is asked by its plumbing alone: it runs no program that the repository names, and neither the working tree nor the
index of the people who work there is looked at or changed. The new commit is made of objects that nobody sees until the
branch leads to it, which is one step. The commit's message names the review it belongs to, so that the same commit,
asked for again, is found and not repeated. Called by the activity that has the reviewed layer; must not decide what is
accepted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llm_do_temporal.errors import EffectFailed, SandboxRefusal, ShownDiffers
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.policy.files.sandbox import WorkshopSandbox
from llm_do_temporal.policy.layers.layer import (
    Layer,
    LayerNode,
    NodeKind,
    folder_node,
    link_node,
)
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.policy.layers.patch import git_mode
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.programs import GIT_HABITS, git_settings

_GIT_SECONDS = 120
_FOLDERS = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"))
_CHUNK_BYTES = 1 << 20
_PROGRAM, _LINK = "100755", "120000"


@dataclass(frozen=True)
class _Entry:
    """File, folder or submodule of a commit."""

    mode: str
    type: str
    name: str
    """Name of the object."""


class GitRepository:
    """Repository of a git work tree. Methods raise EffectFailed where git fails."""

    def __init__(self, workshop: Path, folder: str = ".") -> None:
        """`folder` is where workers' files lie, below the workshop: the work tree around it counts.

        Raises SandboxRefusal where there is none.
        """
        program = shutil.which("git", path=_FOLDERS)
        if program is None:
            raise EffectFailed("git is not installed, and changes are to be committed to a branch")
        self._program = program
        self.top = (workshop / folder).resolve()
        done = self._started(["rev-parse", "--show-toplevel"])
        if done.returncode != 0:
            raise SandboxRefusal(
                f"the workers' files lie in no git work tree that can be used: {_said(done.stderr)}",
                next_step="Start without a branch, or in a work tree that belongs to you.",
            )
        self.top = Path(os.fsdecode(done.stdout.removesuffix(b"\n")))
        self._workshop = workshop.resolve()

    def path_of(self, path: str) -> str:
        """Return the path in the repository of one below the workshop. Raises SandboxRefusal for one outside of it."""
        inside = os.path.relpath(self._workshop / path, self.top)
        parts = inside.split("/")
        if parts[0] == "..":
            raise SandboxRefusal(f"'{path}' does not lie in the git work tree that takes the changes")
        if any(part.casefold() == ".git" for part in parts):
            raise SandboxRefusal(f"'{path}' belongs to git itself, and no branch can hold it")
        return inside

    def run(self, *arguments: str, data: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        """Return what a git command prints, with `data` as its input."""
        done = self._started(list(arguments), data, variables)
        if done.returncode != 0:
            raise EffectFailed(f"git {arguments[0]} failed: {_said(done.stderr)}")
        return done.stdout

    def says_yes(self, *arguments: str) -> bool:
        """Return whether a git command succeeds."""
        return self._started(list(arguments)).returncode == 0

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a full name of a branch, or HEAD, leads to; None where there is none."""
        done = self._started(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"])
        return done.stdout.decode().strip() or None

    def objects(self, names: Collection[str]) -> Iterator[tuple[str, int, IO[bytes]]]:
        """Yield the name and the size in bytes of each object, and a stream that has its bytes next."""
        with subprocess.Popen(
            [self._program, "cat-file", "--batch"],
            cwd=self.top,
            env=self._variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for name in names:
                # One after the other: both sides would wait for each other once the pipes are full.
                process.stdin.write(f"{name}\n".encode())
                process.stdin.flush()
                head = process.stdout.readline().split()
                if len(head) != 3:
                    raise EffectFailed(f"git has no object '{name}'")
                yield name, int(head[2]), process.stdout
                process.stdout.read(1)
            process.stdin.close()

    def _started(
        self, arguments: list[str], data: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [self._program, *arguments],
                cwd=self.top,
                env={**self._variables(), **(variables or {})},
                input=data,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EffectFailed(f"git {arguments[0]} took longer than {_GIT_SECONDS} seconds") from error

    def _variables(self) -> dict[str, str]:
        # Of the home folder git reads which work trees may be used.
        home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
        return {"PATH": _FOLDERS, "LANG": "C.UTF-8", **GIT_HABITS, **git_settings(), **home}


class GitFiles:
    """Files of a commit as the base of a layer: see FileBase. Folders are wherever a file needs them."""

    def __init__(self, repository: GitRepository, commit: str, contents: LayerContents, paths: Collection[str]) -> None:
        """`paths`, below the workshop, are those that will be looked at; their bytes are kept in `contents`."""
        self._repository = repository
        self._contents = contents
        listing = repository.run("ls-tree", "-r", "-t", "-z", "--full-tree", commit)
        self._entries = dict(_listed(listing))
        self._nodes: dict[str, LayerNode] = {}
        self._load(paths)

    def kind(self, path: str) -> NodeKind | None:
        """See FileBase."""
        entry = self._entry(path)
        if entry is None or entry.type == "tree":
            return NodeKind.FOLDER
        return NodeKind.LINK if entry.mode == _LINK else NodeKind.FILE

    def look(self, path: str) -> LayerNode | None:
        """See FileBase."""
        entry = self._entry(path)
        if entry is None:
            return None
        if entry.type == "tree":
            return folder_node()
        if path not in self._nodes:
            raise SandboxRefusal(f"'{path}' is something on the branch that no layer can hold, such as a submodule")
        return self._nodes[path]

    def kept(self, path: str) -> LayerNode | None:
        """See FileBase."""
        return self.look(path)

    def names(self, path: str) -> tuple[str, ...]:
        """See FileBase."""
        start = f"{self._repository.path_of(path)}/"
        found = {one[len(start) :].split("/")[0] for one in self._entries if one.startswith(start)}
        return tuple(sorted(found))

    def has_other_below(self, path: str, gone: Collection[str]) -> bool:
        """Return whether there is a folder at the path with something in it that does not go; `gone` has paths in the
        repository.
        """
        entry = self._entry(path)
        if entry is None or entry.type != "tree":
            return False
        start = f"{self._repository.path_of(path)}/"
        return any(
            one.startswith(start) and other.type != "tree" and one not in gone for one, other in self._entries.items()
        )

    def _entry(self, path: str) -> _Entry | None:
        return self._entries.get(self._repository.path_of(path))

    def _load(self, paths: Collection[str]) -> None:
        wanted: dict[str, list[str]] = {}
        for path in paths:
            entry = self._entry(path)
            if entry is not None and entry.type == "blob":
                wanted.setdefault(entry.name, []).append(path)
        for name, size, stream in self._repository.objects(wanted):
            if size > self._contents.max_file_bytes:
                for start in range(0, size, _CHUNK_BYTES):
                    stream.read(min(_CHUNK_BYTES, size - start))
                continue
            data = stream.read(size)
            for path in wanted[name]:
                with suppress(SandboxRefusal):
                    self._nodes[path] = self._node(data, path)

    def _node(self, data: bytes, path: str) -> LayerNode:
        entry = self._entry(path)
        assert entry is not None
        if entry.mode == _LINK:
            return link_node(data.decode("utf-8", "surrogateescape"), path)
        return self._contents.keep(data, path).with_mode(0o755 if entry.mode == _PROGRAM else 0o644)


def _listed(listing: bytes) -> Iterator[tuple[str, _Entry]]:
    for line in listing.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        if tab:
            mode, kind, name = head.decode().split()
            yield path.decode("utf-8", "surrogateescape"), _Entry(mode, kind, name)


def _said(error: bytes) -> str:
    """Return the first line of what git said, without the folders that it names."""
    lines = [line for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[0].removeprefix("fatal: ")[:200] if lines else "it gave no reason"


TRAILER = "Llm-Do-Commit"
SEARCHED_COMMITS = 500
"""Newest commits of a branch among which one that was made already is looked for."""
MAX_CONFLICTS = 50
"""Most conflicts that a commit names."""
_ATTEMPTS = 5
_NONE = "0" * 40
_AUTHOR = {
    "GIT_AUTHOR_NAME": "llm-do-temporal",
    "GIT_AUTHOR_EMAIL": "llm-do-temporal@localhost",
    "GIT_COMMITTER_NAME": "llm-do-temporal",
    "GIT_COMMITTER_EMAIL": "llm-do-temporal@localhost",
}


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
    ) -> CommittedChanges:
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
                return CommittedChanges(committed=True, paths=len(layer.changes), commit=made)
            parent = tip or self.parent()
            files = GitFiles(self._repository, parent, contents, layer.changes)
            conflicts = [str(conflict) for conflict in against(layer, files).conflicts]
            gone = {self._repository.path_of(path) for path, entry in layer.changes.items() if entry.now is None}
            for path, entry in layer.changes.items():
                if entry.now is not None and files.has_other_below(path, gone):
                    conflicts.append(f"{path}: there is something else in the folder that it takes the place of")
            if conflicts:
                return CommittedChanges(committed=False, conflicts=tuple(conflicts[:MAX_CONFLICTS]))
            commit = self._written(layer, contents, parent, _message(message, key, by))
            if self._repository.says_yes("update-ref", "--create-reflog", self._ref, commit, tip or _NONE):
                return CommittedChanges(committed=True, paths=len(layer.changes), commit=commit)
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

    def _written(self, layer: Layer, contents: LayerContents, parent: str, message: bytes) -> str:
        """Write the objects of the commit, which nothing leads to yet, and return its name."""
        git = self._repository
        with tempfile.TemporaryDirectory(prefix="llm-do-git-") as name:
            folder = Path(name)
            index = {"GIT_INDEX_FILE": str(folder / "index")}
            git.run("read-tree", parent, variables=index)
            # What goes first, then what is there.
            lines = [f"0 {_NONE}\t{git.path_of(path)}" for path, one in layer.changes.items() if one.now is None]
            put = [(path, one.now) for path, one in layer.changes.items() if one.now is not None]
            for number, (path, node) in enumerate(put):
                data = node.target.encode() if node.kind is NodeKind.LINK else contents.read(node, path)
                (folder / str(number)).write_bytes(data)
            names = "".join(f"{folder / str(number)}\n" for number in range(len(put)))
            objects = git.run("hash-object", "-w", "--no-filters", "--stdin-paths", data=names.encode())
            for (path, node), made in zip(put, objects.decode().split(), strict=True):
                lines.append(f"{git_mode(node)} {made}\t{git.path_of(path)}")
            told = b"".join(f"{line}\0".encode() for line in lines)
            git.run("update-index", "--add", "--replace", "-z", "--index-info", data=told, variables=index)
            tree = git.run("write-tree", variables=index).decode().strip()
            return git.run("commit-tree", tree, "-p", parent, data=message, variables=_AUTHOR).decode().strip()


def check_branch(workshop: Path, sandbox: WorkshopSandbox | None, name: str) -> None:
    """Raise SandboxRefusal or EffectFailed where the branch cannot take changes of a workshop's files."""
    GitBranch(repository_of(workshop, sandbox), name).parent()


def repository_of(workshop: Path, sandbox: WorkshopSandbox | None) -> GitRepository:
    """Return the repository of the workers' files. Raises SandboxRefusal where they are in none."""
    return GitRepository(workshop, "." if sandbox is None else sandbox.root)


def _message(message: str, key: str, by: str) -> bytes:
    names = " ".join(by.split())
    trailers = [*([f"Reviewed-by: {names}"] if names else []), f"{TRAILER}: {key}"]
    return "\n".join([" ".join(message.split()), "", *trailers, ""]).encode()
