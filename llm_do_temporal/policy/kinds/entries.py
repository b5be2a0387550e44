"""Entries of `approvals: allow:` in `workshop.yaml`: kinds of calls that need no person, with examples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from llm_do_temporal.errors import SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, join, locate
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.shell import LISTED, split_command
from llm_do_temporal.policy.uses import CapabilityUse

_ANY_TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
_NO_DIGEST = "0" * 64


class FailedExample(NamedTuple):
    """Example that an entry does not keep: its key, its number from 0, and its text."""

    key: str
    number: int
    text: str


class AllowEntry(CallKind):
    """Entry of `approvals: allow:`."""

    why: str = ""
    match: tuple[str, ...] = ()
    """Examples that the entry covers: paths, command lines, names of workers, or arguments as JSON."""
    not_match: tuple[str, ...] = ()
    """Examples that it does not cover."""

    @property
    def kind(self) -> CallKind:
        """The kind without reason and examples."""
        return CallKind(**self.as_mapping())

    def pinned(self) -> AllowEntry:
        """Return the entry as runs take it along: without its examples."""
        return AllowEntry(**self.as_mapping(), why=self.why)

    def failed_examples(self, tree: Tree = _ANY_TREE) -> Iterator[FailedExample]:
        """Yield the examples that the entry does not keep, in a tree of these files; no file in it is a link."""
        for key, examples, expected in (("match", self.match, True), ("not_match", self.not_match, False)):
            for number, text in enumerate(examples):
                call = _example(self, text, tree if tree.mounts else _ANY_TREE)
                if call is not None and self.callers:
                    call = call.model_copy(update={"worker": self.callers[0]})
                if (call is not None and self.covers(call)) is not expected:
                    yield FailedExample(key, number, text)


def covering(entries: Iterable[AllowEntry], call: AskedCall) -> tuple[int, AllowEntry] | None:
    """Return the first entry that covers the call, with its number from 1; None where none does."""
    return next(((number, entry) for number, entry in enumerate(entries, 1) if entry.covers(call)), None)


def may_cover(entries: Iterable[AllowEntry], call: AskedCall) -> bool:
    """Return whether an entry would cover the call, if its files are where their paths say."""
    return any(entry.fits(call) for entry in entries)


def _example(kind: CallKind, text: str, tree: Tree) -> AskedCall | None:
    """Return the call that an example stands for; None for a text that no such call can have."""
    match kind.shape:
        case "command":
            return _command(text, tree)
        case "callee":
            return _callee(text, tree)
        case "exact":
            return _exact(kind, text)
        case _:
            return _file_call(kind.tool or "", text, tree)


def _file_call(tool: str, path: str, tree: Tree) -> AskedCall | None:
    try:
        place = locate(tree, path)
    except SandboxRefusal:
        return None
    use = CapabilityUse(name="sandbox.read" if tool == "read_file" else "sandbox.write", payload={"path": place.path})
    seen = SeenFile(path=place.path, place=join(place.mount.root, place.relative))
    return AskedCall(tool=tool, args={"path": path}, uses=(use,), tree=tree, files=(seen,))


def _command(line: str, tree: Tree) -> AskedCall | None:
    try:
        argv = split_command(line)
    except ShellRefusal:
        return None
    use = CapabilityUse(name=LISTED, payload={"argv": list(argv), "cwd": "/"})
    return AskedCall(tool="shell", args={"command": line}, uses=(use,), tree=tree)


def _callee(text: str, tree: Tree) -> AskedCall | None:
    worker, *paths = text.split() or [""]
    attachments: list[Attachment] = []
    for path in paths:
        try:
            place = locate(tree, path)
        except SandboxRefusal:
            return None
        real = join(place.mount.root, place.relative)
        shown = Attachment(path=place.path, sha256=_NO_DIGEST, bytes=1, media_type="text/plain", place=real)
        attachments.append(shown)
    use = CapabilityUse(name="worker.call", payload={"worker": worker})
    return AskedCall(tool=worker, args={}, uses=(use,), tree=tree, attachments=tuple(attachments))


def _exact(kind: CallKind, text: str) -> AskedCall | None:
    try:
        args = json.loads(text)
    except ValueError:
        return None
    if not isinstance(args, dict):
        return None
    given = cast("dict[str, Any]", args)
    payload: dict[str, Any] = {"tool": kind.tool} | ({} if kind.sha256 is None else {"sha256": kind.sha256})
    return AskedCall(tool=kind.tool or "", args=given, uses=(CapabilityUse(name="python.call", payload=payload),))
