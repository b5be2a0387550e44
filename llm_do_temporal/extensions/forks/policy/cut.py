"""Cut of a fork: the steps of the other run that are taken out of its record, because they are to be done anew.

Turns look after themselves: the key of each takes in everything that was said before. What is looked up by its inputs
alone has to be taken out by hand: a delegation, wherever something below it is another. So the cut of an invocation
goes up to the entry: the call and the delegation of each that contains it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from llm_do_temporal.extensions.forks.policy.outline import KeyedCall, KeyedInvocation, RunOutline
from llm_do_temporal.policy.values import Value


class Cut(Value):
    """Steps that are taken out of the record."""

    turns: frozenset[str] = frozenset()
    """Keys of turns."""
    calls: frozenset[str] = frozenset()
    """Keys of calls and of delegations."""
    asked: tuple[str, ...] = ()
    """Keys of calls about which people are asked, whatever the layer would spare them."""
    changed: frozenset[str] = frozenset()
    """Paths of invocations in which something is another than in the other run."""
    began: dict[str, int] = Field(default_factory=dict)
    """Number of the first turn that is surely asked anew, by the path of a changed invocation, where it is known."""
    unneeded: frozenset[str] = frozenset()
    """Paths of invocations that nobody calls any more: their calls come to something without them."""

    def plus(self, other: Cut) -> Cut:
        """Return both cuts together."""
        began = dict(self.began)
        for path, turn in other.began.items():
            began[path] = min(turn, began.get(path, turn))
        return Cut(
            turns=self.turns | other.turns,
            calls=self.calls | other.calls,
            asked=tuple(dict.fromkeys((*self.asked, *other.asked))),
            changed=self.changed | other.changed,
            began=began,
            unneeded=self.unneeded | other.unneeded,
        )


def cut_around(outline: RunOutline, paths: Iterable[str]) -> Cut:
    """Return the cut of everything that contains one of the invocations at these paths."""
    calls: set[str] = set()
    changed: set[str] = set()
    for path in paths:
        changed.add(path)
        for one in outline.above(path):
            calls |= {one.called_by, one.delegation_key} - {""}
            calls |= _calls_around(outline, one)
    return Cut(calls=frozenset(calls), changed=frozenset(changed))


def cut_turns(outline: RunOutline, path: str, first: int) -> Cut:
    """Return the cut of the turns of an invocation from number `first` on, with their calls."""
    found = outline.at(path)
    turns = [] if found is None else [turn for turn in found.turns if turn.number >= first]
    own = Cut(
        turns=frozenset(turn.key for turn in turns),
        calls=frozenset(call.key for turn in turns for call in turn.calls),
        began={path: first},
    )
    return cut_around(outline, (path,)).plus(own)


def cut_below(outline: RunOutline, path: str) -> Cut:
    """Return the cut of all turns of an invocation and of those below it."""
    cut = Cut()
    for one in outline.below(path):
        cut = cut.plus(cut_turns(outline, one.path, 1))
    return cut


def cut_after(outline: RunOutline, path: str, call: KeyedCall, turn: int, *, is_made: bool) -> Cut:
    """Return the cut around a call of this turn that comes to something else.

    `is_made` says that the call is made all the same, and what it begins may be another.
    """
    below = frozenset(one.path for child in call.children for one in outline.below(child))
    own = Cut(calls=frozenset({call.key}), began={path: turn + 1}, unneeded=frozenset() if is_made else below)
    return cut_around(outline, (path, *(call.children if is_made else ()))).plus(own)


def _calls_around(outline: RunOutline, child: KeyedInvocation) -> set[str]:
    """Return the calls of functions that may have begun the invocation, where no call of its caller's model did."""
    caller = outline.at(child.caller)
    if caller is None:
        return set()
    made = {call.key for turn in caller.turns for call in turn.calls}
    if child.called_by in made:
        return set()
    return {call.key for turn in caller.turns for call in turn.calls if call.of_function}
