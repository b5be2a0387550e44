"""From nothing to a first answer: `init`, and what it says to type; then `doctor` beside a server of one's own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from tests.support.patience import COMMAND_SECONDS
from tests.support.people.desk import Desk


def typed(desk: Desk, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command exactly as it is written, and hold its exit code against `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "llm_do_temporal.cli", *arguments],
        env=desk.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def findings(printed: str) -> dict[str, dict[str, Any]]:
    return {one["what"]: one for one in json.loads(printed)["findings"]}


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_what_init_says_to_type_works(desk: Desk) -> None:
    shop = desk.workshop.parent / "shop"
    said = typed(desk, "init", str(shop)).stderr.splitlines()
    desk.workshop = shop
    start, doctor = [shlex.split(line)[1:] for line in said if line.startswith("  llm-do-temporal ")]
    waits = typed(desk, *start, code=3).stderr  # without a terminal nobody is asked in place
    approve, watch = [
        shlex.split(line.partition("llm-do-temporal ")[2])
        for line in waits.splitlines()
        if " approve " in line or " watch " in line
    ]
    assert "the workshop's own (process " in typed(desk, *doctor).stdout
    typed(desk, *approve)
    assert "1 note in /notes.md. The new one: buy bread" in typed(desk, *watch).stdout
    assert (shop / "files/notes.md").read_text() == "- buy bread\n"


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_doctor_says_what_a_server_lacks(desk: Desk, address: str) -> None:
    lacking = findings(desk.type("doctor", "--address", address, "--json", code=1).stdout)
    assert lacking["Temporal"]["message"] == f"{address}, named by --address"
    assert lacking["search attributes"]["status"] == "warning"
    assert lacking["worker service"]["status"] == "error"
    wrong = findings(desk.type("doctor", "--address", address, "--namespace", "nobodys", "--json", code=1).stdout)
    assert wrong["namespace"]["message"] == "there is no namespace 'nobodys'"
