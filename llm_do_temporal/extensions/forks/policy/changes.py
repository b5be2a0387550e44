"""Changes of a fork, as people write them, what each of them takes out of the other run's record, and what that costs.

Turns look after themselves: the key of each takes in everything that was said before. What is looked up by its inputs
alone has to be taken out by hand: a delegation, wherever something below it is another. So the cut of an invocation
goes up to the entry: the call and the delegation of each that contains it.

The estimate is a range. Its low end counts what surely runs, as it was recorded. Its high end counts everything that
may depend on a change, with headroom, since a model that is asked anew may say more, and ask more often. The first new
turn of a conversation pays for all of it: what the provider had in its cache then is not there now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_UP, Decimal
from typing import Literal

from pydantic import Field

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.values import Value

_STEP = re.compile(r"(?P<path>[^@]+)@(?P<turn>[0-9]{1,6})(?:#(?P<call>[0-9]{1,6}))?")
_DECISION = re.compile(r"(?P<id>a[0-9]{1,9})=(?P<decision>approve|reject|modify)(?::(?P<more>.*))?", re.DOTALL)
_MOST_LISTED = 20


class KeyedCall(Value):
    """Tool call of a turn."""

    key: str
    tool: str
    number: int
    """Number of the call in its turn, from 1."""
    children: tuple[str, ...] = ()
    """Paths of the invocations that it began."""
    of_function: bool = False
    """Whether it calls a Python function of the author's, which may call others that no answer of a model has."""


class KeyedTurn(Value):
    """Model turn of an invocation."""

    number: int
    """Number of the turn in its invocation, from 1."""
    key: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider had in its cache."""
    cost: Decimal | None = None
    """US dollars; None: the price is not known."""
    calls: tuple[KeyedCall, ...] = ()


class KeyedInvocation(Value):
    """Invocation of a run."""

    path: str
    """Place in the tree, like `main/evaluator-2`."""
    delegation_key: str = ""
    """Content key by its inputs; empty for an entry invocation."""
    called_by: str = ""
    """Key of the call that began it; empty: an entry invocation, or an item of a batch."""
    turns: tuple[KeyedTurn, ...] = ()
    ended: bool = True
    """Whether it has completed, with a result."""

    @property
    def caller(self) -> str:
        """Path of the invocation above it; empty for a root of the tree."""
        return self.path.rpartition("/")[0]


class KeyedQuestion(Value):
    """Question of a run to people."""

    id: str
    """Id of the approval, like `a3`."""
    path: str
    """Place of the asking invocation."""
    tool: str
    content_key: str = ""
    """Key of the call that it is about; empty: it is about no call."""
    is_review: bool = False
    """Whether it asks for a review of changes."""


class RunOutline(Value):
    """A run's steps by their content keys, as far as its histories have them, with what each spent and no contents."""

    run: str
    invocations: tuple[KeyedInvocation, ...] = ()
    """Invocations in the order of their paths, those above before those below."""
    questions: tuple[KeyedQuestion, ...] = ()

    def at(self, path: str) -> KeyedInvocation | None:
        """Return the invocation at this path; None: there is none."""
        return next((one for one in self.invocations if one.path == path), None)

    def below(self, path: str) -> Iterator[KeyedInvocation]:
        """Yield the invocation at this path and all below it."""
        return (one for one in self.invocations if one.path == path or one.path.startswith(f"{path}/"))

    def above(self, path: str) -> Iterator[KeyedInvocation]:
        """Yield the invocation at this path and all above it, the nearest first."""
        while path:
            if (found := self.at(path)) is not None:
                yield found
            path = path.rpartition("/")[0]


class Cut(Value):
    """Steps that are taken out of the record, because they are to be done anew."""

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
        earlier = {path: min(turn, self.began.get(path, turn)) for path, turn in other.began.items()}
        return Cut(
            turns=self.turns | other.turns,
            calls=self.calls | other.calls,
            asked=tuple(dict.fromkeys((*self.asked, *other.asked))),
            changed=self.changed | other.changed,
            began=self.began | earlier,
            unneeded=self.unneeded | other.unneeded,
        )


class StepName(Value):
    """Name of a turn, `main/reader-1@2`, or of a call in it, `main/reader-1@2#1`."""

    path: str
    turn: int
    call: int | None = None
    """Number of the call in the turn, from 1; None: none is named."""


class ChangedDecision(Value):
    """Decision of a fork about a call that the other run asked about."""

    id: str
    """Id of the approval in the other run."""
    decision: Literal["approve", "reject", "modify"]
    more: str = ""
    """Reason for `reject`, arguments as JSON or @FILE for `modify`."""


def read_step(text: str) -> StepName:
    """Return the step that was typed. Raises UsageError."""
    match = _STEP.fullmatch(text.strip())
    if match is None or not int(match["turn"]) or match["call"] == "0":
        raise UsageError(
            f"'{text[:80]}' names no turn",
            next_step="Write PATH@TURN, like main/reader-1@2; PATH@TURN#N is the N-th call of that turn.",
        )
    return StepName(path=match["path"], turn=int(match["turn"]), call=int(match["call"]) if match["call"] else None)


def read_decision(text: str) -> ChangedDecision:
    """Return the decision that was typed. Raises UsageError."""
    match = _DECISION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text[:80]}' is no decision",
            next_step='Write a3=approve, a3=reject:"the reason" or a3=modify:@arguments.json.',
        )
    more = match["more"] or ""
    if match["decision"] == "modify" and not more:
        raise UsageError(
            f"'{text[:80]}' says no arguments", next_step="Write them as JSON or as @FILE: a3=modify:@arguments.json."
        )
    if match["decision"] == "approve" and more:
        raise UsageError(f"'{text[:80]}': an approval has nothing behind it; write {match['id']}=approve")
    if match["decision"] == "reject":
        more = more.strip()
        if len(more) > 1 and more[0] == more[-1] and more[0] in "\"'":
            more = more[1:-1].strip()
        if not more:
            raise UsageError(
                f"'{text[:80]}' says no reason, which the model is told",
                next_step=f'Write it behind a colon: {match["id"]}=reject:"too long".',
            )
    return ChangedDecision.model_validate({**match.groupdict(), "more": more})


def read_decisions(outline: RunOutline, texts: Sequence[str]) -> tuple[ChangedDecision, ...]:
    """Return the decisions that were typed. Raises UsageError, also for two about the same call."""
    found: dict[tuple[str, str], ChangedDecision] = {}
    for one in map(read_decision, texts):
        question = found_question(outline, one)
        before = found.setdefault((question.tool, question.content_key), one)
        if before is not one:
            which = f"'{one.id}' is" if one.id == before.id else f"'{before.id}' and '{one.id}' are one call, which is"
            raise UsageError(f"{which} decided twice", next_step="Keep one of the two decisions.")
    return tuple(found.values())


def found_turn(outline: RunOutline, step: StepName) -> tuple[KeyedInvocation, KeyedTurn]:
    """Return the invocation and the turn of this name. Raises UsageError that lists what there is."""
    one = found_invocation(outline, step.path)
    turn = next((turn for turn in one.turns if turn.number == step.turn), None)
    if turn is None:
        count = len(one.turns)
        there = f"it has turns 1 to {count}" if count > 1 else "it has turn 1" if count else "it has no turn"
        raise UsageError(f"'{one.path}' of run '{outline.run}' has no turn {step.turn}; {there}")
    return one, turn


def found_invocation(outline: RunOutline, path: str) -> KeyedInvocation:
    """Return the invocation at this path. Raises UsageError that lists what there is."""
    one = outline.at(path)
    if one is None:
        listed = _listed([one.path for one in outline.invocations])
        raise UsageError(f"run '{outline.run}' has no invocation '{path}'", next_step=f"It has: {listed}.")
    return one


def found_question(outline: RunOutline, changed: ChangedDecision) -> KeyedQuestion:
    """Return the question of this id. Raises UsageError where there is none, or a fork cannot answer it otherwise."""
    question = next((one for one in outline.questions if one.id == changed.id), None)
    if question is None:
        asked = _listed([f"{one.id} ({one.tool})" for one in outline.questions])
        raise UsageError(
            f"run '{outline.run}' has no approval '{changed.id}'",
            next_step=f"It asked: {asked}." if outline.questions else "It asked nobody anything.",
        )
    if question.is_review:
        raise UsageError(
            f"'{changed.id}' of run '{outline.run}' is a review of changes, which a fork does not ask for: all that it "
            "changes stays in its layer",
            next_step="Change what led to these changes: --at, --worker, --set, --result.",
        )
    if not question.content_key:
        raise UsageError(
            f"'{changed.id}' of run '{outline.run}' is about no call of a tool, so a fork cannot answer it otherwise"
        )
    return question


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_LISTED])
    return f"{shown} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else shown


def cut_around(outline: RunOutline, paths: Iterable[str]) -> Cut:
    """Return the cut of everything that contains one of the invocations at these paths."""
    changed = frozenset(paths)
    calls: set[str] = set()
    for one in (above for path in changed for above in outline.above(path)):
        calls |= {one.called_by, one.delegation_key} - {""}
        caller = outline.at(one.caller)
        made = [] if caller is None else [call for turn in caller.turns for call in turn.calls]
        if all(call.key != one.called_by for call in made):
            # No answer of its caller's model called it, so a function has.
            calls |= {call.key for call in made if call.of_function}
    return Cut(calls=frozenset(calls), changed=changed)


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


def cut_at(outline: RunOutline, step: StepName) -> Cut:
    """Return the cut of a turn that is to be asked anew, with what follows in its invocation. Raises UsageError."""
    if step.call is not None:
        raise UsageError(
            f"'{step.path}@{step.turn}#{step.call}' names a call; what is done anew begins with a turn",
            next_step=f"Write --at {step.path}@{step.turn}.",
        )
    one, turn = found_turn(outline, step)
    return cut_turns(outline, one.path, turn.number)


def cut_of_decision(outline: RunOutline, changed: ChangedDecision) -> Cut:
    """Return the cut around a call about which is decided otherwise. Raises UsageError."""
    question = found_question(outline, changed)
    one = found_invocation(outline, question.path)
    calls = [(turn, call) for turn in one.turns for call in turn.calls]
    asked = Cut(asked=(question.content_key,))
    for turn, call in calls:
        if call.key == question.content_key:
            return _cut_after(outline, one.path, call, turn.number, is_made=changed.decision != "reject").plus(asked)
    # A function asked: what it called is done anew.
    functions = {call.key for _, call in calls if call.of_function}
    own = Cut(calls=frozenset({question.content_key, *functions}))
    return cut_around(outline, (one.path,)).plus(own).plus(asked)


def cut_of_result(outline: RunOutline, step: StepName) -> tuple[str, Cut]:
    """Return the key of a call that comes to something else, and the cut around it. Raises UsageError.

    Where the step names no call, it is the only one of its turn.
    """
    one, turn = found_turn(outline, step)
    if not turn.calls:
        raise UsageError(f"turn {turn.number} of '{one.path}' called no tool, so there is no result to replace")
    named = [call for call in turn.calls if step.call in (None, call.number)]
    if len(named) != 1:
        calls = _listed([f"{one.path}@{turn.number}#{call.number} ({call.tool})" for call in turn.calls])
        asked = f"has no call {step.call}" if step.call is not None else "made several calls"
        raise UsageError(f"turn {turn.number} of '{one.path}' {asked}", next_step=f"Name one of: {calls}.")
    return named[0].key, _cut_after(outline, one.path, named[0], turn.number, is_made=False)


def _cut_after(outline: RunOutline, path: str, call: KeyedCall, turn: int, *, is_made: bool) -> Cut:
    """Return the cut around a call of this turn that comes to something else.

    `is_made` says that the call is made all the same, and what it begins may be another.
    """
    below = frozenset(one.path for child in call.children for one in outline.below(child))
    own = Cut(calls=frozenset({call.key}), began={path: turn + 1}, unneeded=frozenset() if is_made else below)
    return cut_around(outline, (path, *(call.children if is_made else ()))).plus(own)


def cut_of_paths(outline: RunOutline, paths: Sequence[str]) -> Cut:
    """Return the cut of invocations that are to be done anew, with all below them. Raises UsageError."""
    cut = Cut()
    for path in paths:
        for one in outline.below(found_invocation(outline, path.strip()).path):
            cut = cut.plus(cut_turns(outline, one.path, 1))
    return cut


def cut_of_workers(outline: RunOutline, paths: Sequence[str], *, sure: bool) -> Cut:
    """Return the cut around invocations whose definition or model is another.

    `sure` says that their models are told something else, so that all of their turns are asked anew.
    """
    cut = cut_around(outline, paths)
    return cut.plus(Cut(began=dict.fromkeys(paths, 1))) if sure else cut


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
    firsts, begun = _first_turns(outline, cut, then=then)
    every: dict[str, list[KeyedTurn]] = {}
    sure: dict[str, KeyedTurn] = {}
    unfinished: list[str] = []
    for one in outline.invocations:
        if one.path not in firsts or one.path in cut.unneeded:
            continue
        first = firsts[one.path]
        may = [turn for turn in one.turns if turn.number >= first]
        if one.turns and first == len(one.turns) + 1:
            # Past the recorded turns the last one stands for the next.
            may = [one.turns[-1].model_copy(update={"number": first, "key": "", "calls": ()})]
            unfinished.append(one.path)
        if one.path in other_models:
            may = [turn.model_copy(update={"cost": None}) for turn in may]
        if may:
            every[one.path] = may
            if first == cut.began.get(one.path) and one.path in begun:
                sure[one.path] = may[0]
    turns = [turn for each in every.values() for turn in each]
    largest = [max(each, key=lambda turn: turn.input_tokens) for each in every.values()]
    recorded = {turn.key for one in outline.invocations for turn in one.turns}
    kept = sum(len(one.turns) for one in outline.invocations if one.path not in cut.unneeded)
    reused = [kept - sum(turn.key in recorded for turn in some) for some in (turns, sure.values())]
    told, told_again, least = (sum(one.input_tokens for one in some) for some in (turns, largest, sure.values()))
    written, written_again = (sum(one.output_tokens for one in some) for some in (turns, largest))
    keys = {call.key for turn in turns for call in turn.calls}
    return ForkEstimate(
        turns=sum(len(one.turns) for one in outline.invocations),
        reused=Range(low=reused[0], high=reused[1]),
        new=Range(low=len(sure), high=_up(len(turns)) + len(largest)),
        input_tokens=Range(low=int(least * LEAST), high=_up(told) + _up(told_again)),
        output_tokens=Range(low=len(sure), high=2 * (_up(written) + _up(written_again))),
        cost_low=_cost(sure.values(), LEAST),
        cost_high=_cost([*turns, *largest], HEADROOM, uncached={id(each[0]) for each in every.values()}),
        workers=tuple(sure),
        maybe=tuple(path for path in every if path not in sure),
        unfinished=tuple(unfinished),
        questions=Range(high=sum(one.content_key in keys and not one.is_review for one in outline.questions)),
    )


def _first_turns(outline: RunOutline, cut: Cut, *, then: bool) -> tuple[dict[str, int], set[str]]:
    """Return the number of the first turn that may be another, by the paths of the invocations that have one.

    Then the paths of those that are surely begun.
    """
    found = dict(cut.began)
    begun = {one.path for one in outline.invocations}

    def begin(path: str, first: int) -> None:
        found[path] = min(first, found.get(path, first))

    for path in cut.changed:
        found.setdefault(path, 1)
        child = outline.at(path)
        for above in list(outline.above(path))[1:]:
            begin(above.path, _calling_turn(above, child) + 1)
            child = above
    for one in outline.invocations:
        if not one.ended or (not then and one.turns):
            begin(one.path, len(one.turns) + 1 if then else 1)
        caller = outline.at(one.caller)
        if caller is not None and caller.path in found and _calling_turn(caller, one) >= found[caller.path]:
            # Begun by a turn that may be another, so perhaps not begun at all.
            found[one.path] = 1
            begun.discard(one.path)
    return found, begun


def _calling_turn(above: KeyedInvocation, child: KeyedInvocation | None) -> int:
    """Return the number of the turn whose answer began the child; where a function did, that of the first to call one.

    0 where nothing tells.
    """
    called_by = "" if child is None else child.called_by
    calls = [(turn.number, call) for turn in above.turns for call in turn.calls]
    named = [number for number, call in calls if call.key == called_by]
    return next(iter(named or [number for number, call in calls if call.of_function]), 0)


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
