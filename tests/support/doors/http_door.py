"""The HTTP door in the process of the page."""

from __future__ import annotations

import base64
from typing import Any

import httpx2

from tests.support.doors.scenario import DECK, PROMPT, Door, Ended, token
from tests.support.people.desk import Desk
from tests.support.people.office import link_of
from tests.support.ports import unused_port


class HttpDoor(Door):
    """The page's process, and a program with a token."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.port = unused_port()
        self.base = f"http://127.0.0.1:{self.port}/api/v1"
        self.headers = {"Authorization": f"Bearer {token(desk, 'ci')}"}

    def open(self) -> None:
        """Begin the page."""
        self.process = self.desk.begin("ui", "--port", str(self.port))
        link_of(self.process)

    def start(self) -> str:
        """Start the run twice with one key, as a program does that has lost the first answer."""
        file = {"name": "deck.txt", "content": base64.b64encode(DECK).decode()}
        body = {"worker": "deck_keeper", "prompt": PROMPT, "attachments": [file]}
        runs = {self.ask("POST", "/runs", json=body, key=self.key)["run"] for _ in range(2)}
        (run,) = runs
        return run

    def asked(self, run: str) -> str:
        """Wait for the question."""
        while (state := self.ask("GET", f"/runs/{run}?wait=50")["state"]) != "waiting":
            assert state == "running"
        (question,) = self.ask("GET", f"/runs/{run}/questions")
        return question["id"]

    def result(self, run: str) -> Ended:
        while True:
            got = self.ask("GET", f"/runs/{run}?wait=50")
            if got["ended_at"] is not None:
                files = [one["name"] for one in self.ask("GET", f"/runs/{run}/files")]
                return Ended(got["state"], got["output"], files, got["usage"]["requests"])

    def close(self) -> None:
        """Nothing is open between requests."""

    def ask(self, method: str, path: str, *, key: str | None = None, **more: Any) -> Any:
        """Send one request, and return the JSON of its answer."""
        headers = self.headers | ({} if key is None else {"Idempotency-Key": key})
        got = httpx2.request(method, f"{self.base}{path}", headers=headers, timeout=120, **more)
        assert got.status_code in (200, 202), got.text
        return got.json()
