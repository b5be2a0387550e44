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
from typing import TypeVar

from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.errors import EffectFailed, UsageError
from llm_do_temporal.extensions.forks.client_forks import COMMAND_TOOLS, READ_TOOLS
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

Step = TypeVar("Step", RecordedTurn, RecordedCall)
_LAYERED = frozenset(("write_file", "edit_file", "worker_create", "submit_changes")) | COMMAND_TOOLS
"""Tools whose calls change the layer of an invocation that has one, instead of the files."""


async def prepare_attempt(client: Client, run: str, start: StartRunInput) -> tuple[StartRunInput, list[str]]:
    """Return the start of what `run` has left over, and lines for people about what it takes over.

    `start` has the items that are left, in their order. The record of what is taken over, if there is anything, is put
    into the client's blob store. Raises ConnectionFailed and KeyMismatch.
    """
    blobs, nothing = blobs_of(client.data_converter), "everything of these items is done again"
    if blobs is None:
        return start, [f"{nothing}: the workshop's blob store, which keeps what is taken over, is not known here"]
    try:
        async with translated(run):
            record = await read_run_record(client, run)
        index = index_of_attempt(record, await asyncio.to_thread(_before, record, blobs))
    except (UsageError, EffectFailed) as error:
        return start, [f"{nothing}: {error.message}"]
    turns, calls = (sum(map(len, steps.values())) for steps in (index.turns, index.calls))
    if not (turns or calls or index.doubtful):
        return start, []
    digest = await asyncio.to_thread(blobs.put_bytes, index.model_dump_json().encode())
    lines: list[str] = []
    if turns or calls:
        taken = f"{_counted(turns, 'turn')} and {_counted(calls, 'call')}"
        lines.append(f"{taken} that happened are taken over; --no-reuse does all of it again")
    if index.doubtful:
        calls = _counted(len(index.doubtful), "call")
        lines.append(f"{calls} may have happened: you are asked before anything of that is done again")
    return with_source(start, ForkSource(run=run, index=digest, then=False, in_place=True)), lines


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def index_of_attempt(record: RunRecord, before: ForkIndex | None = None) -> ForkIndex:
    """Return what a further attempt takes over of a batch.

    `before` is the record that the batch itself went on from; None: it was the first attempt. What it had not come to
    yet is still in there. Raises UsageError for a run without items.
    """
    if record.start.batch is None:
        raise UsageError(f"run '{record.run}' is no batch")
    paths = [item_path(number) for number in range(1, len(record.start.batch.items) + 1)]
    ended = {one.path for one in record.invocations.values() if one.result is not None}
    places = {item_path(number): path for number, path in enumerate((one for one in paths if one not in ended), 1)}
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
        self._take_steps(before.turns, self.turns, places)
        self._take_steps(before.calls, self.calls, places)
        # A person who did not want it done again has not said that it never happened.
        self.doubtful |= set(before.doubtful)

    def _take_steps(
        self, earlier: Mapping[str, Sequence[Step]], mine: dict[str, list[Step]], places: Mapping[str, str]
    ) -> None:
        for key, one in ((key, one) for key, steps in earlier.items() for one in steps):
            item = item_of(one.path)
            path = places[item] + one.path.removeprefix(item) if item in places else ""
            is_new = path and (item_of(path), key) not in self._again
            if is_new and all(known.path != path for known in mine.get(key, ())):
                mine.setdefault(key, []).append(one.model_copy(update={"path": path}))


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
    unusable = not turn.calls and not (turn.review is not None and one.has_layer)
    return unusable or any(call.outcome in ("failed", "retry") for call in turn.calls)


def _is_made_again(one: InvocationRecord, call: MadeCall, delegated: Collection[str]) -> bool:
    """Return whether a call that has returned is made again: it only reads, delegates, or has changed a layer."""
    if call.tool in one.functions:
        return one.functions[call.tool] == "context" and one.has_layer
    return call.tool in READ_TOOLS or call.key in delegated or (one.has_layer and call.tool in _LAYERED)
