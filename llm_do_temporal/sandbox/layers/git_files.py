"""Git repository that the files of a workshop lie in, and the files of one of its commits as the base of layers.

Git is asked by its plumbing alone: it runs no program that the repository names, and neither the working tree nor the
index of the people who work there is looked at or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, file_node, folder_node, link_node
from llm_do_temporal.sandbox.git_settings import GIT_HABITS, git_settings
from llm_do_temporal.sandbox.layers.contents import LayerContents

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
        kept = self._contents.keep(data, path)
        return file_node(kept.sha256, kept.bytes, blob=kept.blob, mode=0o755 if entry.mode == _PROGRAM else 0o644)


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
