"""Calls as questions put them, for what judges calls without a run."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, join, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall
from llm_do_temporal.policy.values import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))


def write(path: str, *, worker: str = "main", tool: str = "write_file", place: str | None = None) -> AskedCall:
    """A call of a file tool whose file is where its path says, unless `place` is where a link leads."""
    found = locate(TREE, path)
    seen = SeenFile(path=found.path, place=place or join(found.mount.root, found.relative))
    use = CapabilityUse(name="sandbox.write", payload={"path": found.path, "bytes": 1})
    return AskedCall(tool=tool, args={"path": path}, uses=(use,), tree=TREE, files=(seen,), worker=worker)


def command(line: str, worker: str = "main") -> AskedCall:
    """A call of `shell`; the words with a `/` are files that are where they seem."""
    words = line.split()
    named = [locate(TREE, word) for word in words[1:] if "/" in word and "://" not in word]
    seen = tuple(SeenFile(path=one.path, place=join(one.mount.root, one.relative)) for one in named)
    use = CapabilityUse(name="proc.exec", payload={"argv": words, "cwd": "/"})
    return AskedCall(tool="shell", args={"command": line}, uses=(use,), tree=TREE, files=seen, worker=worker)


def delegation(callee: str, *paths: str, worker: str = "main", task: str = "x") -> AskedCall:
    """A call of a worker with a task, and with files."""
    handed = tuple(
        Attachment(path=path, sha256="0" * 64, bytes=1, media_type="text/plain", place=f"files{path}") for path in paths
    )
    use = CapabilityUse(name="worker.call", payload={"worker": callee, "input": task, "attachments": list(paths)})
    return AskedCall(tool=callee, args={"input": task}, uses=(use,), tree=TREE, attachments=handed, worker=worker)


def python(tool: str, sha256: str = "1" * 64, **args: Any) -> AskedCall:
    use = CapabilityUse(name="python.call", payload={"tool": tool, "sha256": sha256})
    return AskedCall(tool=tool, args=args, uses=(use,), worker="main")
