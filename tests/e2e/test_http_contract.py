"""The HTTP door against its own OpenAPI document: requests that fit it, and many that do not, at the real process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doors.http_door import HttpDoor
from tests.support.doors.scenario import prepare, token
from tests.support.people.desk import Desk

SEMANTICS = "positive_data_acceptance"
"""Check that is left out: no schema can say which workers, moments and kinds of calls there are."""
EXAMPLES = "4"
"""Requests for each kind of test of each route."""


# One thread: `ast.parse`, which Hypothesis calls, fails at times where several of Python 3.11 call it.
@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_the_door_answers_as_its_document_says(desk: Desk, address: str, tmp_path: Path) -> None:
    desk.environment["TEMPORAL_ADDRESS"] = address
    prepare(desk)
    door = HttpDoor(desk)
    door.open()
    desk.begin("worker")
    run = door.start()
    door.asked(run)
    everything = token(desk, "ada", "--person", "--scopes", "start,read,decide")
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{door.base}/openapi.json"),
            *("--header", f"Authorization: Bearer {everything}", "--header", "Last-Event-ID: 0"),
            *(
                "--checks",
                "all",
                "--exclude-checks",
                SEMANTICS,
                "--max-examples",
                EXAMPLES,
                "--seed",
                "7",
                "--generation-deterministic",
                "--no-color",
            ),
            *("--exclude-path-regex", "events$", "--request-timeout", "300", "--workers", "1"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried = re.search(r"(\d+) generated", done.stdout)
    assert tried is not None
    assert int(tried[1]) > 100, done.stdout
