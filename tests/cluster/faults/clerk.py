"""Runs of the clerk: what they have done so far, and the person who is asked about them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psutil

from tests.cluster.faults.script import END, LONG, TURNS, content_of
from tests.cluster.faults.stack import SERVICES, FaultStack
from tests.compose.stack import PATIENCE_SECONDS, eventually

_LOOKS_A_QUESTION = 10


@dataclass
class Clerks:
    """Some runs, what they have done so far, and the person who is asked about them."""

    stack: FaultStack
    runs: tuple[str, ...]
    is_long: bool = False
    asked: set[str] = field(default_factory=set[str])
    """Commands of which a person was asked whether they are to be run again."""
    limits: set[str] = field(default_factory=set[str])
    """Runs of which a person was asked whether they may go on at a limit."""

    @classmethod
    def begin(cls, stack: FaultStack, name: str, number: int = 4, *, is_long: bool = False) -> Clerks:
        """Start runs, and return once each of them has a command under way, which goes on until `release`."""
        found = cls(stack, tuple(f"{name}{one}" for one in range(1, number + 1)), is_long)
        found.hold()
        found.start()
        found.wait(lambda: len(found.open()) == number, "each run has a command under way")
        return found

    def start(self, worker: str = "clerk", *options: str) -> None:
        """Start them, with these options of the command."""
        for run in self.runs:
            words = (run, LONG) if self.is_long else (run,)
            self.stack.ours("start", worker, " ".join(words), "--id", run, "--detach", *options)

    def hold(self) -> None:
        """Let commands go on, from now on, until they are released."""
        (self.stack.files / "hold").touch()

    def release(self) -> None:
        """Let commands end."""
        (self.stack.files / "hold").unlink()

    @property
    def keys(self) -> list[str]:
        """All commands that there will have been."""
        return [f"{run}-{turn}" for run in self.runs for turn in range(TURNS)]

    def lines(self, word: str) -> list[str]:
        """The commands of these runs that have begun or ended, one that did so twice two times."""
        path = self.stack.files / "ledger"
        split = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [key for what, key in split if what == word and key.rpartition("-")[0] in self.runs]

    def open(self) -> set[str]:
        """Commands that have begun and not ended."""
        return set(self.lines("begin")) - set(self.lines("end"))

    def under(self, service: str) -> set[str]:
        """Commands that are processes of this service now."""
        pid = self.stack.cluster.processes[service].pid
        assert pid is not None
        lines = [_words(one) for one in psutil.Process(pid).children(recursive=True)]
        return {key for key in self.keys if any("note.sh" in line and key in line for line in lines)}

    def end(self) -> None:
        """Let commands end, and wait until none is under way any more, with no question answered meanwhile."""
        self.release()
        eventually(lambda: not any(self.under(name) for name in SERVICES), "commands end")

    def questions(self) -> list[dict[str, Any]]:
        """Those of these runs; none while the server cannot be asked."""
        done = self.stack.ours("approvals", "--json", check=False)
        found: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
        return [one for one in found if one["run"] in self.runs]

    def answer(self) -> None:
        """Answer every question as a careful person does: what stands in the ledger ran, anything else may run."""
        for one in self.questions():
            words = ("approve", one["run"], one["id"])
            if one["tool"] == "go_on":
                self.limits.add(one["run"])
            else:
                key = str(one["args"]["command"]).split()[2]
                self.asked.add(key)
                if key in self.lines("begin"):
                    words = ("reject", one["run"], one["id"], "--reason", "it ran")
            # The server may be away for a moment: then the question is still there at the next look.
            self.stack.ours(*words, check=False)

    def wait(self, found: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Answer questions until something is so."""
        looks = count(1)

        def look() -> bool:
            if not found() and next(looks) % _LOOKS_A_QUESTION == 0:
                self.answer()
            return bool(found())

        try:
            eventually(look, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; open: {sorted(self.open())}\n{self.stack.logs()}") from None

    def outlive_cut(self, service: str, seconds: float) -> None:
        """Cut a service off while commands of it go on, for so long at least, mend the network, and finish."""
        caught = self.under(service)
        assert caught
        self.stack.cut_worker(service)
        cut_at = time.monotonic()
        self.wait(lambda: caught <= self.asked, "a person is asked about every command of the service that is cut off")
        # It gives them up by itself, with nobody to tell it so.
        eventually(lambda: not self.under(service), "the service has ended its commands")
        self.release()
        self.wait(lambda: time.monotonic() - cut_at > seconds, f"{seconds:g} s are over", PATIENCE_SECONDS + seconds)
        self.stack.mend()
        self.finish()

    def reach(self, ended: int) -> None:
        """Answer questions until so many commands have ended."""
        self.wait(lambda: len(self.lines("end")) >= ended, f"{ended} commands have ended")

    def open_runs(self) -> set[str]:
        """Runs that go on; all of them while the server cannot be asked."""
        done = self.stack.ours("list", "--json", "--limit", "200", check=False)
        if done.returncode != 0:
            return set(self.runs)
        ended = {one["run"] for one in json.loads(done.stdout) if one["status"] not in ("running", "waiting")}
        return set(self.runs) - ended

    def finish(self) -> None:
        """Answer questions until all runs have ended, and hold what they have left against what was promised."""
        self.wait(lambda: set(self.keys) <= set(self.lines("begin")), "all commands have begun")
        self.wait(lambda: not self.open_runs(), "all runs have ended")
        self.check()
        print(f"{len(self.runs)} runs, {len(self.keys)} commands, {len(self.asked)} of them asked about")

    def check(self) -> None:
        """Hold that nothing is lost, and nothing happened twice."""
        for run in self.runs:
            assert json.loads(self.stack.ours("result", run, "-o", "json").stdout)["output"] == END
        assert sorted(self.lines("begin")) == sorted(self.keys)
        for key in self.keys:
            written = (self.stack.files / f"{key}.txt").read_text()
            assert written == content_of(key, is_long=self.is_long), key


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []
