"""The peer on DBOS and SQLite: no server, the same agents in a process of its own."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.contenders.contender import Contender, Place, until
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured, Service, python, read_line, spawn


class Dbos(Contender):
    """Pydantic AI with `DBOSDurability`."""

    name = "DBOS"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        if find_spec("dbos") is None:
            raise NotMeasured("the package 'dbos' is missing; `make bench` installs it")
        self._database = place.folder / "dbos.sqlite"
        self._parked: set[str] = set()
        self._done: dict[str, int] = {}

    def spawn(self) -> Service:
        """Start it; runs that were open go on."""
        command = python("benchmarks.contenders.dbos_service", f"sqlite:///{self._database}")
        service = spawn("dbos", command, self.place.folder, self.place.variables, heard=True)
        # A recovered run may be parked again before the service says that it is ready.
        while (said := json.loads(read_line(service)))[0] != "ready":
            self._hear(said)
        threading.Thread(target=self._listen, args=(service,), daemon=True).start()
        return service

    async def start(self, kind: str, plan: Plan) -> None:
        """Start a run."""
        self._tell("start", plan.job, kind, plan.prompt())

    async def finish(self, run: str) -> int:
        """Wait until it says that it is done."""
        await until(lambda: self._holds(run in self._done), f"'{run}' is done")
        return self._done[run]

    async def wait_parked(self, runs: Sequence[str]) -> None:
        """Wait until each has said so."""
        await until(lambda: self._holds(self._parked.issuperset(runs)), "the runs are parked")

    async def _holds(self, fact: bool) -> bool:
        return fact and self.running.popen.poll() is None

    async def decide(self, run: str) -> None:
        """Send the message."""
        self._tell("decide", run)

    async def drop(self, run: str) -> None:
        """It stays where it is: nothing else uses the database."""

    async def history_bytes(self, run: str) -> int:
        """It has none."""
        return 0

    def stored_bytes(self) -> int:
        """The size of its database."""
        with closing(sqlite3.connect(self._database, timeout=30)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        files = [Path(f"{self._database}{suffix}") for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def _tell(self, *words: Any) -> None:
        stdin = self.running.popen.stdin
        assert stdin is not None
        stdin.write(json.dumps(words) + "\n")
        stdin.flush()

    def _listen(self, service: Service) -> None:
        assert service.popen.stdout is not None
        try:
            for line in service.popen.stdout:
                self._hear(json.loads(line))
        except ValueError:
            return  # killed in the middle of a line

    def _hear(self, said: list[Any]) -> None:
        if said[0] == "parked":
            self._parked.add(said[1])
        elif said[0] == "done":
            self._done[said[1]] = said[2]
