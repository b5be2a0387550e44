"""Processes of a cluster: started, asked whether they are well, stopped, killed and started again, each by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from llm_do_temporal.client.embedded.host import die_with_parent
from llm_do_temporal.client.embedded.server import accepts, port_is_free
from tests.cluster.errors import ClusterError

STOP_SECONDS = 45
"""How long a process may take to end after SIGTERM: docker-compose.yml gives the worker services as much."""
START_SECONDS = 120
_POLL_SECONDS = 0.1
_FIRST_PORT, _LAST_PORT = 10_000, 30_000
"""Below those that the system gives to connections, so that a port stays free while its process is being restarted."""


@dataclass
class Process:
    """A program of the cluster with all that it is told."""

    name: str
    command: Sequence[str]
    variables: Mapping[str, str]
    log: Path
    ports: Mapping[str, int]
    """Ports of 127.0.0.1 at which it listens, by what they are for."""
    is_well: Callable[[], bool]
    user: str | None = None
    """Account that it runs as; None: that of this process."""
    stop_signal: signal.Signals = signal.SIGTERM
    popen: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int | None:
        """Its process id; None while it does not run."""
        return self.popen.pid if self.popen is not None and self.popen.poll() is None else None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.pid is not None:
            return
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.variables),
                cwd="/",
                start_new_session=True,
                # Nothing of it is left where this process is killed.
                preexec_fn=die_with_parent,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else (),
            )

    def await_well(self, seconds: float = START_SECONDS) -> None:
        """Wait until it answers. Raises ClusterError where it ends first, or never does."""
        deadline = time.monotonic() + seconds
        while True:
            well = self.is_well()
            # Somebody else's may answer in its place.
            if self.pid is None:
                raise ClusterError(f"{self.name} ended{self._how()}: {last_line(self.log)}\nIts log: {self.log}")
            if well:
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name} did not answer within {seconds:g} s; its log: {self.log}")
            time.sleep(_POLL_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Tell it to end, and kill it where it does not."""
        if self.popen is None:
            return
        with suppress(ProcessLookupError):
            self.popen.send_signal(self.stop_signal)
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL it and everything that it has started."""
        if self.popen is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()

    def _how(self) -> str:
        code = None if self.popen is None else self.popen.poll()
        return "" if code is None else f" with {code}"


def answers(url: str) -> bool:
    """Whether a server replies there, and well."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def listens(port: int) -> bool:
    """Whether something listens at a port of 127.0.0.1."""
    return accepts(f"127.0.0.1:{port}")


def free_ports(names: Sequence[str], preferred: Mapping[str, int]) -> dict[str, int]:
    """A free port of 127.0.0.1 for each name, the preferred one where nobody has that."""
    found: dict[str, int] = {}
    # Not all begin at the same number: several clusters may come up at the same moment.
    place = _FIRST_PORT + (os.getpid() * 97) % (_LAST_PORT - _FIRST_PORT - 1000)
    for name in names:
        candidates = chain([preferred[name]] if name in preferred else [], range(place, _LAST_PORT))
        found[name] = next(port for port in candidates if port not in found.values() and port_is_free(port))
    return found


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][-500:] if lines else "it said nothing"
