"""Processes of a measurement: started with an environment of their own, measured, and killed at the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_HIDDEN = ("TEMPORAL_", "LLM_DO_", "OPENAI_", "DBOS_", "OTEL_")
MB = 1_000_000


class NotMeasured(Exception):
    """A measurement could not be taken; the text says why."""


@dataclass
class Service:
    """A process, and where its output goes."""

    name: str
    popen: subprocess.Popen[str]
    log: Path

    @property
    def _all(self) -> list[psutil.Process]:
        top = psutil.Process(self.popen.pid)
        return [top, *top.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Processor time so far, user and system, children included."""
        times = [process.cpu_times() for process in self._all]
        return sum(one.user + one.system for one in times)

    def memory_mb(self) -> float:
        """Resident memory."""
        return sum(process.memory_info().rss for process in self._all) / MB

    def check(self) -> None:
        """Raise NotMeasured when it has ended."""
        if self.popen.poll() is not None:
            raise NotMeasured(f"{self.name} ended with {self.popen.returncode}: {last_line(self.log)}")

    def kill(self) -> None:
        """SIGKILL its whole process group, and wait until it is gone."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                stream.close()


def spawn(
    name: str,
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    *,
    heard: bool = False,
) -> Service:
    """Start a process in a session of its own; stdin is a pipe, and what it prints goes to `NAME.log` in the folder.

    `heard` makes its stdout a pipe, which somebody must read: a process stops when a pipe is full.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_HIDDEN)}
    log = folder / f"{name}.log"
    with log.open("ab") as file:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if heard else file,
            stderr=file,
            env={**kept, **(variables or {})},
            text=True,
            start_new_session=True,
        )
    return Service(name, popen, log)


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module."""
    return [sys.executable, "-m", module, *arguments]


def read_line(service: Service) -> str:
    """The next line it prints. Raises NotMeasured when it ends first."""
    assert service.popen.stdout is not None
    line = service.popen.stdout.readline().strip()
    if not line:
        service.popen.wait()
        service.check()
    return line


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def last_line(path: Path) -> str:
    """The line of a log that says why its process ended: the last one, or that above the trace of a panic."""
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    panics = [line for line in lines if line.startswith(("panic:", "fatal error:"))]
    return (panics or lines or ["nothing in its log"])[-1]
