"""An evaluation with a judge, whose worker service is killed at random: every case and every judgement happens once.

`make evaluations` does it with 200 cases, three repeats and 20 kills; EVALUATION_SIZE has the three numbers.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.extensions.evaluations.client import read_experiment, read_progress
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.messages import ExperimentRecord, StartedExperiment
from llm_do_temporal.extensions.evaluations.start import begin_experiment, draft_evaluation
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.patience import PATIENCE_SECONDS
from tests.support.providers.answers import Answer, Call, Text, ToolCalls
from tests.support.providers.provider import FakeProvider
from tests.support.servers.session import connection_variables, session_server

CASES, REPEATS, KILLS = (int(number) for number in os.environ.get("EVALUATION_SIZE", "3x1x1").split("x"))
CONCURRENCY = 4
SEED = 18
JUDGE = """---
output_schema:
  type: object
  properties: {good: {type: boolean}, reason: {type: string}}
  required: [good, reason]
---
Judge it.
"""


class Service:
    """The worker service, in a process of its own."""

    def __init__(self, folder: Path, client: Client, queue: str, provider: FakeProvider) -> None:
        self._environment = {**os.environ, **connection_variables(client)}
        self._environment |= {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-test"}
        self._command = [sys.executable, "-m", "tests.support.servers.forked_services", "1", queue, str(folder)]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_and_start(self) -> None:
        """Kill it, and start the next one."""
        self.kill()
        self._process = self._start()


def answer(request: dict[str, Any], _number: int) -> Answer:
    """Greet, or judge where there is a structured result to give."""
    tools = [tool["function"]["name"] for tool in request.get("tools", [])]
    if "final_result" in tools:
        return ToolCalls((Call("final_result", {"good": True, "reason": "it greets"}),))
    return Text("Hello!")


async def begun(client: LlmDoClient, folder: Path, cases: int) -> StartedExperiment:
    """The experiment of so many cases, under way."""
    path = folder / "greeting.eval.yaml"
    listed = [{"name": f"case-{number}", "inputs": f"greet {number}"} for number in range(cases)]
    keys = {"repeats": REPEATS, "concurrency": CONCURRENCY, "judge": "judge", "evaluators": [{"Contains": "Hello"}]}
    path.write_text(yaml.safe_dump({"worker": "main", "cases": listed, **keys}))
    spec = load_evaluation(path, folder)
    draft = await draft_evaluation(client, spec, folder, environment_model=None, started_by="ada")
    return await begin_experiment(client, draft, retry_errors=False)


async def done(client: Client, workflow: str, count: int) -> None:
    """Wait until so many cases are done."""

    async with asyncio.timeout(10 * PATIENCE_SECONDS):
        while True:
            _, facts = await read_progress(client, workflow)
            if facts.done >= count:
                return
            await asyncio.sleep(0.05)


async def ended(client: LlmDoClient, experiment: StartedExperiment) -> ExperimentRecord:
    await client.temporal.get_workflow_handle(experiment.experiment).result()
    return (await read_experiment(client.temporal, experiment.experiment)).record


async def turns_answered(client: Client, run: str) -> int:
    """Number of model turns that the only history of a run has answers of."""
    events = [event async for event in client.get_workflow_handle(run).fetch_history_events()]
    assert not events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    asked = {
        event.event_id
        for event in events
        if event.activity_task_scheduled_event_attributes.activity_type.name == REQUEST_MODEL.name
    }
    completed = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    answered = [
        event.activity_task_completed_event_attributes.scheduled_event_id
        for event in events
        if event.event_type == completed
    ]
    return len(asked.intersection(answered))


@pytest.mark.thorough
async def test_an_evaluation_whose_service_is_killed_does_everything_once(tmp_path: Path) -> None:
    folder, queue, units = tmp_path / "workshop", f"test-{uuid4().hex}", CASES * REPEATS
    (folder / "workers").mkdir(parents=True)
    (folder / "workshop.yaml").write_text("model: openai-chat:any\nsandbox: {root: .}\n")
    (folder / "workers" / "main.worker").write_text("---\n---\nGreet.\n")
    (folder / "workers" / "judge.worker").write_text(JUDGE)
    moments = sorted(random.Random(SEED).sample(range(1, units), KILLS))
    async with session_server() as server:
        temporal = with_big_payloads(server.client, workshop_blobs(folder))
        client = LlmDoClient(temporal, task_queue=queue)
        with FakeProvider(answer) as provider:
            service = Service(folder, server.client, queue, provider)
            try:
                experiment = await begun(client, folder, CASES)
                for moment in moments:
                    await done(temporal, experiment.experiment, moment)
                    service.kill_and_start()
                record = await ended(client, experiment)
                first = len(provider.requests)
                more = await begun(client, folder, CASES + 1)
                added = await ended(client, more)
            finally:
                service.kill()
        # Each repeat of each case and its judgement have one run each, and each of these was answered once.
        runs = [run for result in record.results for run in (result.run, *(judge.run for judge in result.judges))]
        assert (record.state, len(runs), len(set(runs))) == ("completed", 2 * units, 2 * units)
        assert {await turns_answered(server.client, run) for run in runs} == {1}
        started = Counter(
            [one.id async for one in server.client.list_workflows(f"TaskQueue = '{queue}'") if one.id in set(runs)]
        )
        assert set(started.values()) == {1}
    assert record.gate.passed
    assert {result.score("judge.good") for result in record.results} == {True}
    # Only what was under way, and not answered, when a service was killed is asked again.
    again = first - 2 * units
    assert 0 <= again <= KILLS * CONCURRENCY
    assert (more.taken, len(added.results)) == (units, units + REPEATS)
    assert len(provider.requests) - first == 2 * REPEATS
    asked = Counter(_task(json.dumps(request.body)) for request in provider.requests[first:])
    assert set(asked) <= {f"greet {CASES}"}
    print(f"{units} cases and judgements, {KILLS} kills: {again} turns asked again that had no answer yet")


def _task(body: str) -> str:
    """Return the task that a request names, of a case or in what the judge is shown."""
    return body[body.index("greet ") :].partition('"')[0].rstrip("\\")
