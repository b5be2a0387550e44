"""How commands find out who serves a workshop, without getting in each other's way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.client.embedded import server
from llm_do_temporal.client.embedded.server import (
    HostInfo,
    HostUse,
    arrived_host,
    end_lesser_host,
    host_lock_is_free,
    locked,
    process_exists,
    running_host,
    state_folder,
    write_host_info,
)
from llm_do_temporal.errors import ConnectionFailed


def info(pid: int) -> HostInfo:
    return HostInfo(pid=pid, address="127.0.0.1:1", ui=None, kind="background")


@pytest.fixture
def finished_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_host_that_holds_the_lock_is_found(tmp_path: Path) -> None:
    with locked(state_folder(tmp_path) / "host.lock"):
        write_host_info(tmp_path, info(os.getpid()))
        assert running_host(tmp_path) == info(os.getpid())


def test_a_host_that_was_killed_is_not_found_by_the_file_it_left(tmp_path: Path) -> None:
    write_host_info(tmp_path, info(os.getpid()))
    assert running_host(tmp_path) is None


def test_a_host_that_arrives_is_not_taken_for_the_one_that_was_killed(tmp_path: Path, finished_pid: int) -> None:
    write_host_info(tmp_path, info(finished_pid))
    with locked(state_folder(tmp_path) / "host.lock"):
        assert running_host(tmp_path) is None


@pytest.mark.parametrize(
    ("has", "needs", "ends"),
    [
        ("reading", "reading", False),
        ("reading", "decision", True),
        ("reading", "work", True),
        ("decision", "reading", False),
        ("decision", "work", True),
        ("work", "reading", False),
        ("work", "work", False),
    ],
)
def test_a_host_that_is_not_enough_for_a_command_ends(has: HostUse, needs: HostUse, *, ends: bool) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert end_lesser_host(replace(info(process.pid), use=has), needs) is ends
        if ends:
            assert process.wait(60) == -signal.SIGTERM
        assert (process.poll() is None) is not ends
    finally:
        process.kill()
        process.wait()


DAMAGED: list[Any] = [
    "",
    "{",
    "\ufeff\x00",
    "[1]",
    "null",
    {},
    {"pid": 0},
    {"pid": -1},
    {"pid": True},
    {"pid": "12"},
    {"pid": 1.0},
    {"pid": None},
    {"pid": 10**30},
    {"address": None},
    {"address": "example.com:7233"},
    {"address": "127.0.0.1:"},
    {"address": "127.0.0.1:0"},
    {"address": "127.0.0.1:9999999999"},
    {"kind": "other"},
    {"use": "other"},
    {"use": ["work"]},
    {"ui": 5},
]


@pytest.mark.parametrize("told", DAMAGED)
async def test_a_damaged_description_is_no_host_and_is_named_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | dict[str, Any]
) -> None:
    monkeypatch.setattr(server, "START_SECONDS", 0)
    whole = json.dumps(asdict(info(os.getpid())) | told) if isinstance(told, dict) and told else told or ""
    folder = state_folder(tmp_path)
    (folder / "host.json").write_text(str(whole), encoding="utf-8")
    with locked(folder / "host.lock"):
        assert running_host(tmp_path) is None
        with pytest.raises(ConnectionFailed, match=r"\.llm-do/host\.json is damaged: it") as found:
            await arrived_host(tmp_path)
    assert found.value.next_step is not None
    assert await arrived_host(tmp_path) is None


def test_a_process_of_another_account_is_one_that_runs() -> None:
    if os.getuid() != 0:
        assert process_exists(1)
        return
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setuid(65_534)
            code = 0 if process_exists(os.getppid()) else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_that_has_ended_does_not_run(finished_pid: int) -> None:
    assert not process_exists(finished_pid)


def test_commands_that_look_at_the_same_moment_do_not_take_each_other_for_a_host(tmp_path: Path) -> None:
    folder = state_folder(tmp_path)
    with locked(folder / "host.lock", shared=True):
        assert host_lock_is_free(folder)
    with locked(folder / "host.lock"):
        assert not host_lock_is_free(folder)


def test_the_product_s_own_folder_stays_out_of_version_control(tmp_path: Path) -> None:
    assert (state_folder(tmp_path) / ".gitignore").read_text() == "*\n"
