"""`make compose-test`: the compose file with real containers, what is promised of them, and faults in mid-run.

Named so that no other command collects it: it needs a Docker engine and takes some minutes.
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

from tests.compose.ledger import IT_RAN, RUN, Ledger
from tests.compose.script import CALLS, END, LONG
from tests.compose.stack import ROOT, Stack, eventually, missing_engine
from tests.support.deploy.dashboard import queries

CONFINED = ROOT / "tests/compose/confined.yml"
KEY_FILE = "/run/secrets/encryption_keys"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    if (missing := missing_engine()) is not None:
        pytest.exit(f"compose-test needs a Docker engine: {missing}", returncode=3)
    stack = Stack(tmp_path_factory.mktemp("stack"))
    try:
        stack.compose("build", "worker")
        stack.up()
        yield stack
        if request.session.testsfailed:
            print(stack.logs())
    finally:
        stack.down()


def result(stack: Stack, run: str) -> dict[str, Any]:
    return json.loads(stack.ours("result", run, "-o", "json").stdout)


def read_key(stack: Stack, run: str) -> str:
    """What a worker's pre-approved command made of the file with the keys."""
    stack.ours("start", "reader", f"cat {KEY_FILE}", "--id", run, "--detach")
    return result(stack, run)["output"]


def test_the_doors_open_for_who_has_a_token(stack: Stack) -> None:
    page, codec = stack.address("PAGE_PORT"), stack.address("CODEC_PORT")
    with httpx2.Client(base_url=page, headers={"Origin": page}) as browser:
        assert browser.get("/").status_code == 401
        assert browser.post("/sign-in", data={"token": "made up", "to": "/"}).status_code == 401
        assert browser.post("/sign-in", data={"token": stack.token, "to": "/"}).status_code == 303
        assert "ada" in browser.get("/").raise_for_status().text
    assert httpx2.post(f"{codec}/decode", json={"payloads": []}).status_code == 401
    assert httpx2.get(stack.address("TEMPORAL_UI_PORT")).status_code == 200
    assert httpx2.get(f"{stack.address('GRAFANA_PORT')}/api/health").status_code == 200


def test_no_command_reads_the_keys_where_it_can_be_isolated(stack: Stack) -> None:
    said = read_key(stack, "isolated")
    assert stack.key not in said
    assert "No such file" in said
    # What cannot be read is there, for the program.
    assert stack.key in stack.compose("exec", "-T", "worker", "cat", KEY_FILE).stdout


def test_no_command_runs_where_it_cannot_be_isolated(stack: Stack) -> None:
    stack.up("--no-deps", "worker", also=(CONFINED,))
    said = read_key(stack, "confined")
    assert stack.key not in said
    assert "commands cannot run here" in said
    assert "LLM_DO_ISOLATION=required" in said
    stack.up("--no-deps", "worker")


async def test_what_the_server_keeps_is_shown_by_the_codec_server_alone(stack: Stack) -> None:
    client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
    history = await client.get_workflow_handle("isolated").fetch_history()
    given = history.events[0].workflow_execution_started_event_attributes.input
    assert KEY_FILE.encode() not in given.SerializeToString()
    body = MessageToDict(Payloads(payloads=given.payloads))
    allowed = {"Authorization": f"Bearer {stack.token}"}
    shown = httpx2.post(f"{stack.address('CODEC_PORT')}/decode", json=body, headers=allowed).raise_for_status()
    (opened,) = shown.json()["payloads"]
    assert f"cat {KEY_FILE}" in base64.b64decode(opened["data"]).decode()


def test_nothing_runs_twice_whatever_is_killed_cut_off_and_restarted(stack: Stack) -> None:
    ledger = Ledger(stack)
    stack.ours("start", "keeper", "go", "--id", RUN, "--detach")

    killed = ledger.caught(after=6)
    stack.docker("kill", "--signal", "KILL", killed)
    ledger.give_up(killed)
    stack.docker("start", killed)

    cut = ledger.caught(after=12)
    network = f"{stack.project}_default"
    stack.docker("network", "disconnect", network, cut)
    eventually(ledger.questions, "the server takes what the container was doing for lost")
    stack.docker("network", "connect", "--alias", "worker", network, cut)

    ledger.outlive("postgresql", after=16)
    ledger.outlive("temporal", after=20)
    ledger.reach(24)
    stack.compose("restart", "temporal")

    ledger.reach(28)
    stack.compose("up", "--detach", "--no-build", "--no-recreate", "--no-deps", "--scale", "worker=3", "worker")
    ledger.reach(32)
    stack.compose("up", "--detach", "--no-build", "--no-recreate", "--no-deps", "--scale", "worker=1", "worker")

    ledger.wait(lambda: len(ledger.begun()) == CALLS and not ledger.open_calls(), "all calls have ended")
    ledger.wait(lambda: _is_over(stack), "the run has ended")
    assert result(stack, RUN)["output"] == END
    assert sorted(ledger.begun()) == list(range(CALLS))
    assert ledger.lost
    assert ledger.answered[IT_RAN] >= len(ledger.lost) + 1
    stack.up()


def _is_over(stack: Stack) -> bool:
    shown = json.loads(stack.ours("show", RUN, "--json").stdout)
    return shown["status"] != "running"


async def test_the_server_is_a_production_server_on_postgresql(stack: Stack) -> None:
    client = await Client.connect(f"127.0.0.1:{stack.ports['TEMPORAL_PORT']}")
    server = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    assert (server.persistence_store, server.visibility_store) == ("postgres12", "postgres12")
    assert server.server_version == stack.setting("TEMPORAL_VERSION")
    assert server.history_shard_count == 128
    kept = "select count(*) from current_executions where workflow_id = 'isolated'"
    assert stack.sql("temporal", kept) == "1"
    listed = "select count(*) from executions_visibility where workflow_id = 'isolated'"
    eventually(lambda: stack.sql("temporal_visibility", listed) == "1", "the run is among those that can be listed")


def test_its_http_api_answers_nobody(stack: Stack) -> None:
    asked = ("wget", "-q", "-O", "-", "http://temporal:7243/api/v1/namespaces")
    done = stack.compose("exec", "-T", "prometheus", *asked, check=False)
    assert done.returncode != 0
    assert "403 Forbidden" in done.stderr


def test_runs_and_blobs_outlive_all_containers(stack: Stack) -> None:
    stack.ours("start", "teller", "go", "--id", "told", "--detach")
    stack.ours("start", "asker", "cat readme.txt", "--id", "asked", "--detach")
    assert result(stack, "told")["output"] == LONG
    (asked,) = eventually(lambda: questions(stack, "asked"), "a run waits for a person")
    stored = stack.compose("exec", "-T", "blobs", "find", "/data/llm-do/blobs", "-type", "f", "-size", "+256k").stdout
    assert stored

    stack.compose("down")
    assert stack.containers() == []
    stack.up()

    assert result(stack, "told")["output"] == LONG
    assert [one["id"] for one in questions(stack, "asked")] == [asked["id"]]
    stack.ours("approve", "asked", asked["id"])
    assert "A file of the workers." in result(stack, "asked")["output"]


def questions(stack: Stack, run: str) -> list[dict[str, Any]]:
    """The approvals of a run that wait."""
    return json.loads(stack.ours("approvals", run, "--json").stdout)


def test_maintenance_is_done_beside_what_runs(stack: Stack) -> None:
    assert "removed" in stack.ours("gc", service="worker").stdout
    before = {one["ID"] for one in stack.containers()}
    stack.compose("run", "--rm", "--no-deps", "worker", "migrate-check")
    assert {one["ID"] for one in stack.containers()} == before


def test_prometheus_knows_the_worker_services_and_understands_what_it_is_asked(stack: Stack) -> None:
    stack.compose("exec", "-T", "prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")
    stack.compose("exec", "-T", "prometheus", "promtool", "test", "rules", "/cases/alerts.yml")
    api = f"{stack.address('PROMETHEUS_PORT')}/api/v1/query"

    def ask(query: str) -> list[Any]:
        answer = httpx2.get(api, params={"query": query.replace("$namespace", ".*")})
        assert answer.status_code == 200, (query, answer.text)
        return answer.json()["data"]["result"]

    services = len(stack.containers("worker"))
    eventually(lambda: len(ask('up{job="llm-do-worker"} == 1')) == services, "all worker services are asked")
    for _, query in queries():
        ask(query)
    # What the server tells of itself has the names that the dashboard knows.
    for query in (query for _, query in queries() if 'service_name="frontend"' in query):
        eventually(lambda query=query: ask(query), query)


def test_as_root_the_image_refuses_to_run(stack: Stack) -> None:
    done = stack.docker("run", "--rm", "--user", "0", "llm-do-temporal:0.1.0", "worker", check=False)
    assert done.returncode == 2
    assert "does not run as root" in done.stderr


def test_a_worker_service_that_is_told_to_stop_ends_with_0(stack: Stack) -> None:
    stack.compose("stop", "worker")
    assert {one["ExitCode"] for one in stack.containers("worker")} == {0}
