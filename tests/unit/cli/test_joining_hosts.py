"""How commands find out who serves a workshop, without getting in each other's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.server import (
    HostInfo,
    host_lock_is_free,
    locked,
    running_host,
    state_folder,
    write_host_info,
)


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


def test_commands_that_look_at_the_same_moment_do_not_take_each_other_for_a_host(tmp_path: Path) -> None:
    folder = state_folder(tmp_path)
    with locked(folder / "host.lock", shared=True):
        assert host_lock_is_free(folder)
    with locked(folder / "host.lock"):
        assert not host_lock_is_free(folder)


def test_the_product_s_own_folder_stays_out_of_version_control(tmp_path: Path) -> None:
    assert (state_folder(tmp_path) / ".gitignore").read_text() == "*\n"
