"""Worker services as processes: told to stop, killed, broken, deployed, and with functions that misbehave."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from temporalio.client import Client

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.client.embedded.server import running_host
from llm_do_temporal.messages.base import RUN_WORKFLOW, TASK_QUEUE
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.messages.sizes import MAX_LOGGED_CHARS
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.desk import Desk, desk_in, use_provider
from tests.support.ports import unused_port
from tests.support.providers.answers import Answer, Gate, Gated, Text, tool_call
from tests.support.providers.held_job import HeldJob, request_identity
from tests.support.providers.provider import Failure, FakeProvider, unauthorized
from tests.support.servers.sockets import http_reply
from tests.support.servers.temporal import temporal_server

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


_CRASH = """
import os, sys
if "worker_service" in sys.orig_argv:
    {how}
"""
_MISTAKE = {"LLM_DO_ISOLATION": "sometimes"}


@pytest.fixture
def small(desk: Desk) -> Desk:
    """A workshop with one worker, whose model is never asked."""
    desk.workshop = desk.workshop.parent / "small"
    desk.workshop.mkdir()
    (desk.workshop / "workshop.yaml").write_text("name: small\nsandbox: {root: .}\n")
    desk.environment["OPENAI_API_KEY"] = "sk-of-nobody"
    (desk.workshop / "w.worker").write_text("---\ndescription: Fine.\nmodel: openai:gpt-5\n---\nSay hi.\n")
    return desk


def broken(desk: Desk, folder: Path, how: str) -> None:
    """Have every worker service of this desk end before it begins."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_CRASH.format(how=how))
    desk.environment["PYTHONPATH"] = os.pathsep.join((str(folder), desk.environment.get("PYTHONPATH", "")))


@pytest.mark.thorough
def test_a_setting_that_no_service_can_have_is_reported_where_the_run_is_awaited(small: Desk) -> None:
    small.environment |= _MISTAKE

    told = small.type("start", "w", "hi", code=2).stderr

    assert "the worker service ended at its start (exit code 2): " in told
    assert "LLM_DO_ISOLATION is 'required' or 'preferred', not 'sometimes'" in told
    assert "Traceback" not in told


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("os.write(2, b'ImportError: no module\\n'); os._exit(1)", "(exit code 1): ImportError: no module"),
        ("os.kill(os.getpid(), 9)", "(signal SIGKILL): no reason given"),
    ],
)
def test_a_service_that_ends_each_time_is_not_started_for_ever(
    small: Desk, tmp_path: Path, how: str, reason: str
) -> None:
    broken(small, tmp_path / "broken", how)

    told = small.type("start", "w", "hi", code=2).stderr

    assert f"the worker service ended 5 times in a row {reason}" in told
    assert "Traceback" not in told


@pytest.mark.thorough
def test_a_host_in_the_foreground_ends_with_the_reason(small: Desk) -> None:
    small.environment |= _MISTAKE

    host = small.begin("dev", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    _, told = host.communicate(timeout=PATIENCE_SECONDS)

    assert host.returncode == 2
    assert "the worker service ended at its start" in told
    assert "Traceback" not in told


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


MISBEHAVING = '''
import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent


def hold() -> str:
    """Work until another file says that it is over."""
    (HERE / "held").touch()
    while not (HERE / "over").exists():
        time.sleep(0.02)
    return "It was long."


def alarm() -> str:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while signal.getitimer(signal.ITIMER_REAL)[0]:
        time.sleep(0.01)
    signal.raise_signal(signal.SIGALRM)
    return "alive"


def users() -> str:
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPROF, signal.SIGVTALRM):
        os.kill(os.getpid(), number)
    return "alive"


def real_time() -> str:
    os.kill(os.getpid(), signal.SIGRTMIN + 3)
    return "alive"


def pool() -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return workers.map(abs, [-1, -2])


def terminated_fork() -> int:
    child = os.fork()
    if not child:
        time.sleep(600)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leaving_fork() -> int:
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def program_in_fork() -> int:
    child = os.fork()
    if not child:
        os.execl(sys.executable, "python", "-c", "raise SystemExit(5)")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def path() -> str:
    sys.path.clear()
    return "done"


def finders() -> str:
    sys.meta_path.clear()
    sys.path_importer_cache.clear()
    return "done"


def files() -> str:
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    return "done"


def modules() -> str:
    for name in list(sys.modules):
        if name.startswith(("json", "pydantic_ai", "llm_do_temporal.workflows")):
            del sys.modules[name]
    return "done"


def digits() -> str:
    sys.set_int_max_str_digits(640)
    return "done"


def number() -> int:
    return len(str(10 ** 4000))


def leave() -> None:
    os._exit(3)


def abort() -> None:
    os.abort()


def replace() -> None:
    os.execlp("true", "true")


def loud() -> str:
    for _ in range(1000):
        print("printed" + "z" * 1000)
    return "wrote"


def loud_bytes() -> str:
    for _ in range(1000):
        os.write(2, b"z" * 1000)
        sys.stdout.buffer.write(b"z" * 1000)
    return "wrote"


def loud_log() -> str:
    for _ in range(1000):
        logging.getLogger("authors").error("z" * 1000)
    return "wrote"


def quiet() -> str:
    print("a word of the function")
    return "wrote"
'''
TOOLSET = """
import asyncio
import os

from pydantic_ai.toolsets import FunctionToolset


class Things(FunctionToolset):
    def __init__(self):
        super().__init__(id="things")
        self.add_function(self.leave_loop)
        self.add_function(self.leave_thread)

    async def leave_loop(self) -> None:
        os._exit(3)

    async def leave_thread(self) -> None:
        await asyncio.to_thread(os._exit, 3)
"""
FUNCTIONS = [line.split("(")[0].removeprefix("def ") for line in MISBEHAVING.splitlines() if line.startswith("def ")]
AROUND = 3_000
"""Most characters of log lines about a call and its turns."""


def model(request: dict[str, Any], _number: int) -> Answer:
    """Call the function that the prompt names, and say what came of it."""
    last = request["messages"][-1]
    return Text(str(last["content"])) if last["role"] == "tool" else tool_call(str(last["content"]))


@dataclass
class Service:
    """A worker service of a workshop whose worker has all functions."""

    desk: Desk
    process: subprocess.Popen[bytes]
    log: Path

    def called(self, function: str) -> str:
        """Return what the model was told of a call of the function."""
        return self.result(self.start(function))

    def start(self, function: str) -> str:
        """Start a run that calls the function."""
        run = uuid4().hex
        self.desk.type(
            "start", "author", function, "--id", run, "--approve-all", "--model", "openai-chat:m", "--detach"
        )
        return run

    def result(self, run: str) -> str:
        """Return what the model was told in this run, by the process that was there from the beginning."""
        result = self.desk.type("result", run).stdout.strip()
        assert self.process.poll() is None
        return result


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("functions")
    with desk_in(folder) as desk, temporal_server() as address, FakeProvider(model) as provider:
        desk.environment["TEMPORAL_ADDRESS"] = address
        use_provider(desk, provider)
        toolsets: dict[str, Any] = {"custom": {name: {} for name in FUNCTIONS}, "things.Things": {}}
        (desk.workshop / "tools.py").write_text(MISBEHAVING)
        (desk.workshop / "things.py").write_text(TOOLSET)
        (desk.workshop / "author.worker").write_text(f"---\ntoolsets: {json.dumps(toolsets)}\n---\nDo it.\n")
        log = folder / "service.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                desk.command("worker"), env=desk.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        try:
            yield Service(desk, process, log)
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def neighbour(service: Service) -> Iterator[None]:
    """A run whose function runs from the beginning of the test to its end, once."""
    held, over = service.desk.workshop / "held", service.desk.workshop / "over"
    held.unlink(missing_ok=True)
    over.unlink(missing_ok=True)
    run = service.start("hold")
    eventually(held.exists, "the function runs")
    yield
    over.touch()
    assert service.result(run) == "It was long."


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("alarm", "SIGALRM"),
        ("users", "SIGUSR1, SIGUSR2, SIGPROF, SIGVTALRM"),
        ("real_time", "signal 37"),
    ],
)
def test_a_signal_ends_no_call_and_is_noted_once(service: Service, function: str, names: str) -> None:
    assert service.called(function) == "alive"
    log = service.log.read_text()
    for name in names.split(", "):
        assert log.count(f"{name} has reached this process") == 1


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize(
    ("function", "told"),
    [("pool", "[1,2]"), ("terminated_fork", "-15"), ("leaving_fork", "7"), ("program_in_fork", "5")],
)
def test_a_process_that_a_function_forks_ends_as_any_other(service: Service, function: str, told: str) -> None:
    assert service.called(function) == told


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("function", ["leave", "abort", "replace", "leave_loop", "leave_thread"])
def test_a_function_that_would_end_the_process_fails_its_call_alone(service: Service, function: str) -> None:
    assert f"'{function}' raised SystemExit" in service.called(function)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("function", ["loud", "loud_bytes", "loud_log"])
def test_of_much_output_the_beginning_is_kept_and_the_rest_counted(service: Service, function: str) -> None:
    before = service.log.stat().st_size
    assert service.called(function) == "wrote"
    said = service.log.read_text()[before:]
    assert MAX_LOGGED_CHARS < len(said) < MAX_LOGGED_CHARS + AROUND
    assert re.search(r"\d{6,7} more are left out", said)
    assert service.called("quiet") == "wrote"
    assert "a word of the function" in service.log.read_text()[before:]


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("function", ["path", "finders", "modules", "files", "digits"])
def test_runs_go_on_as_before_after_a_function_that_has_changed_the_process(service: Service, function: str) -> None:
    assert service.called(function) == "done"
    assert service.called("number") == "4001"
