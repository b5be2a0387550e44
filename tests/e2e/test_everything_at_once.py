"""One run that uses everything, whose worker service is killed again and again: it must not show in what comes out."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.messages.base import DECIDE_SIGNAL
from llm_do_temporal.messages.runs import RunResult, StartRunInput
from llm_do_temporal.policy.files.sandbox import TEMPORARY_NAME
from llm_do_temporal.service.build import build_replayer
from tests.support.providers import newspaper
from tests.support.providers.answers import Answer
from tests.support.providers.held_job import request_identity
from tests.support.providers.provider import FakeProvider, Request

RUN = "paper"
TURN = "agent__llmdo__model_request"
LENGTH = {"request": 16, "event": 450}
"""The requests of the run, and about as many events as its histories have at the least."""
KILLS = {"request": 3, "event": 2}
"""How often the service is killed when so many requests have reached the provider, or events the histories."""


@dataclass
class Service:
    """The worker service of a workshop, a process of its own that is killed and started again as the run goes on."""

    folder: Path
    environment: dict[str, str]
    moments: dict[str, set[int]]
    """The numbers of requests and of events upon which it is killed."""
    seen: Counter[str] = field(default_factory=Counter[str])
    kills: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        command = [sys.executable, "-m", "worker_service", "--workshop", str(self.folder)]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def note(self, kind: str) -> None:
        """Take note of one more request or event, and kill the service if this is a moment for it."""
        with self._guard:
            self.seen[kind] += 1
            if self.seen[kind] in self.moments.get(kind, ()):
                self.kills += 1
                self.end()
                self.begin()


@dataclass
class Outcome:
    """What is left of a run."""

    result: RunResult
    asked: list[str]
    """The questions, by their summaries."""
    service: Service
    requests: list[Request]
    histories: list[WorkflowHistory]

    def scheduled(self, activity: str) -> int:
        """How many activities of this name there were; attempts at one are not counted."""
        events = (event for history in self.histories for event in history.events)
        return sum(event.activity_task_scheduled_event_attributes.activity_type.name == activity for event in events)

    def finished(self, activity: str) -> list[dict[str, Any]]:
        """The results of the activities of this name."""
        found: list[dict[str, Any]] = []
        for history in self.histories:
            for event in history.events:
                if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                    done = event.activity_task_completed_event_attributes
                    scheduled = history.events[done.scheduled_event_id - 1].activity_task_scheduled_event_attributes
                    if scheduled.activity_type.name == activity:
                        found.append(json.loads(done.result.payloads[0].data))
        return found


@pytest.mark.thorough
@pytest.mark.timeout(1200)
async def test_five_kills_change_nothing(address: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("LLM_DO_TEST_SEED") or secrets.randbelow(1_000_000))
    print(f"LLM_DO_TEST_SEED={seed} makes these kills again")
    chance = random.Random(seed)
    moments = {kind: spread(chance, LENGTH[kind], number) for kind, number in KILLS.items()}
    print(f"killed at {moments}")
    calm, stormy = await asyncio.gather(
        publish(address, tmp_path / "calm", {}), publish(address, tmp_path / "stormy", moments)
    )
    # One whose service is kept waiting by a busy machine is asked again, as after a kill.
    assert len({request_identity(request.body) for request in calm.requests}) == LENGTH["request"]
    assert calm.service.seen["event"] >= LENGTH["event"]
    assert stormy.service.kills == sum(KILLS.values())
    assert calm.result.output == newspaper.OUTPUT
    # A question that is put anew after a kill has waited anew.
    assert stormy.result.model_copy(update={"waited": calm.result.waited}) == calm.result
    for outcome in (calm, stormy):
        assert_files_written_once(outcome)
        assert_command_ran_once(outcome)
        assert_no_answered_turn_asked_again(outcome)
        for history in outcome.histories:
            await build_replayer().replay_workflow(history)


def spread(chance: random.Random, total: int, number: int) -> set[int]:
    """One number of each of so many equal parts of a run."""
    part = total // number
    return {index * part + chance.randint(1, part) for index in range(number)}


async def publish(address: str, folder: Path, moments: dict[str, set[int]]) -> Outcome:
    """Make the workshop, do the whole run in it, and gather what is left."""
    newspaper.write_workshop(folder)
    temporal = await Client.connect(address, data_converter=pydantic_data_converter)
    client = LlmDoClient(temporal, task_queue=folder.name)
    run = f"{RUN}-{folder.name}"
    with serving(address, folder, moments) as (service, provider):
        await client.start(StartRunInput(worker="editor", prompt="Publish."), run=run)
        asked = await answer_everything(client, run, service)
        result = await client.result(run)
        view = await client.view(run)
        handles = [temporal.get_workflow_handle(each) for each in dict.fromkeys((run, *view.nodes))]
        return Outcome(result, asked, service, provider.requests, [await handle.fetch_history() for handle in handles])


@contextmanager
def serving(address: str, folder: Path, moments: dict[str, set[int]]) -> Generator[tuple[Service, FakeProvider]]:
    """The workshop's worker service and its provider."""

    def script(body: dict[str, object], _number: int) -> Answer:
        service.note("request")
        return newspaper.play(body)

    with FakeProvider(script) as provider:
        ours = {"TEMPORAL_ADDRESS": address, "LLM_DO_TASK_QUEUE": folder.name}
        keys = {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-test"}
        service = Service(folder, {**os.environ, **ours, **keys}, moments)
        service.begin()
        try:
            yield service, provider
        finally:
            service.end()


async def answer_everything(client: LlmDoClient, run: str, service: Service) -> list[str]:
    """Answer each question once, until the run ends; returns what was asked."""
    asked: dict[str, str] = {}
    follower = Follower(client.temporal, run, wait=True, tap=lambda _workflow, _event: service.note("event"))
    async for event in follower.events():
        if event.type != "desk.changed":
            continue
        for approval in await client.approvals(run):
            if approval.id not in asked:
                asked[approval.id] = approval.request.summary
                decision = newspaper.decide(approval.request).model_copy(update={"id": approval.id})
                await client.temporal.get_workflow_handle(run).signal(DECIDE_SIGNAL, decision)
    return sorted(asked.values())


def assert_files_written_once(outcome: Outcome) -> None:
    """What was to be written is there, whole, and was written once; nothing else is."""
    files = outcome.service.folder / "files"
    written = {str(path.relative_to(files)): path.read_text() for path in lasting(files / "out")}
    assert written == newspaper.WRITTEN
    assert len(outcome.finished("write_file")) == outcome.scheduled("write_file") == len(written)
    assert [path.name for path in lasting(outcome.service.folder / "workers/generated")] == ["proofreader.worker"]
    assert len(outcome.finished("save_worker")) == outcome.scheduled("save_worker") == 1


def assert_command_ran_once(outcome: Outcome) -> None:
    """The command was begun once, and where nobody knows how it went a person was asked."""
    assert outcome.scheduled("run_command") == 1
    lost = not outcome.finished("run_command")
    assert outcome.asked == sorted([*newspaper.QUESTIONS, *([newspaper.LOST_COMMAND] if lost else [])])
    ran = outcome.service.folder / "files/ran.txt"
    assert (ran.read_text() if ran.exists() else "") in ({"", "ran\n"} if lost else {"ran\n"})


def assert_no_answered_turn_asked_again(outcome: Outcome) -> None:
    """Of all requests that ask the same, the last one is that whose answer the histories hold."""
    asked = [request_identity(request.body) for request in outcome.requests]
    last = {what: number for number, what in enumerate(asked, start=1)}
    answered = [int(answer["provider_response_id"].removeprefix("chatcmpl-")) for answer in outcome.finished(TURN)]
    assert sorted(answered) == sorted(last.values())
    assert outcome.scheduled(TURN) == len(answered)


def lasting(folder: Path) -> list[Path]:
    """The files of a folder, but for what somebody left who was killed while writing."""
    return [path for path in folder.iterdir() if not TEMPORARY_NAME.fullmatch(path.name)]
