"""Somebody who types commands of the program, in a copy of the workshop that ships.

Each is a process of its own. One that runs to its end is forked from a process that has loaded the program; what is
left running, and all that commands start, is started as people start it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from llm_do_temporal.client.embedded.server import HostInfo, running_host
from llm_do_temporal.environment import UNDO_VARIABLE
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.forked_program import run_forked
from tests.support.providers.provider import FakeProvider
from tests.support.servers.temporal import PROGRAMS

SHIPPED = Path(__file__).parents[3] / "workers"


@dataclass
class Desk:
    """A workshop, and somebody who types commands in it."""

    workshop: Path
    environment: dict[str, str]
    groups: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def command(self, *arguments: str) -> list[str]:
        """The command line, with this workshop named."""
        return [sys.executable, "-m", "llm_do_temporal.cli", *arguments, "--workshop", str(self.workshop)]

    def type(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, and hold its exit code against `code`."""
        typed = [*arguments, "--workshop", str(self.workshop)]
        done = run_forked(typed, folder=Path.cwd(), environment=self.environment)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def temporal(self, *arguments: str) -> str:
        """Run the plain `temporal` CLI against the server that is named, else that of this workshop."""
        address = self.environment.get("TEMPORAL_ADDRESS") or self.host.address
        done = subprocess.run(
            [str(PROGRAMS / "temporal"), *arguments, "--address", address],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own, and leave it running."""
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.groups.append(process)
        return process

    def kill_group(self, process: subprocess.Popen[str]) -> None:
        """SIGKILL the whole process group of a command, and see its server and worker service die with it."""
        pids: list[int] = []
        for one in psutil.process_iter():
            with suppress(psutil.NoSuchProcess):  # one that has just ended
                if _group(one.pid) == process.pid:
                    pids += [one.pid, *(each.pid for each in one.children(recursive=True))]
        assert len(pids) >= 3, "a host, a server and a worker service were running"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        eventually(lambda: not any(_alive(pid) for pid in pids), f"the processes {pids} are gone")

    @property
    def host(self) -> HostInfo:
        """The host that serves this workshop, as soon as there is one."""
        found: HostInfo = eventually(lambda: running_host(self.workshop), "a host serves the workshop")
        return found

    def pending(self, run: str, count: int) -> list[dict[str, Any]]:
        """The approvals of a run, as soon as there are `count` of them."""

        def ask() -> list[dict[str, Any]] | None:
            found = json.loads(self.type("approvals", run, "--json").stdout)
            return found if len(found) == count else None

        found: list[dict[str, Any]] = eventually(ask, f"{count} approvals are pending")
        return found

    def asked(self, run: str, approval: str) -> dict[str, Any]:
        """The one approval of a run that waits, as soon as it is this one.

        A decision that nobody has heard in time is sent, and its question may be listed for a moment after it.
        """
        return eventually(
            lambda: next((one for one in self.pending(run, 1) if one["id"] == approval), None), f"{approval} is asked"
        )

    def evaluations(self) -> dict[str, str]:
        """What was written, by name."""
        return {path.stem: path.read_text() for path in (self.workshop / "files/evaluations").glob("*.md")}

    @property
    def decks(self) -> list[str]:
        """The decks of the workshop, by name."""
        return sorted(path.stem for path in (self.workshop / "files/pipeline").glob("*.pdf"))

    def close(self) -> None:
        """Stop everything that still runs."""
        for process in self.groups:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        host = running_host(self.workshop)
        if host is not None:
            with suppress(ProcessLookupError):  # it may have left just now, as nobody needed it
                os.kill(host.pid, signal.SIGTERM)
            eventually(lambda: running_host(self.workshop) is None, "the host has left")


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ship(workshop: Path) -> None:
    """Have the files that ship in a workshop, and no others but the product's own state."""
    for path in workshop.iterdir() if workshop.exists() else ():
        if path.is_dir() and path.name != STATE_FOLDER:
            shutil.rmtree(path)
        elif path.name != STATE_FOLDER:
            path.unlink()
    left_behind = (STATE_FOLDER, "evaluations", "__pycache__", "notes.md", "generated")
    shutil.copytree(SHIPPED, workshop, ignore=shutil.ignore_patterns(*left_behind), dirs_exist_ok=True)


@contextmanager
def desk_in(folder: Path) -> Generator[Desk]:
    """A desk in `folder`: a copy of the workshop that ships, and an environment that names no server and no key."""
    workshop = folder / "workers"
    ship(workshop)
    hidden = ("TEMPORAL_", "LLM_DO_", "OPENAI_", "ANTHROPIC_", "OTEL_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    # A held decision would keep every run waiting; the tests of undo say how long they hold.
    environment |= {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), UNDO_VARIABLE: "0"}
    desk = Desk(workshop, environment)
    try:
        yield desk
    finally:
        desk.close()


def use_provider(desk: Desk, provider: FakeProvider) -> None:
    """Let commands of this desk find the provider where OpenAI would be."""
    desk.environment |= {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-test"}
