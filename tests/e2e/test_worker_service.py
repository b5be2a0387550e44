"""The worker service alone: against a server of its own, stopped politely, and killed under a host."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.client import Client

from llm_do_temporal.client.embedded.server import running_host
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk, desk_in, use_provider
from tests.support.providers.answers import Answer, Gate, Gated, Text, tool_call
from tests.support.providers.held_job import HeldJob, request_identity
from tests.support.providers.provider import FakeProvider

READS = 6
HELD = 4
"""The turn whose answer is held back while its service is killed."""


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_a_service_and_commands_find_the_server_by_its_variable(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    service = desk.begin("worker")
    desk.type("start", "pitch_orchestrator", "evaluate every deck", "--approve-all")
    assert sorted(desk.evaluations()) == desk.decks
    assert "1 at the task queue 'llm-do'" in desk.type("doctor").stdout
    assert not (desk.workshop / ".llm-do" / "host.lock").exists()
    service.send_signal(signal.SIGTERM)
    assert service.wait(timeout=PATIENCE_SECONDS) == 0


@pytest.mark.thorough
def test_ctrl_c_while_a_service_still_begins_ends_it_in_silence(desk: Desk) -> None:
    """The server takes connections and answers nothing: no service gets further, however late the signal comes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk.environment["TEMPORAL_ADDRESS"] = f"127.0.0.1:{silent.getsockname()[1]}"
        service = desk.begin("worker")
        eventually(lambda: "worker_service" in psutil.Process(service.pid).cmdline(), "the service has begun")
        service.send_signal(signal.SIGINT)
        assert service.communicate(timeout=PATIENCE_SECONDS) == ("", "")
        assert service.returncode == 130


@pytest.mark.thorough
def test_sigterm_lets_a_turn_that_is_under_way_finish(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    script = HeldJob("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        service = desk.begin("worker")
        desk.type("start", "pitch_orchestrator", "go", "--id", "job", "--model", "openai-chat:gpt-test", "--detach")
        script.gate.wait_until_reached()
        service.send_signal(signal.SIGTERM)
        script.gate.open()
        assert service.wait(timeout=PATIENCE_SECONDS) == 0
        first = request_identity(provider.requests[0].body)
        desk.begin("worker")
        desk.type("cancel", "job")
        desk.type("result", "job", code=5)
        assert [request_identity(request.body) for request in provider.requests].count(first) == 1


def service_of(host: int) -> int:
    """The process id of the worker service of a host. A child that has just ended has no command line any more."""
    found: list[int] = []
    for child in psutil.Process(host).children():
        with suppress(psutil.NoSuchProcess):
            if "worker_service" in child.cmdline():
                found.append(child.pid)
    (service,) = found
    return service


@pytest.mark.thorough
def test_a_host_starts_a_killed_service_again(desk: Desk) -> None:
    script = HeldJob("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        job = ("start", "pitch_orchestrator", "go", "--id", "job", "--approve-all", "--model", "openai-chat:m")
        desk.type(*job, "--detach")
        script.gate.wait_until_reached()
        os.kill(service_of(desk.host.pid), signal.SIGKILL)
        script.gate.open()
        desk.type("watch", "job")
        assert sorted(desk.evaluations()) == desk.decks


@pytest.mark.thorough
def test_the_host_leaves_once_nobody_needs_it(desk: Desk) -> None:
    desk.type("start", "greeter", "hello")
    assert (desk.workshop / ".llm-do" / "temporal.db").exists()
    eventually(lambda: running_host(desk.workshop) is None, "the host has left")


class Reading:
    """A model that reads its notes bit by bit, and once does not answer before the gate is open."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, request: dict[str, Any], _number: int) -> Answer:
        """Answer."""
        turn = turn_of(request)
        answer = tool_call("read_file", path="/notes.md", offset=turn, max_chars=9) if turn < READS else Text("Read.")
        return Gated(self.gate, answer) if turn == HELD else answer


def turn_of(request: dict[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in request["messages"])


async def busy_service(address: str, workflow: str) -> int:
    """The process id of the service that runs an activity of this workflow."""
    client = await Client.connect(address)
    description = await client.get_workflow_handle(workflow).describe()
    (activity,) = description.raw_description.pending_activities
    return int(activity.last_worker_identity.partition("@")[0])


@pytest.mark.thorough
async def test_a_conversation_goes_on_with_a_service_on_another_folder(
    desk: Desk, address: str, tmp_path: Path
) -> None:
    script = Reading()
    with FakeProvider(script) as provider, desk_in(tmp_path / "elsewhere") as elsewhere:
        services: dict[int, Any] = {}
        for one in (desk, elsewhere):
            one.environment["TEMPORAL_ADDRESS"] = address
            use_provider(one, provider)
            (one.workshop / "files/notes.md").write_text("0123456789abcdef")
            service = one.begin("worker")
            services[service.pid] = service
        desk.type("start", "approvals_demo", "go", "--id", "job", "--model", "openai-chat:m", "--detach")
        script.gate.wait_until_reached()
        struck = services.pop(await busy_service(address, "job"))
        struck.kill()
        struck.wait()
        script.gate.open()
        assert desk.type("result", "job").stdout == "Read.\n"
        assert [service.poll() for service in services.values()] == [None]
    assert_each_request_has_the_whole_conversation(provider)


def assert_each_request_has_the_whole_conversation(provider: FakeProvider) -> None:
    """Each is the one before, its answer and its result; only the turn that nobody had answered was asked twice."""
    bodies = [request.body for request in provider.requests]
    assert Counter(map(turn_of, bodies)) == Counter({**dict.fromkeys(range(READS + 1), 1), HELD: 2})
    for before, after in pairwise({turn_of(body): body["messages"] for body in bodies}.values()):
        assert after[: len(before)] == before
        assert [message["role"] for message in after[len(before) :]] == ["assistant", "tool"]
        assert "0123456789abcdef"[turn_of({"messages": before}) :][:9] in after[-1]["content"]
