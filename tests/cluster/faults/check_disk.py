"""Part of `make cluster-faults`: the disk of the object store is full while runs are at work."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.faults.clerk import Clerks
from tests.cluster.faults.stack import NO_CONNECTION, FaultStack

DISK_MIB = 64
TOO_LONG = "A long prompt. " * 30_000
"""More than a history takes: 256 KiB."""
_MOUNT = f'mount -t tmpfs -o size={DISK_MIB}m,mode=700 tmpfs "$1" && mkdir "$1/llm-do" && shift && exec "$@"'


def on_small_disk(folder: Path) -> list[str]:
    """The words that go before a command for which alone there is a small, empty disk at this folder."""
    as_root = () if os.geteuid() == 0 else ("--map-root-user",)
    return ["unshare", "--mount", *as_root, "sh", "-c", _MOUNT, "sh", str(folder)]


def fill(folder: Path) -> Path:
    """Take all room that is left in a folder, and return the file that has it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error  # noqa: PT017 - it is how the loop ends
    return filler


@pytest.fixture
def disk(stack: FaultStack, tmp_path: Path) -> Iterator[Path]:
    """The small disk of the object store, as it is seen from here."""
    try:
        tried = subprocess.run([*on_small_disk(tmp_path), "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"NOT RUN: there is no small disk to fill: {error}")
    if tried.returncode != 0:
        pytest.skip(f"NOT RUN: there is no small disk to fill, which needs root or user namespaces: {tried.stderr}")
    store, folder = stack.cluster.processes["blobs"], stack.folder / "blobs"
    usual = store.command
    store.stop()
    store.command = [*on_small_disk(folder), *usual]
    store.start()
    store.await_well()
    yield Path(f"/proc/{store.pid}/root{folder}")
    store.stop()
    store.command = usual


def test_runs_wait_while_the_disk_of_the_blobs_is_full(stack: FaultStack, disk: Path) -> None:
    clerks = Clerks.begin(stack, "full", 2, is_long=True)
    filler = fill(disk)
    # Their commands have more to say than a history takes.
    clerks.end()
    (prompts := stack.folder / "prompts.txt").write_text(TOO_LONG)
    told = stack.ours("start", "clerk", "--each-line", str(prompts), "--id", "refused", "--detach", check=False)
    assert told.returncode == NO_CONNECTION, told.stderr
    assert clerks.open_runs() == set(clerks.runs)
    assert len(clerks.lines("begin")) == len(clerks.runs)
    filler.unlink()
    clerks.finish()
