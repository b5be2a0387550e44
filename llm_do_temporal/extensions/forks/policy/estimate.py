"""Estimate of a fork before it starts: what is reused, what runs, and what that may cost, as a range.

The low end counts what surely runs, as it was recorded. The high end counts everything that may depend on a change,
with headroom, since a model that is asked anew may say more, and ask more often. The first new turn of a conversation
pays for all of it: what the provider had in its cache then is not there now.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from decimal import ROUND_UP, Decimal

from llm_do_temporal.extensions.forks.policy.cut import Cut
from llm_do_temporal.extensions.forks.policy.outline import KeyedInvocation, KeyedTurn, RunOutline
from llm_do_temporal.policy.values import Value

HEADROOM = Decimal("1.5")
"""Factor on what was recorded, for the high end."""
LEAST = Decimal("0.5")
"""Factor on what was recorded, for the low end: an answer may be shorter than the one it replaces."""
CACHE_DISCOUNT = Decimal("0.9")
"""Largest part of the price of a token that a provider leaves out where it had the token in its cache."""


class Range(Value):
    """Range of an amount."""

    low: int = 0
    high: int = 0

    def holds(self, value: int) -> bool:
        """Return whether the value lies in the range."""
        return self.low <= value <= self.high


class ForkEstimate(Value):
    """Estimate of what a fork reuses and spends."""

    turns: int
    """Number of turns of the other run."""
    reused: Range = Range()
    """Turns that are reused."""
    new: Range = Range()
    """Turns that a model is asked for."""
    input_tokens: Range = Range()
    output_tokens: Range = Range()
    cost_low: Decimal | None = Decimal(0)
    cost_high: Decimal | None = Decimal(0)
    """US dollars; None: the price of a turn is not known."""
    workers: tuple[str, ...] = ()
    """Paths of the invocations that surely run, from a turn on."""
    maybe: tuple[str, ...] = ()
    """Paths of the invocations that may run, if what they depend on comes out differently."""
    unfinished: tuple[str, ...] = ()
    """Paths of invocations that go on where the other run has no more turns: nobody knows how long."""
    questions: Range = Range()
    """Questions to people, besides those of calls that nobody has made yet."""

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked of any model."""
        return self.new.high == 0


def estimate_fork(
    outline: RunOutline, cut: Cut, *, then: bool = True, other_models: frozenset[str] = frozenset()
) -> ForkEstimate:
    """Return the estimate of a fork with this cut. Files and workers that count as they are now may change anything.

    `other_models` are the paths of invocations whose model is another, with a price that is not known.
    """
    begins = _begins(outline, cut, then=then)
    sure: list[KeyedTurn] = []
    every: dict[str, list[KeyedTurn]] = {}
    surely: list[str] = []
    unfinished: list[str] = []
    for one in outline.invocations:
        if one.path in begins and one.path not in cut.unneeded:
            may = _from(one, begins[one.path].first)
            if may and may[-1].number > len(one.turns):
                unfinished.append(one.path)
            if one.path in other_models:
                may = [turn.model_copy(update={"cost": None}) for turn in may]
            every[one.path] = may
            if begins[one.path].sure and may:
                surely.append(one.path)
                sure.append(may[0])
    turns = [turn for each in every.values() for turn in each]
    recorded = {turn.key for one in outline.invocations for turn in one.turns}
    kept = sum(len(one.turns) for one in outline.invocations if one.path not in cut.unneeded)
    largest = [max(each, key=lambda turn: turn.input_tokens) for each in every.values() if each]
    firsts = {id(each[0]) for each in every.values() if each}
    return ForkEstimate(
        turns=outline.turns,
        reused=Range(low=kept - _count(turns, recorded), high=kept - _count(sure, recorded)),
        new=Range(low=len(sure), high=_up(len(turns)) + len(largest)),
        input_tokens=Range(low=int(_told(sure) * LEAST), high=_up(_told(turns)) + _up(_told(largest))),
        output_tokens=Range(low=len(sure), high=2 * (_up(_written(turns)) + _up(_written(largest)))),
        cost_low=_cost(sure, LEAST),
        cost_high=_cost([*turns, *largest], HEADROOM, uncached=firsts),
        workers=tuple(surely),
        maybe=tuple(path for path, may in every.items() if may and path not in surely),
        unfinished=tuple(unfinished),
        questions=_questions(outline, turns),
    )


class _Begin(Value):
    """First turn of an invocation that may be another."""

    first: int
    sure: bool = False
    """Whether it surely is asked anew."""


def _begins(outline: RunOutline, cut: Cut, *, then: bool) -> dict[str, _Begin]:
    """Return where invocations may begin to be others, by their paths."""
    found = {path: _Begin(first=turn, sure=True) for path, turn in cut.began.items()}
    for path in cut.changed:
        found.setdefault(path, _Begin(first=1))
        child = outline.at(path)
        for above in list(outline.above(path))[1:]:
            found[above.path] = _earlier(found.get(above.path), _calling_turn(above, child) + 1)
            child = above
    for one in outline.invocations:
        if not one.ended or (not then and one.turns):
            found[one.path] = _earlier(found.get(one.path), len(one.turns) + 1 if then else 1)
        caller = outline.at(one.caller)
        begin = None if caller is None else found.get(caller.path)
        if caller is not None and begin is not None and _calling_turn(caller, one) >= begin.first:
            # Begun by a turn that may be another, so perhaps not begun at all.
            found[one.path] = _Begin(first=1)
    return found


def _earlier(known: _Begin | None, first: int) -> _Begin:
    return known if known is not None and known.first <= first else _Begin(first=first)


def _from(one: KeyedInvocation, first: int) -> list[KeyedTurn]:
    """Return the turns from a number on; past the recorded ones, the last turn stands for the next."""
    turns = [turn for turn in one.turns if turn.number >= first]
    if turns or not one.turns or first != len(one.turns) + 1:
        return turns
    return [one.turns[-1].model_copy(update={"number": first, "key": "", "calls": ()})]


def _calling_turn(above: KeyedInvocation, child: KeyedInvocation | None) -> int:
    """Return the number of the turn whose answer began the child; where a function did, that of the first to call one.

    0 where nothing tells.
    """
    called_by = "" if child is None else child.called_by
    calls = [(turn.number, call) for turn in above.turns for call in turn.calls]
    named = [number for number, call in calls if call.key == called_by]
    return next(iter(named or [number for number, call in calls if call.of_function]), 0)


def _count(turns: Iterable[KeyedTurn], recorded: Container[str]) -> int:
    """Number of turns that were recorded, and do not stand for others after the last one."""
    return sum(turn.key in recorded for turn in turns)


def _told(turns: Iterable[KeyedTurn]) -> int:
    return sum(turn.input_tokens for turn in turns)


def _written(turns: Iterable[KeyedTurn]) -> int:
    return sum(turn.output_tokens for turn in turns)


def _cost(turns: Iterable[KeyedTurn], factor: Decimal, *, uncached: Iterable[int] = ()) -> Decimal | None:
    """Return the cost of turns, those of `uncached` without their providers' caches; None: a price is not known."""
    total, whole = Decimal(0), set(uncached)
    for turn in turns:
        if turn.cost is None:
            return None
        cost = turn.cost
        if id(turn) in whole and turn.input_tokens:
            share = Decimal(turn.cached_tokens) / Decimal(turn.input_tokens)
            cost = cost / (1 - CACHE_DISCOUNT * min(share, Decimal(1)))
        total += cost * factor
    return total


def _up(count: int) -> int:
    return int((count * HEADROOM).to_integral_value(rounding=ROUND_UP))


def _questions(outline: RunOutline, turns: Iterable[KeyedTurn]) -> Range:
    """Return the number of questions that may come: those about calls that may be made otherwise."""
    keys = {call.key for turn in turns for call in turn.calls}
    return Range(high=sum(one.content_key in keys and not one.is_review for one in outline.questions))
