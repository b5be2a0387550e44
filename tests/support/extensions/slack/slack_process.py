"""The Slack door as people start it: a process that is told where the tests' Slack is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.extensions.slack.fake_slack import ADA, BOB, CHANNEL, FakeSlack
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runs.place import Place

PEOPLE = {"channel": CHANNEL, "people": {ADA: "ada", BOB: "bob"}}


def command(place: Place) -> list[str]:
    """Return the command line of the door."""
    return [sys.executable, "-m", "llm_do_temporal.cli", "slack", "--workshop", str(place.folder)]


def variables(place: Place, slack: FakeSlack, **more: str) -> dict[str, str]:
    """Return the environment of the door."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LLM_DO_", "SLACK_", "TEMPORAL_"))
    }
    return {**kept, **place.variables, "LLM_DO_TASK_QUEUE": place.queue, **slack.environment, **more}


@contextmanager
def begun(place: Place, slack: FakeSlack, **more: str) -> Generator[subprocess.Popen[str]]:
    """Begin a door that is killed at the end of the block, if it has not ended."""
    process = subprocess.Popen(
        command(place),
        env=variables(place, slack, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a door that cannot begin, and return what it said."""
    typed: list[Any] = [sys.executable, "-m", "llm_do_temporal.cli", "slack", *arguments]
    return subprocess.run(
        typed, env=dict(environment), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
