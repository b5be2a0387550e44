"""Part of `make cluster-test`: a deployment of processes, what is promised of it, and faults in mid-run.

Named so that no other command collects it: it needs programs that are built first. The checks of the compose file that
are not here need containers: their profiles, their network, Prometheus, Grafana and the Temporal UI.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payloads
from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client

from tests.cluster.stack import ProcessStack, running
from tests.compose.ledger import IT_RAN, RUN, Ledger
from tests.compose.script import CALLS, END

BIG = "A long prompt. " * 30_000
"""More than a history takes: 256 KiB."""


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> Iterator[ProcessStack]:
    with running(ProcessStack) as stack:
        yield stack
        if request.session.testsfailed:
            print(stack.logs())


def result(stack: ProcessStack, run: str) -> dict[str, Any]:
    return json.loads(stack.ours("result", run, "-o", "json").stdout)


async def test_the_server_is_that_of_the_compose_file_on_postgresql(stack: ProcessStack) -> None:
    client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
    server = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    assert (server.persistence_store, server.visibility_store) == ("postgres12", "postgres12")
    composition = stack.cluster.services.composition
    assert server.server_version == composition.version("temporal")
    assert str(server.history_shard_count) == composition.services["temporal"]["environment"]["NUM_HISTORY_SHARDS"]


def test_the_doors_open_for_who_has_a_token(stack: ProcessStack) -> None:
    page, codec = stack.address("PAGE_PORT"), stack.address("CODEC_PORT")
    with httpx2.Client(base_url=page, headers={"Origin": page}) as browser:
        assert browser.get("/").status_code == 401
        assert browser.post("/sign-in", data={"token": "made up", "to": "/"}).status_code == 401
        assert browser.post("/sign-in", data={"token": stack.token, "to": "/"}).status_code == 303
        assert "ada" in browser.get("/").raise_for_status().text
    assert httpx2.post(f"{codec}/decode", json={"payloads": []}).status_code == 401


def test_the_http_api_of_the_server_answers_nobody(stack: ProcessStack) -> None:
    port = stack.cluster.services.ports["frontend.http"]
    assert httpx2.get(f"http://127.0.0.1:{port}/api/v1/namespaces").status_code == 403


def test_no_command_reads_the_keys(stack: ProcessStack) -> None:
    keys = stack.cluster.place.keys
    stack.ours("start", "reader", f"cat {keys}", "--id", "isolated", "--detach")
    said = result(stack, "isolated")["output"]
    # They are there, for the program.
    assert stack.key in keys.read_text()
    assert stack.key not in said
    assert "No such file" in said


async def test_what_the_server_keeps_is_shown_by_the_codec_server_alone(stack: ProcessStack) -> None:
    client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
    history = await client.get_workflow_handle("isolated").fetch_history()
    given = history.events[0].workflow_execution_started_event_attributes.input
    keys = str(stack.cluster.place.keys)
    assert keys.encode() not in given.SerializeToString()
    body = MessageToDict(Payloads(payloads=given.payloads))
    allowed = {"Authorization": f"Bearer {stack.token}"}
    shown = httpx2.post(f"{stack.address('CODEC_PORT')}/decode", json=body, headers=allowed).raise_for_status()
    (opened,) = shown.json()["payloads"]
    assert f"cat {keys}" in base64.b64decode(opened["data"]).decode()


def test_a_big_value_is_in_the_object_store_and_encrypted(stack: ProcessStack) -> None:
    kept = stack.folder / "blobs/llm-do/blobs"
    before = {path for path in kept.rglob("*") if path.is_file()}
    (prompts := stack.folder / "prompts.txt").write_text(BIG)
    stack.ours("start", "reader", "--each-line", str(prompts), "--id", "big", "--detach")
    stored = [path for path in kept.rglob("*") if path.is_file() and path not in before]
    assert any(path.stat().st_size > 256 * 1024 for path in stored)
    assert not any(b"A long prompt." in path.read_bytes() for path in stored)
    stack.ours("watch", "big", "--output", "json")


def test_nothing_runs_twice_whatever_is_killed_stopped_and_restarted(stack: ProcessStack) -> None:
    ledger = Ledger(stack)
    stack.ours("start", "keeper", "go", "--id", RUN, "--detach")

    killed = ledger.caught(after=6)
    stack.restart(killed)
    ledger.give_up(killed)

    ledger.reach(12)
    stack.restart("temporal-history")
    ledger.reach(18)
    stack.restart("temporal-frontend", "temporal-matching")
    ledger.reach(24)
    stopped = stack.cluster.processes["worker-3"]
    stopped.stop()
    assert stopped.popen is not None
    assert stopped.popen.returncode == 0

    ledger.wait(lambda: len(ledger.begun()) == CALLS and not ledger.open_calls(), "all calls have ended")
    ledger.wait(lambda: _is_over(stack), "the run has ended")
    assert result(stack, RUN)["output"] == END
    assert sorted(ledger.begun()) == list(range(CALLS))
    assert ledger.answered[IT_RAN] >= len(ledger.lost)


def _is_over(stack: ProcessStack) -> bool:
    shown = json.loads(stack.ours("show", RUN, "--json").stdout)
    return shown["status"] != "running"


def test_maintenance_is_done_beside_what_runs(stack: ProcessStack) -> None:
    assert "removed" in stack.ours("gc").stdout
    stack.ours("migrate-check")


def test_a_second_start_finds_what_the_first_one_kept(stack: ProcessStack) -> None:
    stack.cluster.down()
    stack.cluster.up()
    assert "No such file" in result(stack, "isolated")["output"]
