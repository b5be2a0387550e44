"""Records of runs of one worker that writes one file, made by hand."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.activities.definitions import DefinitionActivities
from llm_do_temporal.extensions.forks.client_forks import ForkRequest
from llm_do_temporal.extensions.forks.messages import ForkIndex, ForkSource, RecordedCall, RecordedEffect, RecordedTurn
from llm_do_temporal.messages.activities import REQUEST_MODEL, LoadRunInput
from llm_do_temporal.messages.conversation import TURN_KEYS
from llm_do_temporal.messages.runs import RunResult, StartRunInput
from llm_do_temporal.policy.identity import call_key
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.runs.place import Place

WRITE = {"path": "/done.txt", "content": "done"}
"""Arguments of the call of `write_file` in the first turn."""


async def answers_of(place: Place, run: str) -> list[dict[str, Any]]:
    """Return the answers of a run's entry worker, as the history has them."""
    found: list[dict[str, Any]] = []
    turns = set[int]()
    for event in (await place.chain(run))[0].events:
        if event.activity_task_scheduled_event_attributes.activity_type.name == REQUEST_MODEL.name:
            turns.add(event.event_id)
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id in turns:
            converter = place.client.temporal.data_converter
            found += await converter.decode(list(completed.result.payloads), [dict])
    return found


def key_of(answer: dict[str, Any]) -> str:
    """Return the content key of the turn with this answer."""
    return str(answer["metadata"][TURN_KEYS]["turn"])


async def recorded(place: Place, run: str, turns: int, worker: str = "main") -> ForkSource:
    """Keep a record of so many turns of a run, of its write and of the worker as it is now, and return where it is."""
    blobs = workshop_blobs(place.folder)
    loading = DefinitionActivities(place.folder, blobs, search_attributes=True, queues=Queues())
    answers = (await answers_of(place, run))[:turns]
    request = {"mount": {"at": "/", "root": "."}, "relative": "done.txt", **WRITE}
    written = RecordedCall(
        path="main",
        turn=1,
        tool="write_file",
        outcome="returned",
        content="Wrote /done.txt (4 bytes).",
        effects=(RecordedEffect(activity="write_file", request=request),),
    )
    index = ForkIndex(
        run=run,
        execution="",
        loaded=loading.load_run(LoadRunInput(start=StartRunInput(worker=worker))),
        turns={key_of(one): (RecordedTurn(path="main", turn=turn, answer=one),) for turn, one in enumerate(answers, 1)},
        calls={call_key(key_of(answers[0]), "write_file", WRITE, 1): (written,)},
    )
    return ForkSource(run=run, index=blobs.put_bytes(index.model_dump_json().encode()))


async def forked(place: Place, run: str, changes: ForkRequest | None = None) -> RunResult:
    """Fork a run with these changes, and wait for the result."""
    place.started.append(await place.client.fork(run, changes or ForkRequest(), workshop=place.folder))
    return await place.client.result(place.started[-1])
