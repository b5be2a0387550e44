"""Functions of authors in a real worker service: what they do to its process is nobody else's trouble."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from llm_do_temporal.messages.sizes import MAX_LOGGED_CHARS
from tests.support.patience import eventually
from tests.support.people.desk import Desk, desk_in, use_provider
from tests.support.providers.answers import Answer, Text, tool_call
from tests.support.providers.provider import FakeProvider
from tests.support.servers.temporal import temporal_server

TOOLS = '''
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
FUNCTIONS = [line.split("(")[0].removeprefix("def ") for line in TOOLS.splitlines() if line.startswith("def ")]
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
        (desk.workshop / "tools.py").write_text(TOOLS)
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
