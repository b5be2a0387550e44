"""One scenario for every door: a run that a program starts with a file, and that a person decides somewhere else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.support.people.desk import Desk

WORKER = """\
---
description: Reads a deck and keeps what it says.
export: true
model: offline:by-hand
toolsets: {filesystem: {}}
---
Do what the prompt says.
"""
PROMPT = 'write_file {"path": "/said.txt", "content": "seven slides"}'
DECK = b"seven slides, one of them empty"


@dataclass(frozen=True)
class Ended:
    """What a door tells of a run that has ended."""

    state: str
    output: str
    files: list[str] | None = None
    """Files that it was given, and that it has written; None: the door tells of none."""
    requests: int | None = None
    """Requests to the model that the run has made; None: the door does not tell."""


class Door(ABC):
    """A door in a process of its own, and a program that uses it."""

    process_asks = True
    """Whether what the program asks goes through that process."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.process: subprocess.Popen[str] | None = None
        self.key = "once"
        """The key of the start, where the door takes one."""

    @abstractmethod
    def open(self) -> None:
        """Begin the process, for the first time or again after its death."""

    @abstractmethod
    def start(self) -> str:
        """Start the run with its file, and return its id."""

    @abstractmethod
    def asked(self, run: str) -> str:
        """Wait until the run asks something, and return the id of the question as the door has it."""

    @abstractmethod
    def result(self, run: str) -> Ended:
        """Wait for the end of the run."""

    @abstractmethod
    def close(self) -> None:
        """Leave the door in peace."""

    def die(self) -> None:
        """Kill the door's process, and not what it has started."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def prepare(desk: Desk) -> None:
    """Write the worker of the scenario."""
    (desk.workshop / "deck_keeper.worker").write_text(WORKER)


def token(desk: Desk, name: str, *flags: str) -> str:
    return desk.type("token", "create", name, *flags).stdout.strip()


def play(door: Door) -> Ended:
    """Play the scenario: all but the server is killed between the question and its answer, which another door gives."""
    desk = door.desk
    service = desk.begin("worker")
    door.open()
    try:
        run = door.start()
        question = door.asked(run)
        door.die()
        os.killpg(service.pid, signal.SIGKILL)
        (waiting,) = desk.pending(run, 1)
        assert waiting["id"] == question
        desk.begin("worker")
        desk.type("approve", run, question)
        door.open()
        ended = door.result(run)
    finally:
        door.close()
    assert (desk.workshop / "files/said.txt").read_text() == "seven slides"
    record: dict[str, Any] = json.loads(desk.type("show", run, "--json").stdout)
    assert record["usage"]["requests"] == 2
    assert ended.requests in (2, None)
    assert ended.files in (["deck.txt", "/said.txt"], None)
    return ended
