"""Further attempts at the items of a batch: the record of the one before, so that nothing is paid for or done twice.

The new run works on the workshop's files themselves, so what it takes over is narrower than what a fork does: answers
of models, and the outcomes of calls that happened. Decides what that is; `extensions.forks.activities` looks it up.

- A turn of an invocation that failed by what its model had answered is asked again, back to the last turn after which
  nothing had gone wrong: else it would fail in the same way.
- A call that came to an error is made again, and so is whatever only reads.
- A call that only changed a layer is made again: the layer is gone with the run before.
- Delegations begin again, and go on from their own turns.
- Decisions of people are not taken over: what is done is asked about as in any run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.errors import EffectFailed, UsageError
from llm_do_temporal.extensions.forks.client_forks import COMMAND_TOOLS, READ_TOOLS, has_layer
from llm_do_temporal.extensions.forks.client_records import (
    AnsweredTurn,
    InvocationRecord,
    MadeCall,
    RunRecord,
    read_run_record,
)
from llm_do_temporal.extensions.forks.messages import (
    ForkIndex,
    ForkSource,
    RecordedCall,
    RecordedTurn,
    source_of,
    with_source,
)
from llm_do_temporal.messages.runs import StartRunInput, item_of, item_path
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

_LAYERED = frozenset(("write_file", "edit_file", "worker_create", "submit_changes")) | COMMAND_TOOLS
"""Tools whose calls change the layer of an invocation that has one, instead of the files."""


@dataclass(frozen=True)
class Attempt:
    """Further attempt at what a batch has left over."""

    start: StartRunInput
    """Start of the run, with the record of the one before if anything of it can be taken over."""
    turns: int = 0
    """Answers of models that are taken over and not paid for again, if everything is asked as it was."""
    calls: int = 0
    """Calls that happened and are not made again."""
    doubtful: int = 0
    """Calls that may have happened: people decide about them."""
    note: str = ""
    """Reason why nothing can be taken over; empty: something is, or there was nothing."""

    @property
    def lines(self) -> list[str]:
        """Lines for people about what is taken over."""
        if self.note:
            return [f"everything of these items is done again: {self.note}"]
        lines: list[str] = []
        if self.turns or self.calls:
            turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
            calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
            lines.append(f"{turns} and {calls} that happened are taken over; --no-reuse does all of it again")
        if self.doubtful:
            calls = "1 call" if self.doubtful == 1 else f"{self.doubtful} calls"
            lines.append(f"{calls} may have happened: you are asked before anything of that is done again")
        return lines


async def prepare_attempt(client: Client, run: str, start: StartRunInput) -> Attempt:
    """Return the start of what `run` has left over, with the record of it in the client's blob store.

    `start` has the items that are left, in their order. Raises ConnectionFailed and KeyMismatch.
    """
    blobs = blobs_of(client.data_converter)
    if blobs is None:
        return Attempt(start, note="the workshop's blob store, which keeps what is taken over, is not known here")
    try:
        async with translated(run):
            record = await read_run_record(client, run)
        index = index_of_attempt(record, await asyncio.to_thread(_before, record, blobs))
    except (UsageError, EffectFailed) as error:
        return Attempt(start, note=error.message)
    if not (index.turns or index.calls or index.doubtful):
        return Attempt(start)
    digest = await asyncio.to_thread(blobs.put_bytes, index.model_dump_json().encode())
    fork = ForkSource(run=run, index=digest, then=False, in_place=True)
    return Attempt(
        with_source(start, fork),
        turns=sum(map(len, index.turns.values())),
        calls=sum(map(len, index.calls.values())),
        doubtful=len(index.doubtful),
    )


def index_of_attempt(record: RunRecord, before: ForkIndex | None = None) -> ForkIndex:
    """Return what a further attempt takes over of a batch.

    `before` is the record that the batch itself went on from; None: it was the first attempt. What it had not come to
    yet is still in there. Raises UsageError for a run without items.
    """
    if record.start.batch is None:
        raise UsageError(f"run '{record.run}' is no batch")
    places = _places_left(record)
    steps = _Steps(record)
    for one in record.invocations.values():
        if item_of(one.path) in places.values():
            steps.take(one)
    if before is not None:
        steps.take_earlier(before)
    left = set(places.values())
    calls = {key: tuple(one for one in found if item_of(one.path) in left) for key, found in steps.calls.items()}
    turns = {key: tuple(one for one in found if item_of(one.path) in left) for key, found in steps.turns.items()}
    return ForkIndex(
        run=record.run,
        execution=record.execution,
        items=places,
        turns={key: found for key, found in turns.items() if found},
        calls={key: found for key, found in calls.items() if found},
        doubtful=tuple(sorted(steps.doubtful - calls.keys())),
    )


def _places_left(record: RunRecord) -> dict[str, str]:
    """Return the places of the items that have not completed, by the places that they have in the next run."""
    items = record.start.batch.items if record.start.batch is not None else ()
    paths = [item_path(number) for number in range(1, len(items) + 1)]
    ended = {one.path for one in record.invocations.values() if one.result is not None}
    left = [path for path in paths if path not in ended]
    return {item_path(number): path for number, path in enumerate(left, 1)}


def _before(record: RunRecord, blobs: BlobStore) -> ForkIndex | None:
    """Return the record that a batch went on from; None: it was the first attempt."""
    fork = source_of(record.start.parts)
    if fork is None or not fork.in_place:
        return None
    return ForkIndex.model_validate_json(blobs.read(fork.index))


class _Steps:
    """Steps that are taken over, by their keys."""

    def __init__(self, record: RunRecord) -> None:
        self.turns: dict[str, list[RecordedTurn]] = {}
        self.calls: dict[str, list[RecordedCall]] = {}
        self.doubtful: set[str] = set()
        self._record = record
        self._again: set[tuple[str, str]] = set()
        """Turns and calls that are to be done again, as item and key: an earlier record has them, too."""

    def take(self, one: InvocationRecord) -> None:
        """Take over what may be of an invocation."""
        item, kept = item_of(one.path), kept_turns(one)
        for turn in one.turns:
            if turn.number <= kept:
                found = RecordedTurn(path=one.path, turn=turn.number, answer=turn.answer)
                self.turns.setdefault(turn.key, []).append(found)
            else:
                self._again.add((item, turn.key))
        calls = [(turn, call) for turn in one.turns for call in turn.calls]
        delegated = {child.start.called_by for child in self._record.children_of(one)}
        told = {call.key for _, call in calls if call.outcome is not None and not call.lost}
        self.doubtful |= one.begun - told - {""}
        for turn, call in calls:
            if call.outcome != "returned" or _is_made_again(one, call, delegated):
                self._again.add((item, call.key))
                if call.outcome == "returned" and call.key in one.begun:
                    # It changed the layer, which is gone, and more than that.
                    self.doubtful.add(call.key)
                continue
            self.calls.setdefault(call.key, []).append(
                RecordedCall(path=one.path, turn=turn.number, tool=call.tool, outcome="returned", content=call.content)
            )

    def take_earlier(self, before: ForkIndex) -> None:
        """Take over what an earlier attempt had, and the last one has not come to."""
        places = {then: now for now, then in before.items.items()}
        for key, turns in before.turns.items():
            for one in turns:
                path = _moved(one.path, places)
                if path and self._is_new(key, path, self.turns.get(key, [])):
                    self.turns.setdefault(key, []).append(one.model_copy(update={"path": path}))
        for key, calls in before.calls.items():
            for one in calls:
                path = _moved(one.path, places)
                if path and self._is_new(key, path, self.calls.get(key, [])):
                    self.calls.setdefault(key, []).append(one.model_copy(update={"path": path}))
        # A person who did not want it done again has not said that it never happened.
        self.doubtful |= set(before.doubtful)

    def _is_new(self, key: str, path: str, known: Sequence[RecordedTurn | RecordedCall]) -> bool:
        return (item_of(path), key) not in self._again and all(one.path != path for one in known)


def kept_turns(one: InvocationRecord) -> int:
    """Return the number of turns that an invocation need not be asked again; see the module."""
    kept = len(one.turns)
    if one.is_blamed:
        kept -= 1
        while kept > 0 and _went_wrong(one, one.turns[kept - 1]):
            kept -= 1
    return max(kept, 0)


def _went_wrong(one: InvocationRecord, turn: AnsweredTurn) -> bool:
    """Return whether the model was told of an error after a turn that others follow: of a call, or of its answer."""
    # Without a call another turn follows a review, or an answer that cannot be used.
    unusable = not turn.calls and not (turn.review is not None and has_layer(one))
    return unusable or any(call.outcome in ("failed", "retry") for call in turn.calls)


def _is_made_again(one: InvocationRecord, call: MadeCall, delegated: Collection[str]) -> bool:
    """Return whether a call that has returned is made again: it only reads, delegates, or has changed a layer."""
    toolset = one.start.worker.python
    kinds = {} if toolset is None else {tool.name: tool.kind for tool in toolset.tools}
    if call.tool in kinds:
        return kinds[call.tool] == "context" and has_layer(one)
    return call.tool in READ_TOOLS or call.key in delegated or (has_layer(one) and call.tool in _LAYERED)


def _moved(path: str, places: Mapping[str, str]) -> str:
    """Return the path in a run that has the items at these places; empty: it has no such item."""
    item = item_of(path)
    return places[item] + path.removeprefix(item) if item in places else ""
