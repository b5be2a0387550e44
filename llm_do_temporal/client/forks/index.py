"""Index of a fork: all that may be reused of a run's record, under its content keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from llm_do_temporal.client.forks.invocation_record import AnsweredTurn, InvocationRecord, MadeCall, MadeEffect
from llm_do_temporal.client.forks.run_record import RunRecord
from llm_do_temporal.desk.scripts import shown_digest
from llm_do_temporal.errors import Refusal
from llm_do_temporal.messages.activities import EDIT_FILE, RUN_COMMAND, WRITE_FILE
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.base import Json
from llm_do_temporal.messages.definitions import PythonTool
from llm_do_temporal.messages.experiments.answers import ScriptedAnswer
from llm_do_temporal.messages.experiments.forks import ForkIndex, RecordedCall, RecordedEffect, RecordedTurn
from llm_do_temporal.messages.reviews import LayerWork
from llm_do_temporal.policy.files.sandbox import Tree, locate
from llm_do_temporal.policy.layers.layer import CarriedLayer
from llm_do_temporal.policy.reuse.cut import Cut
from llm_do_temporal.policy.reuse.keys import ending_key

READ_TOOLS = frozenset(("read_file", "list_files"))
"""Tools that only read files."""
COMMAND_TOOLS = frozenset(("shell",))
_CHANGE_TOOLS = {"write_file": WRITE_FILE.name, "edit_file": EDIT_FILE.name}
_OF_PEOPLE = ("signal", "update", "script", "grant", "rule")
"""Doors of decisions that a fork takes over; a deadline that has passed is none."""
_ChangeActivity = Literal["write_file", "edit_file", "save_worker", "run_command"]


@dataclass(frozen=True)
class IndexOptions:
    """Choices about what is reused, besides the cut."""

    then: bool = True
    """Whether files count as they were; else delegations, commands and what was read are done anew."""
    results: dict[str, Json] | None = None
    """Results that replace those of calls, by call key; None: none."""
    before: ForkIndex | None = None
    """Record that the run reused, where it is a fork itself: it has what was taken over whole. None: there is none."""
    changed_workers: bool = False
    """Whether any worker or model is another, so that no delegation of that record counts."""


def build_index(record: RunRecord, cut: Cut, options: IndexOptions = IndexOptions()) -> ForkIndex:
    """Return what a fork reuses of the run."""
    turns: dict[str, list[RecordedTurn]] = {}
    calls: dict[str, list[RecordedCall]] = {}
    for one in record.invocations.values():
        for turn in one.turns:
            if turn.key not in cut.turns:
                found = RecordedTurn(path=one.path, turn=turn.number, answer=turn.answer)
                turns.setdefault(turn.key, []).append(found)
        for key, call in _Calls(record, one, options).all():
            if key and key not in cut.calls:
                calls.setdefault(key, []).append(call)
    if options.before is not None:
        _take_over(options.before, cut, options, turns, calls)
    for key, content in (options.results or {}).items():
        at = _place_of(record, key)
        if at is not None:
            path, turn, tool = at
            calls[key] = [RecordedCall(path=path, turn=turn, tool=tool, outcome="returned", content=content)]
    return ForkIndex(
        run=record.run,
        execution=record.execution,
        turns={key: tuple(found) for key, found in turns.items()},
        calls={key: tuple(found) for key, found in calls.items()},
        asked=cut.asked,
        answers=tuple(one for one in answers_of(record) if one.content_key not in cut.asked),
    )


def _take_over(
    before: ForkIndex,
    cut: Cut,
    options: IndexOptions,
    turns: dict[str, list[RecordedTurn]],
    calls: dict[str, list[RecordedCall]],
) -> None:
    """Add what a run has reused of another one: calls with their changes of files, and what they began."""
    for key, found in before.turns.items():
        if key not in cut.turns:
            turns.setdefault(key, list(found))
    for key, recorded in before.calls.items():
        left = [one for one in recorded if not (one.child and (options.changed_workers or not options.then))]
        if left and key not in cut.calls:
            own = calls.get(key, [])
            calls[key] = own if any(one.effects or one.child for one in own) else left


def answers_of(record: RunRecord) -> Iterator[ScriptedAnswer]:
    """Yield the decisions of a run, each for the same question about the same call."""
    for question in record.questions:
        verdict, request = question.verdict, question.request
        if verdict is None or verdict.door not in _OF_PEOPLE or not request.content_key or request.review is not None:
            continue
        changed = verdict.decision is DecisionKind.MODIFY
        yield ScriptedAnswer(
            tool=request.tool,
            content_key=request.content_key,
            shown=shown_digest(request),
            decision=verdict.decision.value,
            args=verdict.args if changed else None,
            note=verdict.note,
            by=verdict.by,
            source=f"{record.run} {question.id}",
        )


@dataclass(frozen=True)
class _Calls:
    """Calls of one invocation, as a fork reuses them."""

    record: RunRecord
    invocation: InvocationRecord
    options: IndexOptions

    def all(self) -> Iterator[tuple[str, RecordedCall]]:
        """Yield calls, reviews and the delegations to those directly below, with their keys."""
        for turn in self.invocation.turns:
            for call in turn.calls:
                found = self._call(turn, call)
                if found is not None:
                    yield call.key, found
            if turn.review is not None and turn.key:
                words = RecordedCall(
                    path=self.invocation.path, turn=turn.number, tool="", outcome="returned", content=turn.review
                )
                yield ending_key(turn.key), words
        for child in self._children() if self.options.then else ():
            if child.result is not None and child.start.content_key and not self._is_lost(child):
                yield child.start.content_key, self._delegation(child)

    def _call(self, turn: AnsweredTurn, call: MadeCall) -> RecordedCall | None:
        """Return the call as it is reused; None: it is made again."""
        if call.outcome is None or call.lost:
            return None
        below = [child for child in self._children() if child.start.called_by == call.key]
        if call.tool in {one.name for one in self._functions()}:
            unseen = self._unseen(turn)
            is_only = sum(one.tool in {tool.name for tool in self._functions()} for one in turn.calls) == 1
            if unseen and not is_only:
                return None
            below += [one for one in unseen if isinstance(one, InvocationRecord)]
            if self._writes_unseen(call):
                return None
        if self._was_taken_over(call, below) or not self._is_current(call, below):
            return None
        if any(map(self._is_lost, below)):
            return None
        return RecordedCall(
            path=self.invocation.path,
            turn=turn.number,
            tool=call.tool,
            outcome=call.outcome,
            content=call.content,
            child=below[0].path if below else "",
            effects=tuple(self._effects(turn, call, below)),
            saved=self._saved(below),
        )

    def _was_taken_over(self, call: MadeCall, below: list[InvocationRecord]) -> bool:
        """Return whether what a call changed is not in this run's histories: a fork may have taken it over whole."""
        if self.record.start.fork is None or below or call.tool in _CHANGE_TOOLS or call.tool in READ_TOOLS:
            return False
        return not any(one.key == call.key for one in self.invocation.effects)

    def _is_current(self, call: MadeCall, below: list[InvocationRecord]) -> bool:
        """Return whether a call may be reused although files may be others now."""
        return self.options.then or not (below or call.tool in READ_TOOLS or call.tool in COMMAND_TOOLS)

    def _delegation(self, child: InvocationRecord) -> RecordedCall:
        result = child.result
        assert result is not None
        return RecordedCall(
            path=self.invocation.path,
            turn=self.invocation.children.get(self._workflow_of(child), 0),
            tool="",
            outcome="returned",
            result=result.model_copy(update={"layer": None}),
            child=child.path,
            effects=tuple(self._effects_below(child)),
            saved=self._saved([child]),
        )

    def _workflow_of(self, child: InvocationRecord) -> str:
        return f"{child.start.run}/{child.path}"

    def _children(self) -> list[InvocationRecord]:
        return self.record.children_of(self.invocation)

    def _functions(self) -> tuple[PythonTool, ...]:
        toolset = self.invocation.start.worker.python
        return () if toolset is None else toolset.tools

    def _unseen(self, turn: AnsweredTurn) -> list[InvocationRecord | MadeEffect]:
        """Return what began after the turn's answer by no call of it: functions have begun it."""
        made = {call.key for call in turn.calls}
        found: list[InvocationRecord | MadeEffect] = [
            one for one in self.invocation.effects if one.turn == turn.number and one.key not in made
        ]
        started = self.invocation.children
        begun = [one for one in self._children() if started.get(self._workflow_of(one)) == turn.number]
        return [*found, *(child for child in begun if child.start.called_by not in made)]

    def _writes_unseen(self, call: MadeCall) -> bool:
        """Return whether what a function changes is in no history: it runs in workflow code, on a layer."""
        kind = next(one.kind for one in self._functions() if one.name == call.tool)
        return kind == "context" and has_layer(self.invocation)

    def _effects(self, turn: AnsweredTurn, call: MadeCall, below: list[InvocationRecord]) -> Iterator[RecordedEffect]:
        """Yield the changes of files that a call has made, in their order."""
        if call.tool in _CHANGE_TOOLS and call.outcome == "returned":
            own = [one for one in self.invocation.effects if one.key == call.key]
            if not own:
                yield from self._written_in_layer(call)
        unseen = self._unseen(turn) if call.tool in {one.name for one in self._functions()} else []
        mine = [one for one in self.invocation.effects if one.key == call.key]
        mine += [one for one in unseen if isinstance(one, MadeEffect)]
        ordered: list[tuple[int, Iterator[RecordedEffect]]] = [(one.at, iter((_effect(one),))) for one in mine]
        for child in below:
            ended = max((one.at for one in self._all_below(child)), default=0)
            ordered.append((ended, self._effects_below(child)))
        for _, found in sorted(ordered, key=lambda one: one[0]):
            yield from found

    def _effects_below(self, child: InvocationRecord) -> Iterator[RecordedEffect]:
        """Yield the changes of files by an invocation and those below it."""
        if child.start.layer is not None:
            if child.result is not None and child.result.layer is not None:
                yield RecordedEffect(
                    activity="join_layers", request=None, began=child.start.layer, ended=child.result.layer
                )
            return
        yield from map(_effect, sorted(self._all_below(child), key=lambda one: one.at))

    def _all_below(self, child: InvocationRecord) -> list[MadeEffect]:
        return [effect for one in self.record.below(child.path) for effect in one.effects]

    def _written_in_layer(self, call: MadeCall) -> Iterator[RecordedEffect]:
        """Yield the change that a call made in a layer, where the history has only its result."""
        args = self._args_of(call)
        try:
            place = locate(self._tree(), str(args["path"]))
        except (KeyError, Refusal):
            return
        where: dict[str, Any] = {
            "mount": place.mount.model_dump(mode="json"),
            "relative": place.relative,
            "path": place.path,
            "definitions": True,
        }
        texts = {name: args[name] for name in ("content", "old_text", "new_text") if name in args}
        result = {"path": place.path, "bytes": 0, "created": False, "diff": "changed"}
        activity = cast("_ChangeActivity", call.tool)
        # A layer that it began on: what cannot be repeated there is done anew.
        yield RecordedEffect(activity=activity, request={**where, **texts}, result=result, began=CarriedLayer())

    def _args_of(self, call: MadeCall) -> dict[str, Any]:
        """Return the arguments that a call was carried out with: people may have changed them."""
        changed = [
            question.verdict.args
            for question in self.record.questions
            if question.request.content_key == call.key
            and question.verdict is not None
            and question.verdict.decision is DecisionKind.MODIFY
        ]
        return changed[-1] if changed else call.args

    def _tree(self) -> Tree:
        return self.invocation.start.tree

    def _is_lost(self, child: InvocationRecord) -> bool:
        """Return whether nobody knows what came of an effect below."""
        return any(call.lost for one in self.record.below(child.path) for turn in one.turns for call in turn.calls)

    def _saved(self, below: list[InvocationRecord]) -> Json:
        if not below:
            return None
        spent = self.record.spent_below(below[0].path)
        for one in below[1:]:
            spent = spent.plus(self.record.spent_below(one.path))
        return spent.model_dump(mode="json")


def _effect(made: MadeEffect) -> RecordedEffect:
    layer = LayerWork.model_validate(made.request["layer"]) if made.request.get("layer") else None
    request = None if made.activity == RUN_COMMAND.name else made.request
    return RecordedEffect(
        activity=cast("_ChangeActivity", made.activity),
        request=request,
        result=made.result,
        began=None if layer is None else layer.carried,
    )


def has_layer(one: InvocationRecord) -> bool:
    """Return whether an invocation works on a layer, as far as its start tells."""
    settings, worker = one.start.settings, one.start.worker
    return one.start.layer is not None or bool(settings.review or worker.review) or settings.aside


def _place_of(record: RunRecord, key: str) -> tuple[str, int, str] | None:
    """Return path, turn and tool of the call with this key; None: no answer has it."""
    for one in record.invocations.values():
        for turn in one.turns:
            for call in turn.calls:
                if call.key == key:
                    return one.path, turn.number, call.tool
    return None
