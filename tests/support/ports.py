"""Ports for servers that tests start: nobody else takes one between its choice and its use."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from llm_do_temporal.client.embedded.server import any_free_port, port_is_free

_FIRST, _EACH, _SHARES = 20_000, 1_000, 12
"""Ports below those that the system gives to whoever asks for any, in a share for each process of a session."""
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_asked = itertools.count(os.getpid())


def unused_port() -> int:
    """Return a port at which nobody listens, and that neither the system nor another test process gives away."""
    lowest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _FIRST + _EACH * _SHARES
    if lowest < _FIRST + _EACH * _SHARES:
        return any_free_port()
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw") or _SHARES - 1)
    share = _FIRST + _EACH * (number % _SHARES)
    return next(port for _ in range(_EACH) if port_is_free(port := share + next(_asked) % _EACH))


@contextmanager
def held_port() -> Generator[int]:
    """Hold a port that nobody listens at: no other process is given it, and a server of the test may listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
