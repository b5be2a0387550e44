"""`certify` as people type it: something dies right after an event of a run, and the run comes to the same end."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RELAY = Path(__file__).parents[3] / "support" / "relay"
EXAM = RELAY.with_name("exam")
STAMP = '''
import time
from pathlib import Path


def stamp() -> str:
    """Leave the time."""
    Path(__file__).with_name("stamp.txt").write_text(str(time.time_ns()))
    return "done"
'''
PROMPT = (RELAY / "prompt.txt").read_text(encoding="utf-8")


def begin(*arguments: str, workshop: Path = RELAY) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "LLM_DO_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "llm_do_temporal.cli", "certify", *arguments, "--workshop", str(workshop), "-o", "json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    stdout, stderr = process.communicate()
    return process.returncode, json.loads(stdout), stderr


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_whatever_dies_the_run_comes_to_the_same_end() -> None:
    # `make certify` has all four, after every event.
    kinds = ["service", "freeze"]
    code, told, stderr = finish(begin("editor", PROMPT, *(f"--kill={kind}" for kind in kinds), "--event=60"))
    assert [(row["kill"], row["event"], row["problems"]) for row in told["rows"]] == [(kind, 60, []) for kind in kinds]
    assert all(row["passed"] and row["struck_after"] for row in told["rows"])
    assert (code, told["failed"], told["exact"]) == (0, 0, True)
    assert f"events of the recorded run: {told['events']}" in stderr
    assert told["events"] > 90


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_an_evaluation_whose_service_dies_comes_to_the_same_end() -> None:
    # `make certify` does it after every event.
    code, told, stderr = finish(begin(str(EXAM / "workers" / "pupil.eval.yaml"), "--event=120", workshop=EXAM))
    assert [(row["event"], row["problems"]) for row in told["rows"]] == [(120, [])]
    assert (code, told["failed"], told["exact"]) == (0, 0, True)
    assert "1 of 1 came to the same end" in stderr
    assert told["events"] > 200


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_what_comes_out_otherwise_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("model: offline:by-hand\n")
    (tmp_path / "workers" / "clock.worker").write_text("toolsets: {custom: {stamp: {}}}\n---\nDo what you are told.\n")
    (tmp_path / "tools.py").write_text(STAMP)
    code, told, stderr = finish(begin("clock", "stamp {}", "--event=1", workshop=tmp_path))
    assert code == 1
    assert [row["problems"] for row in told["rows"]] == [["the file stamp.txt differs"]]
    said = re.search(r"^logs and files of what failed: (.+)$", stderr, re.MULTILINE)
    assert said is not None
    kept = Path(said[1])
    assert list(kept.glob("lane-*/service.log"))
    shutil.rmtree(kept)
