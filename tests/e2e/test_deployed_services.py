"""Worker services as they are deployed: probed, measured, stopped while another one takes over."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from llm_do_temporal.client.embedded import any_free_port
from tests.e2e.conftest import Desk, eventually, use_provider
from tests.support.answers import Answer, Text, tool_call
from tests.support.provider import FakeProvider

TOOLS = """\
import time
from pathlib import Path

HERE = Path(__file__).parent

def slow() -> str:
    with (HERE / "began").open("a") as file:
        file.write("x")
    while not (HERE / "release").exists():
        time.sleep(0.05)
    return "slow and done"
"""
WORKER = "toolsets: {custom: {slow: {pre_approved: true}}}\n---\nDo it slowly.\n"


def answer(request: dict[str, Any], _number: int) -> Answer:
    """A slow tool first, where there is one."""
    if any(message["role"] == "tool" for message in request["messages"]) or not request.get("tools"):
        return Text("Finished.")
    return tool_call("slow")


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text; 0 where nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def slow_worker(desk: Desk) -> Path:
    """A worker with a tool that takes until there is a file `release`; returns the folder that it goes into."""
    folder = desk.workshop / "workers" / "slow"
    folder.mkdir(parents=True)
    (folder / "worker.worker").write_text(WORKER)
    (folder / "tools.py").write_text(TOOLS)
    return folder


def test_a_stopped_service_finishes_its_tool_while_another_one_takes_new_work(desk: Desk, address: str) -> None:
    health = any_free_port()
    desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_GRACEFUL_SHUTDOWN_SECONDS": "90"}
    folder = slow_worker(desk)
    with FakeProvider(answer) as provider:
        use_provider(desk, provider)
        desk.environment["LLM_DO_HEALTH_PORT"] = str(health)
        first = desk.begin("worker")
        eventually(lambda: asked(health, "/readyz")[0] == 200, "the first service is ready")
        desk.type("start", "slow", "go", "--id", "job", "--model", "openai-chat:m", "--detach")
        eventually((folder / "began").exists, "the tool runs")
        first.send_signal(signal.SIGTERM)
        eventually(lambda: asked(health, "/readyz") == (503, "stopping\n"), "the first service takes no more work")
        assert asked(health, "/healthz") == (200, "ok\n")

        del desk.environment["LLM_DO_HEALTH_PORT"]
        desk.begin("worker")
        assert desk.type("start", "greeter", "hello", "--model", "openai-chat:m").stdout == "Finished.\n"
        assert first.poll() is None
        (folder / "release").touch()
        assert desk.type("result", "job").stdout == "Finished.\n"
        assert first.wait(timeout=60) == 0
        assert (folder / "began").read_text() == "x"
        assert "slow and done" in json.dumps(provider.requests[-1].body["messages"])


def test_a_service_tells_how_it_is_and_what_runs_take(desk: Desk, address: str) -> None:
    health, metrics = any_free_port(), any_free_port()
    desk.environment |= {
        "TEMPORAL_ADDRESS": address,
        "LLM_DO_LOG_FORMAT": "json",
        "LLM_DO_METRICS_PORT": str(metrics),
        "LLM_DO_HEALTH_PORT": str(health),
    }
    service = desk.begin("worker")
    eventually(lambda: asked(health, "/readyz") == (200, "ok\n"), "the service is ready")
    assert asked(health, "/elsewhere")[0] == 404
    desk.type("start", "approvals_demo", "go", "--id", "job", "--detach")
    (approval,) = desk.pending("job", 1)
    desk.type("approve", "job", approval["id"])
    desk.type("result", "job")

    page = asked(metrics, "/metrics")[1]
    labels = [line for line in page.splitlines() if line.startswith("llm_do_")]
    for name in ("llm_do_tokens_total", "llm_do_approval_wait_seconds_sum"):
        assert any(line.startswith(name) and 'worker="approvals_demo"' in line for line in labels), (name, labels)
    assert any("llm_do_tokens_total" in line and 'direction="output"' in line and 'model="' in line for line in labels)
    assert "temporal_workflow_completed_total" in page
    assert "go" not in {part for line in labels for part in line.split('"')}

    service.send_signal(signal.SIGTERM)
    _, log = service.communicate(timeout=60)
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"ready: task queue llm-do", "stopping: finishing what is under way"} <= {line["message"] for line in lines}


def test_a_port_that_is_taken_and_half_a_version_are_errors(desk: Desk, address: str) -> None:
    desk.environment |= {"TEMPORAL_ADDRESS": address, "LLM_DO_HEALTH_PORT": address.rpartition(":")[2]}
    assert "health cannot be served at 127.0.0.1:" in desk.type("worker", code=2).stderr
    del desk.environment["LLM_DO_HEALTH_PORT"]
    desk.environment["LLM_DO_METRICS_PORT"] = address.rpartition(":")[2]
    assert "metrics cannot be served at 127.0.0.1:" in desk.type("worker", code=2).stderr
    desk.environment["TEMPORAL_DEPLOYMENT_NAME"] = "shop"
    assert "TEMPORAL_WORKER_BUILD_ID is not" in desk.type("worker", code=2).stderr


def test_migrate_check_tells_before_a_deploy_what_would_not_go_on(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    desk.begin("worker")
    desk.type("start", "approvals_demo", "go", "--id", "job", "--detach")
    desk.pending("job", 1)
    assert desk.type("migrate-check").stdout == "replayed 2 open workflows: all would go on\n"
    told = json.loads(desk.type("migrate-check", "--json").stdout)
    assert told == {"workflows": 2, "troubles": []}


def test_a_run_is_deleted_once_it_has_ended_and_somebody_says_yes(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    desk.begin("worker")
    desk.type("start", "approvals_demo", "go", "--id", "job", "--detach")
    desk.pending("job", 1)
    assert "run 'job' is open" in desk.type("delete", "job", "--yes", code=2).stderr
    assert "Add --yes." in desk.type("delete", "job", "--cancel", code=2).stderr
    assert desk.type("delete", "job", "--yes", "--cancel").stdout == "deleted run job: 2 histories, 0 blobs\n"
    assert "there is no run 'nobody'" in desk.type("delete", "nobody", "--yes", code=2).stderr
