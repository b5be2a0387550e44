"""Worker services as they are deployed: probed, measured, stopped while another one takes over."""

from __future__ import annotations

import json
import re
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.client import Client

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.messages.base import RUN_WORKFLOW, TASK_QUEUE
from llm_do_temporal.messages.runs import StartRunInput
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk, use_provider
from tests.support.ports import unused_port
from tests.support.providers.answers import Answer, Text, tool_call
from tests.support.providers.provider import Failure, FakeProvider, unauthorized
from tests.support.servers.http_replies import http_reply

DEPLOY = Path(__file__).parents[2] / "deploy"
TOOLS = """\
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent

def slow() -> str:
    with (HERE / "began").open("a") as file:
        file.write("x")
    while not (HERE / "release").exists():
        time.sleep(0.05)
    return "slow and done"

def stuck() -> None:
    (HERE / "stuck").touch()
    threading.Event().wait()
"""
WORKER = "toolsets: {custom: {slow: {pre_approved: true}, stuck: {pre_approved: true}}}\n---\nDo it slowly.\n"


def answer(request: dict[str, Any], _number: int) -> Answer:
    """The tool that the prompt names, where there is one, and then the end."""
    if any(message["role"] == "tool" for message in request["messages"]) or not request.get("tools"):
        return Text("Finished.")
    return tool_call(request["messages"][-1]["content"])


def slow_worker(desk: Desk) -> Path:
    """A worker with a tool that takes until there is a file `release`; returns the folder that it goes into."""
    folder = desk.workshop / "workers" / "slow"
    folder.mkdir(parents=True)
    (folder / "worker.worker").write_text(WORKER)
    (folder / "tools.py").write_text(TOOLS)
    return folder


@pytest.mark.thorough
async def test_a_stopped_service_finishes_its_tool_while_another_one_takes_new_work(desk: Desk, address: str) -> None:
    health = unused_port()
    desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_GRACEFUL_SHUTDOWN_SECONDS": "600"}
    folder, client = slow_worker(desk), LlmDoClient(await connect(Connection(address=address)))
    with FakeProvider(answer) as provider:
        use_provider(desk, provider)
        desk.environment["LLM_DO_HEALTH_PORT"] = str(health)
        first = desk.begin("worker")
        eventually(lambda: http_reply(health, "/readyz")[0] == 200, "the first service is ready")
        await client.start(StartRunInput(worker="slow", prompt="slow", model="openai-chat:m"), run="job")
        eventually((folder / "began").exists, "the tool runs")
        first.send_signal(signal.SIGTERM)
        eventually(lambda: http_reply(health, "/readyz") == (503, "stopping\n"), "the first service takes no more work")
        assert http_reply(health, "/healthz") == (200, "ok\n")

        del desk.environment["LLM_DO_HEALTH_PORT"]
        desk.environment["LLM_DO_GRACEFUL_SHUTDOWN_SECONDS"] = "0.1"
        second = desk.begin("worker")
        await client.start(StartRunInput(worker="greeter", prompt="hello", model="openai-chat:m"), run="new")
        assert (await client.result("new")).output == "Finished."
        assert first.poll() is None
        (folder / "release").touch()
        assert (await client.result("job")).output == "Finished."
        assert first.wait(timeout=PATIENCE_SECONDS) == 0
        assert (folder / "began").read_text() == "x"
        assert "slow and done" in json.dumps(provider.requests[-1].body["messages"])

        await client.start(StartRunInput(worker="slow", prompt="stuck", model="openai-chat:m"), run="stuck")
        eventually((folder / "stuck").exists, "a tool runs that nothing can stop")
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=PATIENCE_SECONDS) == 1


def used_metrics() -> set[str]:
    """The names of our metrics and the SDK's that the dashboard and the alerts ask for."""
    dashboard = (DEPLOY / "grafana" / "dashboard.json").read_text()
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    return set(re.findall(r"\b(?:llm_do|temporal)_[a-z_]+\b", f"{dashboard}{alerts}"))


async def do_badly(address: str) -> None:
    """One of each: a model that is refused, a run that is cancelled, a workflow that nobody knows."""
    client = await Client.connect(address)
    refused = {"worker": "greeter", "prompt": "go", "force_model": "openai-chat:m"}
    await client.start_workflow(RUN_WORKFLOW, refused, id="refused", task_queue=TASK_QUEUE)
    stopped = {"worker": "approvals_demo", "prompt": "go"}
    await (await client.start_workflow(RUN_WORKFLOW, stopped, id="stopped", task_queue=TASK_QUEUE)).cancel()
    await client.start_workflow("Unheard", id="unheard", task_queue=TASK_QUEUE)


@pytest.mark.thorough
async def test_a_service_tells_how_it_is_and_what_runs_take(desk: Desk, address: str) -> None:
    health, metrics = unused_port(), unused_port()
    desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_LOG_FORMAT": "json"}
    with FakeProvider(answer) as provider:
        use_provider(desk, provider)
        # What waits is counted when a service starts, and then at long intervals.
        before = desk.begin("worker")
        desk.type("start", "approvals_demo", "go", "--id", "job", "--detach")
        (approval,) = desk.pending("job", 1)
        before.kill()
        desk.environment |= {"LLM_DO_METRICS_PORT": str(metrics), "LLM_DO_HEALTH_PORT": str(health)}
        service = desk.begin("worker")
        eventually(lambda: http_reply(health, "/readyz") == (200, "ok\n"), "the service is ready")
        assert http_reply(health, "/elsewhere")[0] == 404
        desk.type("approve", "job", approval["id"])
        desk.type("result", "job")
        desk.type("start", "greeter", "hello", "--force-model", "openai-chat:gpt-4o")
        # Of failed activities the SDK counts those alone that may pass.
        provider.add_faults(Failure(500), unauthorized())
        await do_badly(address)

        def missing() -> set[str]:
            names = {re.split(r"[ {]", line)[0] for line in http_reply(metrics, "/metrics")[1].splitlines()}
            return used_metrics() - names

        with suppress(AssertionError):
            eventually(lambda: not missing(), "the page has every metric that the dashboard and the alerts use")
        assert missing() == set()

    page = http_reply(metrics, "/metrics")[1]
    labels = [line for line in page.splitlines() if line.startswith("llm_do_")]
    for name in ("llm_do_approvals_pending", "llm_do_approval_wait_seconds_sum"):
        told = [line for line in labels if line.startswith(name) and 'worker="approvals_demo"' in line]
        assert told, (name, labels)
        assert all('model="offline:plays.py:examples"' in line for line in told), told
    (tokens,) = [line for line in labels if "llm_do_tokens_total" in line and "gpt-4o" in line and "output" in line]
    assert 'worker="greeter"' in tokens
    assert "go" not in {part for line in labels for part in line.split('"')}

    service.send_signal(signal.SIGTERM)
    _, log = service.communicate(timeout=PATIENCE_SECONDS)
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"ready: task queue llm-do", "stopping: finishing what is under way"} <= {line["message"] for line in lines}


@pytest.mark.thorough
def test_a_service_that_has_only_begun_says_so_and_leaves_when_told(desk: Desk) -> None:
    """The server takes connections and answers nothing; 143 would be a program that died of the signal."""
    health = unused_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk.environment |= {"TEMPORAL_ADDRESS": f"127.0.0.1:{silent.getsockname()[1]}"}
        first = desk.begin("worker")
        eventually(lambda: "worker_service" in psutil.Process(first.pid).cmdline(), "the service has the process")
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=PATIENCE_SECONDS) == 0

        desk.environment |= {"LLM_DO_HEALTH_PORT": str(health)}
        second = desk.begin("worker")
        eventually(lambda: http_reply(health, "/healthz") == (200, "ok\n"), "the process lives")
        assert http_reply(health, "/readyz") == (503, "not connected to the Temporal server yet\n")
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.thorough
def test_a_service_that_cannot_serve_as_asked_says_why_and_ends(desk: Desk, address: str) -> None:
    as_it_is = desk.environment | {"TEMPORAL_ADDRESS": address}
    desk.environment = as_it_is | {"LLM_DO_HEALTH_PORT": address.rpartition(":")[2]}
    probed = desk.type("worker", code=2).stderr
    assert "health cannot be served at 127.0.0.1:" in probed
    desk.environment = as_it_is | {"TEMPORAL_NAMESPACE": "nowhere", "LLM_DO_LOG_FORMAT": "json"}
    elsewhere = [json.loads(line)["message"] for line in desk.type("worker", code=4).stderr.splitlines()]
    said = "the Temporal worker has ended: Worker validation failed: Namespace nowhere was not found"
    assert any(said in line for line in elsewhere)  # the SDK's own lines arrive when they like, also after it
    desk.environment = as_it_is | {"LLM_DO_ENCRYPTION": "required"}
    unkeyed = desk.type("worker", code=2).stderr
    assert "LLM_DO_ENCRYPTION is 'required', and there is no key" in unkeyed
    assert "Traceback" not in f"{probed}{elsewhere}{unkeyed}"
