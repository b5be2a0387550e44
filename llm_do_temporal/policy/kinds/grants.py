"""Grants of a kind of calls: what a person agrees to beyond one call, and the facts that it stays bound to.

A grant holds for one run. It covers a call of its kind in the same circumstances only: with no further capability,
under the same people, from the same real folder, and for a command with the files that its own words name as they were.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pydantic import Field

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.budget.limits import Dimension, Duration, described
from llm_do_temporal.policy.files.sandbox import join, locate, locate_all
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.commands import argv_of, free_word
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
    if kind.command is None:
        return ()
    word = free_word(kind.command, argv_of(call) or ())
    named = None if word is None else _path_of(word, call)
    others = [one for one in call.files if named is None or not (one.path == named or one.path.startswith(f"{named}."))]
    return tuple(sorted(others, key=lambda one: one.path))


def _path_of(word: str, call: AskedCall) -> str | None:
    try:
        return locate(call.tree, f"{call.uses[0].payload.get('cwd')}/{word}").path
    except SandboxRefusal:
        return None
