"""Changes of a fork, as people write them, and the cut that each of them makes into the other run's record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.forks.policy.cut import Cut, cut_after, cut_around, cut_below, cut_turns
from llm_do_temporal.extensions.forks.policy.outline import (
    KeyedCall,
    KeyedInvocation,
    KeyedQuestion,
    KeyedTurn,
    RunOutline,
)
from llm_do_temporal.policy.values import Value

_STEP = re.compile(r"(?P<path>[^@]+)@(?P<turn>[0-9]{1,6})(?:#(?P<call>[0-9]{1,6}))?")
_DECISION = re.compile(r"(?P<id>a[0-9]{1,9})=(?P<decision>approve|reject|modify)(?::(?P<more>.*))?", re.DOTALL)
_MOST_LISTED = 20


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
    if match["decision"] == "modify" and not match["more"]:
        raise UsageError(
            f"'{text[:80]}' says no arguments", next_step="Write them as JSON or as @FILE: a3=modify:@arguments.json."
        )
    if match["decision"] == "approve" and match["more"]:
        raise UsageError(f"'{text[:80]}': an approval has nothing behind it; write {match['id']}=approve")
    more = match["more"] or ""
    if match["decision"] == "reject" and not (more := _unquoted(more)):
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


def found_call(outline: RunOutline, step: StepName) -> tuple[KeyedInvocation, KeyedTurn, KeyedCall]:
    """Return the call of this name, the only one of its turn where none is numbered. Raises UsageError."""
    one, turn = found_turn(outline, step)
    if not turn.calls:
        raise UsageError(f"turn {turn.number} of '{one.path}' called no tool, so there is no result to replace")
    named = [call for call in turn.calls if step.call in (None, call.number)]
    if len(named) == 1:
        return one, turn, named[0]
    calls = _listed([f"{one.path}@{turn.number}#{call.number} ({call.tool})" for call in turn.calls])
    asked = f"has no call {step.call}" if step.call is not None else "made several calls"
    raise UsageError(f"turn {turn.number} of '{one.path}' {asked}", next_step=f"Name one of: {calls}.")


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
    calls = ((turn, call) for turn in one.turns for call in turn.calls if call.key == question.content_key)
    asked = Cut(asked=(question.content_key,))
    if (made := next(calls, None)) is not None:
        turn, call = made
        return cut_after(outline, one.path, call, turn.number, is_made=changed.decision != "reject").plus(asked)
    # A function asked: what it called is done anew.
    functions = {call.key for turn in one.turns for call in turn.calls if call.of_function}
    own = Cut(calls=frozenset({question.content_key, *functions}))
    return cut_around(outline, (one.path,)).plus(own).plus(asked)


def cut_of_result(outline: RunOutline, step: StepName) -> tuple[str, Cut]:
    """Return the key of a call that comes to something else, and the cut around it. Raises UsageError."""
    one, turn, call = found_call(outline, step)
    return call.key, cut_after(outline, one.path, call, turn.number, is_made=False)


def cut_of_paths(outline: RunOutline, paths: Sequence[str]) -> Cut:
    """Return the cut of invocations that are to be done anew, with all below them. Raises UsageError."""
    cut = Cut()
    for path in paths:
        cut = cut.plus(cut_below(outline, found_invocation(outline, path.strip()).path))
    return cut


def cut_of_workers(outline: RunOutline, paths: Sequence[str], *, sure: bool) -> Cut:
    """Return the cut around invocations whose definition or model is another.

    `sure` says that their models are told something else, so that all of their turns are asked anew.
    """
    cut = cut_around(outline, paths)
    return cut.plus(Cut(began=dict.fromkeys(paths, 1))) if sure else cut


def _unquoted(text: str) -> str:
    """Return a text without the quotes around it, and without the blanks at its ends."""
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_LISTED])
    return f"{shown} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else shown
