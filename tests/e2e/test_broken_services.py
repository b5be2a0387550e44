"""A worker service that does not stay ends the command that waits for it, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.desk import Desk
from tests.support.ports import unused_port

_CRASH = """
import os, sys
if "worker_service" in sys.orig_argv:
    {how}
"""
_MISTAKE = {"LLM_DO_ISOLATION": "sometimes"}


@pytest.fixture
def small(desk: Desk) -> Desk:
    """A workshop with one worker, whose model is never asked."""
    desk.workshop = desk.workshop.parent / "small"
    desk.workshop.mkdir()
    (desk.workshop / "workshop.yaml").write_text("name: small\nsandbox: {root: .}\n")
    desk.environment["OPENAI_API_KEY"] = "sk-of-nobody"
    (desk.workshop / "w.worker").write_text("---\ndescription: Fine.\nmodel: openai:gpt-5\n---\nSay hi.\n")
    return desk


def broken(desk: Desk, folder: Path, how: str) -> None:
    """Have every worker service of this desk end before it begins."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_CRASH.format(how=how))
    desk.environment["PYTHONPATH"] = os.pathsep.join((str(folder), desk.environment.get("PYTHONPATH", "")))


@pytest.mark.thorough
def test_a_setting_that_no_service_can_have_is_reported_where_the_run_is_awaited(small: Desk) -> None:
    small.environment |= _MISTAKE

    told = small.type("start", "w", "hi", code=2).stderr

    assert "the worker service ended at its start (exit code 2): " in told
    assert "LLM_DO_ISOLATION is 'required' or 'preferred', not 'sometimes'" in told
    assert "Traceback" not in told


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("os.write(2, b'ImportError: no module\\n'); os._exit(1)", "(exit code 1): ImportError: no module"),
        ("os.kill(os.getpid(), 9)", "(signal SIGKILL): no reason given"),
    ],
)
def test_a_service_that_ends_each_time_is_not_started_for_ever(
    small: Desk, tmp_path: Path, how: str, reason: str
) -> None:
    broken(small, tmp_path / "broken", how)

    told = small.type("start", "w", "hi", code=2).stderr

    assert f"the worker service ended 5 times in a row {reason}" in told
    assert "Traceback" not in told


@pytest.mark.thorough
def test_a_host_in_the_foreground_ends_with_the_reason(small: Desk) -> None:
    small.environment |= _MISTAKE

    host = small.begin("dev", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    _, told = host.communicate(timeout=PATIENCE_SECONDS)

    assert host.returncode == 2
    assert "the worker service ended at its start" in told
    assert "Traceback" not in told
