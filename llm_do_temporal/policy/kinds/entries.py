"""Kinds of calls that need no person: entries of `approvals: allow:` in `workshop.yaml`, and grants of a person.

A grant is what a person agrees to beyond one call, for one run. It covers a call of its kind in the same circumstances
only: with no further capability, under the same people, from the same real folder, and for a command with the files
that its own words name as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from pydantic import Field

from llm_do_temporal.errors import SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.budget import Dimension, Duration, described
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, join, locate, locate_all
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind, argv_of, form_of, free_word
from llm_do_temporal.policy.shell import LISTED, split_command
from llm_do_temporal.policy.values import CapabilityUse, Value

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


DEFAULT_TIMES = 20
DEFAULT_SECONDS = 3600
MOST_TIMES = 1000


class KindGrant(Value):
    """Agreement of a person to further calls of a kind, for the rest of a run."""

    kind: CallKind
    times: int = Field(default=DEFAULT_TIMES, ge=1, le=MOST_TIMES)
    """Number of further calls."""
    seconds: Duration = DEFAULT_SECONDS
    """Seconds from the decision during which they may be made."""

    @property
    def words(self) -> str:
        """The grant in words."""
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.kind.sentence}, {times} more, for {described(Dimension.TIME, Decimal(self.seconds))}"


class GrantedKind(Value):
    """Kind that was granted, and the circumstances of the call that it was granted on."""

    kind: CallKind
    times: int
    seconds: int
    names: tuple[str, ...]
    """Capabilities of that call; a covered call has no other."""
    places: tuple[str, ...]
    """Real folders, or file, relative to the workshop, that the kind's path stands for; empty where it has none."""
    surroundings: str
    held: tuple[SeenFile, ...]
    """Files that a command names by words that are not free."""
    whom: tuple[Any, ...]
    """People who had to agree."""

    @classmethod
    def of(cls, grant: KindGrant, call: AskedCall, whom: tuple[Any, ...]) -> GrantedKind:
        """Return the kind as it is granted on this call, to which these people had to agree."""
        return cls(
            kind=grant.kind,
            times=grant.times,
            seconds=grant.seconds,
            names=tuple(sorted(call.names)),
            places=_real_places(grant.kind, call),
            surroundings=call.surroundings,
            held=_held(grant.kind, call),
            whom=whom,
        )

    def covers(self, call: AskedCall, whom: tuple[Any, ...]) -> bool:
        """Return whether the call, to which these people would have to agree, is covered."""
        return (
            self.kind.covers(call)
            and call.names <= set(self.names)
            and self.whom == whom
            and self.surroundings == call.surroundings
            and self.places == _real_places(self.kind, call)
            and self.held == _held(self.kind, call)
        )


def _real_places(kind: CallKind, call: AskedCall) -> tuple[str, ...]:
    folder = kind.path or kind.below or kind.folder or kind.attachments
    if folder is None:
        return ()
    try:
        _, places = locate_all(call.tree, folder)
    except SandboxRefusal:
        return ()
    return tuple(sorted(join(place.mount.root, place.relative) for place in places))


def _held(kind: CallKind, call: AskedCall) -> tuple[SeenFile, ...]:
    """Return the files of a command but those that its free word alone names."""
    if kind.command is None:
        return ()
    argv = argv_of(call) or ()
    word = free_word(kind.command, argv)
    named = None if word is None else _path_of(word, call)
    fixed = [one for number, one in enumerate(argv) if number != form_of(kind.command).free]
    kept = (
        one
        for one in call.files
        # A program makes a file of a word without suffix, too.
        if named not in (one.path, one.path.rpartition(".")[0]) or _is_named(one.path, fixed)
    )
    return tuple(sorted(kept, key=lambda one: one.path))


def _is_named(path: str, words: Iterable[str]) -> bool:
    """Return whether the last part of a path stands in one of these words, however it is spelled."""
    whole = PurePosixPath(path)
    return any(whole.name in word or whole.stem == PurePosixPath(word).name for word in map(unquote, words))


def _path_of(word: str, call: AskedCall) -> str | None:
    try:
        return locate(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}").path
    except SandboxRefusal:
        return None
