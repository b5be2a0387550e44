"""Schedules as a door: a run begins by one, and reads its file itself; commands and the page tell of both."""

from __future__ import annotations

import json
from typing import Any

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended
from tests.support.patience import eventually
from tests.support.people.office import link_of

NAME = "nightly"


class ScheduleDoor(Door):
    """Somebody who makes a schedule and triggers it; the door's process is the page that shows schedules."""

    process_asks = False

    def open(self) -> None:
        """Begin the page."""
        self.process = self.desk.begin("ui", "--port", "0")
        link_of(self.process)

    def start(self) -> str:
        """Make the schedule, and trigger it: the server begins the run, which reads its file."""
        deck = self.desk.workshop / "deck.txt"
        deck.write_bytes(b"not yet")
        when = ("--cron", "0 7 1 1 *", "--timezone", "Europe/Berlin")
        self.desk.type("schedule", "create", NAME, "deck_keeper", PROMPT, "-a", str(deck), *when)
        deck.write_bytes(DECK)
        self.desk.type("schedule", "trigger", NAME)
        runs: list[str] = eventually(lambda: self._shown()["recent"], "the schedule has begun a run")
        return runs[0]

    def asked(self, run: str) -> str:
        """Wait for the question."""
        (question,) = self.desk.pending(run, 1)
        return question["id"]

    def result(self, run: str) -> Ended:
        """Wait for the end, which the schedule tells of, too."""
        output = self.desk.type("result", run).stdout
        record: dict[str, Any] = json.loads(self.desk.type("show", run, "--json").stdout)
        assert record["schedule"] == NAME
        (given,), written = record["files"]["given"], record["files"]["written"]
        assert given["bytes"] == len(DECK)
        ended = {"run": run, "state": "completed"}
        eventually(lambda: self._shown()["runs"] == [ended], "the schedule shows how its run has ended")
        files = [given["path"], *(one["path"] for one in written)]
        return Ended(record["status"], output, files, record["usage"]["requests"])

    def close(self) -> None:
        """End the schedule; its run stays."""
        self.desk.type("schedule", "delete", NAME)

    def _shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.desk.type("schedule", "show", NAME, "--json").stdout)
        return shown


DOORS = (ScheduleDoor,)
