"""Estimates of forks, held against what the forks then did: models answer longer, shorter, and sometimes ask more."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extensions.forks.client_forks import ForkRequest, plan_fork
from llm_do_temporal.extensions.forks.policy.estimate import ForkEstimate, Range
from llm_do_temporal.messages.budget import Usage
from tests.support.providers.answers import Answer, Call, Text, ToolCalls
from tests.support.providers.provider import FakeProvider, by_function
from tests.support.runs.batch_items import batch_of
from tests.support.runs.delegation import delegation_to
from tests.support.runs.parked import FILESYSTEM
from tests.support.runs.place import Place
from tests.support.runs.prices import PRICED_MODEL

STEPS: dict[str, tuple[tuple[Call, ...], ...]] = {
    "reader": ((Call("list_files"),),),
    "caller": (tuple(Call("reader", {"input": f"part {number}"}) for number in range(3)), (Call("list_files"),)),
    "writer": (
        (Call("write_file", {"path": "/a.txt", "content": "one"}),),
        (Call("write_file", {"path": "/b.txt", "content": "two"}),),
    ),
    "user": (
        (Call("read_file", {"path": "/notes.txt"}),),
        (Call("shell", {"command": "cat notes.txt"}),),
        (Call("list_files"),),
    ),
}
"""Calls of each worker's turns; in the turn after them it answers."""


OPEN_ENDED = {"new", "in", "out", "dollars"}
"""Amounts of which nobody knows the end where a run goes on after its last turn, which the plan says."""


class Models:
    """Models of all workers: what they say is of another length for each mood, and some ask once more."""

    def __init__(self) -> None:
        self.mood = 0

    def answer(self, request: dict[str, Any]) -> Answer:
        messages = request["messages"]
        steps = next(found for name, found in STEPS.items() if f"the {name}." in json.dumps(messages[0]))
        turn = sum(message["role"] == "assistant" for message in messages)
        chance = random.Random(f"{self.mood} {json.dumps(messages)}")
        said = "word " * chance.randint(30, 55)
        if turn < len(steps):
            return ToolCalls(steps[turn], said)
        if self.mood and turn == len(steps) and chance.random() < 0.3:
            return ToolCalls((Call("list_files"),), said)
        return Text(said)


@dataclass(frozen=True)
class Case:
    """A recorded run, and a fork of it."""

    name: str
    worker: str
    request: ForkRequest
    mode: str = "approve_all"
    start: tuple[tuple[str, Any], ...] = ()
    decided: int = 0
    """Decisions that people take in the run; where it asks for more than these, it is forked while it waits."""
    before: Callable[[Place], object] | None = None
    """What is changed before the fork."""


def instruct_reader(place: Place) -> None:
    """Give the reader other instructions."""
    file = place.folder / "workers/reader.worker"
    file.write_text(file.read_text(encoding="utf-8") + "Read with care.\n", encoding="utf-8")


CASES = (
    Case("a turn of a child", "caller", ForkRequest(at=("main/reader-2@1",))),
    Case("the last turn of a child", "caller", ForkRequest(at=("main/reader-2@2",))),
    Case("the first turn of all", "caller", ForkRequest(at=("main@1",))),
    Case("the last turn of all", "caller", ForkRequest(at=("main@3",))),
    Case("another result", "caller", ForkRequest(results=("main@1#2=Something else.",))),
    Case("a child without reuse", "caller", ForkRequest(no_reuse=("main/reader-1",))),
    Case("a setting of a worker", "caller", ForkRequest(settings=("reader:model_settings.temperature=0",))),
    Case("another model", "caller", ForkRequest(model="openai-chat:gpt-4o-mini")),
    Case("files and workers as they are now", "caller", ForkRequest(then=False), before=instruct_reader),
    Case("another decision", "writer", ForkRequest(decide=("a1=reject:no",)), mode="interactive", decided=2),
    Case("a turn of a run that asked", "writer", ForkRequest(at=("main@2",)), mode="interactive", decided=2),
    Case("a turn after a command", "user", ForkRequest(at=("main@3",))),
    Case("a turn before a command", "user", ForkRequest(at=("main@1",))),
    Case("an item of a batch", "user", ForkRequest(at=("main/item-2@2",)), start=(("batch", batch_of("a", "b", "c")),)),
    Case("a run at a limit", "caller", ForkRequest(), start=(("limits", {"turns": 7}),)),
    Case(
        "another decision of a run that waits",
        "writer",
        ForkRequest(decide=("a2=reject:no",)),
        "interactive",
        decided=1,
    ),
    Case("a run that waits", "writer", ForkRequest(), mode="interactive", decided=1),
)


async def approve_all(place: Place, run: str, most: int | None = None) -> int:
    """Approve what a run asks until it has ended, or `most` questions; return how many there were."""
    decided = set[str]()
    while most is None or len(decided) < most:
        try:
            pending = await place.pending(run)
        except AssertionError:  # it has ended
            break
        await place.decide(run, id=pending[0].id)
        decided.add(pending[0].id)
    return len(decided)


async def recorded(place: Place, case: Case) -> str:
    """Run what the case forks."""
    run = await place.start(case.worker, mode=case.mode, **dict(case.start))
    if case.mode == "interactive":
        await approve_all(place, run, case.decided)
        asked = sum(call.name == "write_file" for step in STEPS[case.worker] for call in step)
        if case.decided < asked:
            await place.pending(run)
            return run
    with suppress(LlmDoError):
        await place.client.result(run)
    return run


def within(estimate: ForkEstimate, usage: Usage, asked: int) -> dict[str, tuple[str, bool]]:
    """Return each amount of a fork beside its range, and whether it is in it."""
    reused = 0 if usage.saved is None else usage.saved.requests
    amounts: dict[str, tuple[Range, int]] = {
        "new": (estimate.new, usage.requests),
        "reused": (estimate.reused, reused),
        "in": (estimate.input_tokens, usage.input_tokens),
        "out": (estimate.output_tokens, usage.output_tokens),
        "questions": (estimate.questions, asked),
    }
    found = {name: (f"{known.low}..{known.high} {was}", known.holds(was)) for name, (known, was) in amounts.items()}
    low, high, cost = estimate.cost_low, estimate.cost_high, usage.cost_usd or Decimal(0)
    if low is None or high is None:
        found["dollars"] = (f"unknown {cost:.5f}", True)
    else:
        found["dollars"] = (f"{low:.5f}..{high:.5f} {cost:.5f}", low <= cost <= high)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_a_fork_does_is_within_the_range_that_was_told(
    place: Place, point_at: Callable[..., FakeProvider], case: Case
) -> None:
    models = Models()
    point_at(by_function(models.answer))
    place.workshop(model=PRICED_MODEL)
    place.write("notes.txt", "what was noted\n")
    place.worker("reader", instructions="You are the reader.", toolsets=FILESYSTEM)
    place.worker("caller", instructions="You are the caller.", toolsets=FILESYSTEM | delegation_to("reader"))
    place.worker("writer", instructions="You are the writer.", toolsets=FILESYSTEM)
    shell = {"shell": {"rules": [{"pattern": "cat"}]}}
    place.worker("user", instructions="You are the user.", toolsets=FILESYSTEM | shell)
    run = await recorded(place, case)
    if case.before is not None:
        case.before(place)
    plan = await plan_fork(place.client.temporal, run, case.request, place.folder)
    models.mood = 1 + CASES.index(case)
    fork = await place.client.fork(run, case.request, workshop=place.folder)
    place.started.append(fork)
    asked = await approve_all(place, fork)
    result = await place.client.result(fork)
    told = within(plan.estimate, result.usage, asked)
    print(f"{case.name}: " + ", ".join(f"{name} {text}" for name, (text, _) in told.items()))
    missed = [name for name, (_, holds) in told.items() if not holds]
    assert [name for name in missed if not plan.estimate.unfinished or name not in OPEN_ENDED] == []
    await approve_all(place, run)
