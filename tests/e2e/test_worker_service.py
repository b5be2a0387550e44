"""The worker service alone: against a server of its own, stopped politely, and killed under a host."""

from __future__ import annotations

import os
import signal

import psutil

from llm_do_temporal.client.embedded import running_host
from tests.e2e.conftest import Desk, eventually, use_provider
from tests.e2e.test_crashes import Held, identity
from tests.support.provider import FakeProvider


def test_a_service_and_commands_find_the_server_by_its_variable(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    service = desk.begin("worker")
    desk.type("start", "pitch_orchestrator", "evaluate every deck", "--approve-all")
    assert sorted(desk.evaluations()) == desk.decks
    assert not (desk.workshop / ".llm-do" / "host.lock").exists()
    service.send_signal(signal.SIGTERM)
    assert service.wait(timeout=60) == 0


def test_sigterm_lets_a_turn_that_is_under_way_finish(desk: Desk, address: str) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    script = Held("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        service = desk.begin("worker")
        desk.type("start", "pitch_orchestrator", "go", "--id", "job", "--model", "openai-chat:gpt-test", "--detach")
        script.gate.wait_until_reached()
        service.send_signal(signal.SIGTERM)
        script.gate.open()
        assert service.wait(timeout=60) == 0
        first = identity(provider.requests[0].body)
        desk.begin("worker")
        desk.type("cancel", "job")
        desk.type("result", "job", code=5)
        assert [identity(request.body) for request in provider.requests].count(first) == 1


def test_a_host_starts_a_killed_service_again(desk: Desk) -> None:
    script = Held("orchestrator")
    with FakeProvider(script) as provider:
        use_provider(desk, provider)
        job = ("start", "pitch_orchestrator", "go", "--id", "job", "--approve-all", "--model", "openai-chat:m")
        desk.type(*job, "--detach")
        script.gate.wait_until_reached()
        (service,) = [
            child for child in psutil.Process(desk.host.pid).children() if "worker_service" in child.cmdline()
        ]
        os.kill(service.pid, signal.SIGKILL)
        script.gate.open()
        desk.type("watch", "job")
        assert sorted(desk.evaluations()) == desk.decks


def test_the_host_leaves_once_nobody_needs_it(desk: Desk) -> None:
    desk.type("start", "greeter", "hello")
    assert (desk.workshop / ".llm-do" / "temporal.db").exists()
    eventually(lambda: running_host(desk.workshop) is None, "the host has left")
