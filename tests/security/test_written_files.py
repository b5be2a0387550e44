"""What a command writes lands in an ordinary file where it was told to, and nowhere else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from llm_do_temporal.cli.files import check_place, write_whole
from llm_do_temporal.client.traces import TraceFile, make_trace_folder
from llm_do_temporal.definitions.starter import WORKER, make_workshop
from llm_do_temporal.errors import LlmDoError, UsageError

KEPT = "this is somebody's"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Trap = Callable[[Path, Path], None]
WORKER_FILE = f"workers/{WORKER}.worker"


def _socket(place: Path, _other: Path) -> None:
    here = Path.cwd()
    os.chdir(place.parent)  # names of sockets are short
    try:
        socket.socket(socket.AF_UNIX).bind(place.name)
    finally:
        os.chdir(here)


def _device(place: Path, _other: Path) -> None:
    try:
        os.mknod(place, 0o600 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


def _block_device(place: Path, _other: Path) -> None:
    try:
        os.mknod(place, 0o600 | 0o060000, os.makedev(7, 250))
    except PermissionError:
        pytest.skip("only root makes devices")


def _link_to_link(place: Path, other: Path) -> None:
    middle = place.with_name("middle")
    middle.symlink_to(other)
    place.symlink_to(middle)


TRAPS: dict[str, Trap] = {
    "a link to a file": lambda place, other: place.symlink_to(other),
    "a link to a link": _link_to_link,
    "a relative link": lambda place, other: place.symlink_to(os.path.relpath(other, place.parent)),
    "a link to nothing": lambda place, _: place.symlink_to("/nowhere/at/all"),
    "a link to a device": lambda place, _: place.symlink_to("/dev/null"),
    "a link to a folder": lambda place, other: place.symlink_to(other.parent),
    "a link to itself": lambda place, _: place.symlink_to(place),
    "a link to a descriptor": lambda place, _: place.symlink_to("/proc/self/fd/1"),
    "a pipe": lambda place, _: os.mkfifo(place),
    "a socket": _socket,
    "a device": _device,
    "a block device": _block_device,
    "a folder": lambda place, _: place.mkdir(),
}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A file of somebody else."""
    folder = tmp_path / "other"
    folder.mkdir()
    file = folder / "kept.txt"
    file.write_text(KEPT)
    return file


def state(folder: Path) -> list[tuple[str, int, int]]:
    """Everything in a folder, and what it is."""
    return sorted((str(one), one.lstat().st_mode, one.lstat().st_ino) for one in folder.rglob("*"))


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.extension("export")
async def test_export_replaces_nothing_but_a_file(tmp_path: Path, other: Path, trap: Trap) -> None:
    from llm_do_temporal.extensions.export.command import export

    place = tmp_path / "out.md"
    trap(place, other)
    before = state(tmp_path)
    with pytest.raises(UsageError, match=r"out\.md"):
        await export("run-1", output=place)
    with pytest.raises(UsageError):
        write_whole(place, "text", "--output")
    assert state(tmp_path) == before
    assert other.read_text() == KEPT  # noqa: ASYNC240 - a test


@pytest.mark.parametrize(
    "place", ["/dev/null", "/dev/stdout", "/dev/full", "/dev/fd/1", "/proc/self/fd/1", "/", "..", ""]
)
@pytest.mark.extension("export")
async def test_export_leaves_the_system_alone(place: str) -> None:
    from llm_do_temporal.extensions.export.command import export

    before = _null()
    with pytest.raises(UsageError):
        await export("run-1", output=Path(place))
    assert _null() == before


def _null() -> tuple[int, int]:
    found = Path("/dev/null").lstat()
    return found.st_mode, found.st_ino


@pytest.mark.parametrize("place", ["missing/out.md", "file.txt/out.md", "x" * 300 + ".md"])
def test_export_writes_into_no_other_place(tmp_path: Path, place: str) -> None:
    (tmp_path / "file.txt").write_text(KEPT)
    before = state(tmp_path)
    with pytest.raises(UsageError):
        write_whole(tmp_path / place, "text", "--output")
    assert state(tmp_path) == before


def test_a_file_that_becomes_a_link_meanwhile_is_left(tmp_path: Path, other: Path) -> None:
    place = tmp_path / "out.md"
    check_place(place, "--output")
    place.symlink_to(other)
    with pytest.raises(UsageError, match="is a link"):
        write_whole(place, "text", "--output")
    assert other.read_text() == KEPT


@pytest.mark.parametrize("trap", [trap for name, trap in TRAPS.items() if name != "a folder"])
def test_traces_go_into_a_folder_and_through_no_link(tmp_path: Path, other: Path, trap: Trap) -> None:
    place = tmp_path / "traces"
    trap(place, other)
    before = state(tmp_path)
    with pytest.raises(UsageError, match="traces"):
        make_trace_folder(place)
    with pytest.raises(UsageError, match="traces"):
        TraceFile(place, "run-1", NOW)
    assert state(tmp_path) == before


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_a_trace_is_a_new_file_beside_whatever_has_its_name(tmp_path: Path, other: Path, trap: Trap) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    trap(folder / "run-1-20260301T000000Z.jsonl", other)
    made = TraceFile(folder, "run-1", NOW)
    made.close()
    assert made.path.name == "run-1-20260301T000000Z-2.jsonl"
    assert other.read_text() == KEPT


@pytest.mark.parametrize("run", ["../../other/kept.txt", "/etc/passwd", "..", "a/b", "a\0b", ".hidden", "x" * 500])
def test_the_name_of_a_run_leads_a_trace_nowhere_else(tmp_path: Path, run: str) -> None:
    made = TraceFile(tmp_path, run, NOW)
    made.close()
    assert made.path.parent == tmp_path
    assert [one.name for one in tmp_path.iterdir()] == [made.path.name]


@pytest.mark.parametrize(
    ("kind", "name"),
    # A folder of workers is what a workshop has.
    [one for one in product(TRAPS, ("workshop.yaml", WORKER_FILE, "workers")) if one != ("a folder", "workers")],
)
def test_init_writes_through_nothing_that_is_there(tmp_path: Path, other: Path, kind: str, name: str) -> None:
    place = tmp_path / "workshop"
    (place / name).parent.mkdir(parents=True)
    TRAPS[kind](place / name, other)
    before = state(tmp_path)
    with pytest.raises(LlmDoError):
        make_workshop(place)
    assert state(tmp_path) == before
    assert other.read_text() == KEPT


@pytest.mark.parametrize("trap", [trap for name, trap in TRAPS.items() if name != "a folder"])
def test_init_makes_no_workshop_in_what_is_no_folder(tmp_path: Path, other: Path, trap: Trap) -> None:
    trap(tmp_path / "workshop", other)
    before = state(tmp_path)
    with pytest.raises(LlmDoError):
        make_workshop(tmp_path / "workshop")
    assert state(tmp_path) == before


@pytest.mark.control
def test_a_file_is_replaced_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    place = tmp_path / "out.md"
    for text in ("one", "two"):
        write_whole(place, text, "--output")
        assert place.read_text() == text
    assert place.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["out.md"]


@pytest.mark.control
def test_a_workshop_is_made_in_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / ".gitignore").symlink_to("shared-ignore")
    assert {WORKER_FILE, "workshop.yaml"} <= set(make_workshop(tmp_path))
    assert (tmp_path / ".gitignore").is_symlink()
