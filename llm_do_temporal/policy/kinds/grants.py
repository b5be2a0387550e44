"""Grants of a kind of calls: what a person agrees to beyond one call, and the facts that it stays bound to.

A grant holds for one run. It covers a call of its kind in the same circumstances only: with no further capability,
under the same people, from the same real folder, and for a command with the files that its own words name as they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from pydantic import Field

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.budget.limits import Dimension, Duration, described
from llm_do_temporal.policy.files.sandbox import join, locate, locate_all
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.commands import argv_of, form_of, free_word
from llm_do_temporal.policy.kinds.kind import CallKind
from llm_do_temporal.policy.values import Value

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
    kept = (one for one in call.files if named is None or not _is_of(named, one.path) or _is_named(one.path, fixed))
    return tuple(sorted(kept, key=lambda one: one.path))


def _is_of(named: str, path: str) -> bool:
    """Return whether a file is the one that a free word names, or one that a program makes of a word without suffix."""
    return path == named or path.rpartition(".")[0] == named


def _is_named(path: str, words: Iterable[str]) -> bool:
    """Return whether the last part of a path stands in one of these words, however it is spelled."""
    whole = PurePosixPath(path)
    return any(whole.name in word or whole.stem == PurePosixPath(word).name for word in map(unquote, words))


def _path_of(word: str, call: AskedCall) -> str | None:
    try:
        return locate(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}").path
    except SandboxRefusal:
        return None
