"""Forty effects under faults: what was begun and ended where, and the questions that a lost worker service leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from tests.compose.stack import Stack, eventually

RUN = "forty"
IT_RAN, IT_DID_NOT = "reject", "approve"
_LOOKS_A_QUESTION = 10


@dataclass
class Ledger:
    """What the tool of the run has written, and who answers for it."""

    stack: Stack
    answered: Counter[str] = field(default_factory=Counter[str])
    lost: set[int] = field(default_factory=set[int])
    """What was going on in a container when that was killed."""

    @property
    def lines(self) -> list[tuple[str, int, str]]:
        """`begin` or `end`, the number, and the host name of the container."""
        path = self.stack.workshop / "workers/keeper/ledger"
        split = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(what, int(number), host) for what, number, host in split]

    def begun(self) -> list[int]:
        """The numbers in the order in which they were begun, one that was begun twice two times."""
        return [number for what, number, _ in self.lines if what == "begin"]

    def open_calls(self) -> dict[int, str]:
        """The calls that have begun and not ended, and in which container; none that was given up."""
        ended = {number for what, number, _ in self.lines if what == "end"} | self.lost
        return {number: host for _, number, host in self.lines if number not in ended}

    def give_up(self, host: str) -> None:
        """Expect no end of what a container that was killed had begun."""
        self.lost |= {number for number, one in self.open_calls().items() if one == host}

    def questions(self) -> list[dict[str, object]]:
        """What waits for a person; none while the server cannot be asked."""
        done = self.stack.ours("approvals", RUN, "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else []

    def answer(self) -> None:
        """Answer every question by what the ledger says: what has begun ran, anything else may run again."""
        for one in self.questions():
            args = one["args"]
            assert isinstance(args, dict)
            kind = IT_RAN if args["number"] in self.begun() else IT_DID_NOT
            note = ("--reason", "it ran") if kind == IT_RAN else ()
            # Somebody else cannot have been first; but the server may be away for a moment.
            if self.stack.ours(kind, RUN, str(one["id"]), *note, check=False).returncode == 0:
                self.answered[kind] += 1

    def wait(self, found: Callable[[], object], what: str) -> None:
        """Answer questions until something is so."""
        looks = count()

        def look() -> bool:
            # To ask for questions takes a process, and so a while in which calls begin and end.
            if not found() and next(looks) % _LOOKS_A_QUESTION == 0:
                self.answer()
            return bool(found())

        eventually(look, what)

    def reach(self, begun: int) -> None:
        """Answer questions until so many calls have begun."""
        self.wait(lambda: len(self.begun()) >= begun, f"{begun} calls have begun")

    def caught(self, after: int) -> str:
        """A container in the middle of a call, once so many have begun."""
        found: list[str] = []

        def look() -> bool:
            if len(self.begun()) >= after:
                found.extend(self.open_calls().values())
            return bool(found)

        self.wait(look, f"{after} calls have begun, and one of them goes on")
        return found[-1]

    def outlive(self, service: str, after: int) -> None:
        """Kill a service while calls go on, once so many have begun; start it when these have ended without it."""
        going: set[int] = set()
        while not going:
            self.caught(after)
            self.stack.compose("kill", "--signal", "KILL", service)
            # Those that have not ended while the service was being killed.
            going = set(self.open_calls())
            eventually(lambda left=going: not left & set(self.open_calls()), f"calls end without {service}")
            self.stack.compose("start", service)
