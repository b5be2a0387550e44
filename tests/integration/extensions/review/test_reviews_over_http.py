"""Reviews over HTTP, through the adapters of four protocols: what a model is told after its last answer is taken.

What is streamed is taken together before anybody looks at it: `test_awkward_answers.py` has both.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.dialects.answers import Answer, asks, says
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}, "review": "changes"}


def _turns(worker: str, *, structured: bool) -> list[Answer]:
    def write(text: str) -> Answer:
        return asks("write_file", path=f"/{worker}.txt", content=text)

    end = (asks("final_result", n=1), asks("final_result", n=2)) if structured else (says("One."), says("Two."))
    return [write("one"), end[0], write("two"), asks("submit_changes"), end[1]]


async def _played(place: Place, worker: str) -> Any:
    run = await place.start(worker)
    (question,) = await place.pending(run)
    await place.decide(run, "reject", id=question.id, note="say two")
    (again,) = await place.pending(run)
    await place.decide(run, id=again.id)
    return (await place.client.result(run)).output


@pytest.mark.thorough
async def test_a_model_goes_on_after_its_last_answer_where_that_is_not_accepted(
    place: Place, providers: Providers
) -> None:
    workers = {f"{one}-{kind}": one for one in ADAPTERS for kind in ("text", "data")}
    aliases = {
        worker: providers.alias(adapter, worker, *_turns(worker, structured=worker.endswith("data")))
        for worker, adapter in workers.items()
    }
    place.workshop(models=aliases, live_text=False)
    for worker in workers:
        shape: dict[str, Any] = {"output_schema": SCHEMA} if worker.endswith("data") else {}
        place.worker(worker, worker, **FILES, **shape)
    came = dict(zip(workers, await asyncio.gather(*(_played(place, one) for one in workers)), strict=True))

    scripts = {worker: providers.scripts[worker] for worker in workers}
    assert {worker: script.complaints for worker, script in scripts.items() if script.complaints} == {}
    assert came == {worker: {"n": 2} if worker.endswith("data") else "Two." for worker in workers}
    for worker, script in scripts.items():
        assert "say two" in json.dumps(script.requests[2])
        assert "Everything was accepted and is made: 1 changed path." in json.dumps(script.requests[-1])
        assert (place.folder / f"{worker}.txt").read_text() == "two"
