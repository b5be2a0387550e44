"""Functions of workers that would end the worker service or fill its disk, in a real service: it goes on."""

from __future__ import annotations

from llm_do_temporal.client.embedded.processes import MAX_LOG_BYTES
from tests.support.patience import eventually
from tests.support.people.desk import Desk

WORKER = """\
---
model: offline:by-hand
toolsets:
  custom: {strike: {pre_approved: true}, flood: {pre_approved: true}}
---
Do as you are told.
"""
TOOLS = """\
import os
import signal

def strike(times: int) -> str:
    names = ("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2")
    for name in names * times:
        signal.raise_signal(getattr(signal, name))
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    return f"alive in {os.getpid()}"

def flood(megabytes: int) -> str:
    for _ in range(megabytes):
        print("x" * 1_000_000)
        os.write(1, b"y" * 1_000)
    return f"alive in {os.getpid()}"
"""


def harmful(shop: Desk) -> None:
    folder = shop.workshop / "workers" / "harmful"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "worker.worker").write_text(WORKER)
    (folder / "tools.py").write_text(TOOLS)


def alive(shop: Desk, call: str) -> str:
    """Return the process in which a call has run."""
    return shop.type("start", "harmful", call).stdout.strip().partition("alive in ")[2]


def test_a_signal_from_a_function_ends_nothing(shop: Desk) -> None:
    harmful(shop)
    first = alive(shop, 'strike {"times": 3}')
    assert first
    assert alive(shop, 'strike {"times": 1}') == first
    log = (shop.workshop / ".llm-do" / "service.log").read_text()
    assert log.count("SIGUSR1 came, perhaps from a function of a worker") == 1


def test_what_a_function_prints_does_not_fill_the_disk(shop: Desk) -> None:
    harmful(shop)
    log = shop.workshop / ".llm-do" / "service.log"
    assert alive(shop, f'flood {{"megabytes": {(MAX_LOG_BYTES >> 20) + 10}}}')
    eventually(lambda: log.stat().st_size < MAX_LOG_BYTES // 2, "the log is short")
    assert "left out: the log was too long" in log.open().readline()
