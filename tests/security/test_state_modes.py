"""`.llm-do` and what is in it: for the owner alone, whatever the umask, and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.host import Host, HostSettings, spawn
from llm_do_temporal.client.embedded.server import HostInfo, embedded_server, locked, state_folder, write_host_info
from llm_do_temporal.client.embedded.single_file import single_file_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.private_files import check_database, close_to_others, faults, mend_modes, write_private

OTHERS = 0o077


@pytest.fixture(params=[0o000, 0o022, 0o002, 0o777 ^ 0o700], ids=lambda mask: f"umask-{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """One that lets others read, or write, too."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Those of everything in the folder, and its own; without what goes meanwhile, as a database's journal does."""
    found: dict[str, int] = {}
    for one in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):
            found[str(one.relative_to(folder.parent))] = stat.S_IMODE(one.lstat().st_mode)
    return found


def is_closed(folder: Path) -> bool:
    return not any(mode & OTHERS for mode in modes(folder).values())


def by_a_command(workshop: Path) -> None:
    state_folder(workshop)


def by_a_blob(workshop: Path) -> None:
    LocalBlobStore(blob_folder(workshop)).put_bytes(b"said in confidence")


def by_a_lock(workshop: Path) -> None:
    with locked(state_folder(workshop) / "host.lock"):
        pass


def by_a_host(workshop: Path) -> None:
    write_host_info(workshop, HostInfo(1, "127.0.0.1:7233", None, "dev"))


def by_a_log(workshop: Path) -> None:
    spawn(["true"], state_folder(workshop) / "server.log").wait()


def by_a_server(workshop: Path) -> None:
    database = state_folder(workshop) / "temporal.db"
    spawn(["touch", str(database), f"{database}-wal"], state_folder(workshop) / "server.log", private=True).wait()


WAYS = [by_a_command, by_a_blob, by_a_lock, by_a_host, by_a_log, by_a_server]


@pytest.mark.parametrize("make", WAYS)
def test_what_is_made_is_its_owners_alone(make: Callable[[Path], None], tmp_path: Path, umask: int) -> None:
    make(tmp_path)
    assert is_closed(tmp_path / ".llm-do"), modes(tmp_path / ".llm-do")


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777, 0o2775, 0o711, 0o701, 0o770])
def test_a_folder_that_was_there_is_mended_with_all_that_is_in_it(mode: int, tmp_path: Path) -> None:
    state = tmp_path / ".llm-do"
    (state / "blobs" / "sha256" / "ab").mkdir(parents=True)
    for name in ("temporal.db", "service.log", "blobs/sha256/ab/x"):
        (state / name).write_text("said in confidence")
        (state / name).chmod(0o666)
    (state / "blobs").chmod(0o777)
    state.chmod(mode)
    assert faults(state)
    state_folder(tmp_path)
    assert is_closed(state), modes(state)
    assert not faults(state)


@pytest.mark.parametrize("name", ["temporal.db", "temporal.db-wal", "host.json", "server.log", "blobs/sha256/ab/x"])
def test_a_file_of_another_mode_in_a_closed_folder_is_mended_where_a_server_starts(name: str, tmp_path: Path) -> None:
    file = state_folder(tmp_path) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("said in confidence")
    file.chmod(0o644)
    mend_modes(tmp_path / ".llm-do")
    assert is_closed(tmp_path / ".llm-do")


@pytest.mark.parametrize("target", ["elsewhere", "/tmp", "missing", ".", "../"])
@pytest.mark.parametrize("enter", [state_folder, close_to_others])
def test_a_link_in_its_place_is_refused(enter: Callable[[Path], object], target: str, tmp_path: Path) -> None:
    workshop = tmp_path / "workshop"
    (workshop / "elsewhere").mkdir(parents=True, mode=0o755)
    (workshop / ".llm-do").symlink_to(target)
    with pytest.raises(UsageError, match="is a link"):
        enter(workshop)
    assert list((workshop / "elsewhere").iterdir()) == []


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".llm-do").write_text("")
    with pytest.raises(UsageError, match="is no folder"):
        state_folder(tmp_path)


@pytest.mark.extension("maintenance")
def test_a_folder_of_somebody_else_is_refused_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_do_temporal.extensions.maintenance.doctor import examine_state

    (tmp_path / ".llm-do").mkdir(mode=0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageError, match="belongs to another account"):
        state_folder(tmp_path)
    assert stat.S_IMODE((tmp_path / ".llm-do").stat().st_mode) == 0o755
    (found,) = examine_state(tmp_path)
    assert found.status == "error"
    assert "belongs to another account" in found.message


@pytest.mark.parametrize("name", ["host.lock", "users.lock"])
def test_no_lock_is_taken_through_a_link(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (state_folder(tmp_path) / name).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a link"), locked(tmp_path / ".llm-do" / name):
        pass


@pytest.mark.parametrize("name", ["server.log", "service.log"])
def test_no_log_is_written_through_a_link(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (state_folder(tmp_path) / name).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a link"):
        spawn(["echo", "written"], tmp_path / ".llm-do" / name)
    assert (tmp_path / "mine").read_text() == "kept"


@pytest.mark.parametrize("name", ["temporal.db", "temporal.db-wal", "temporal.db-shm", "temporal.db-journal"])
async def test_no_database_is_kept_behind_a_link(name: str, tmp_path: Path) -> None:
    (state_folder(tmp_path) / name).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a link"):
        check_database(tmp_path / ".llm-do")
    with pytest.raises(UsageError, match="is a link"):
        await Host(HostSettings(tmp_path)).run()
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("name", ["host.json", "host.json.tmp", ".gitignore"])
def test_what_is_written_replaces_a_link_and_not_what_it_leads_to(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (tmp_path / ".llm-do").mkdir()
    (tmp_path / ".llm-do" / name).symlink_to(tmp_path / "mine")
    write_host_info(tmp_path, HostInfo(1, "127.0.0.1:7233", None, "dev"))
    write_private(tmp_path / ".llm-do" / ".gitignore", "*\n")
    assert (tmp_path / "mine").read_text() == "kept"


def test_the_state_of_a_single_file_is_closed_too(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "w.worker").write_text("---\n---\nHello.\n")
    folder = single_file_workshop(tmp_path / "w.worker")
    state_folder(folder)
    assert is_closed(folder / ".llm-do")
    assert not stat.S_IMODE(folder.stat().st_mode) & OTHERS


@pytest.mark.extension("maintenance")
def test_doctor_says_what_was_open(tmp_path: Path) -> None:
    from llm_do_temporal.extensions.maintenance.doctor import examine_state

    state = state_folder(tmp_path)
    (state / "service.log").write_text("")
    (state / "service.log").chmod(0o644)
    state.chmod(0o755)
    (found,) = examine_state(tmp_path)
    assert found.status == "warning"
    assert "'.llm-do' and 1 more let other accounts of this machine in" in found.message
    assert examine_state(tmp_path) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mask", [0o000, 0o022])
async def test_a_real_server_keeps_all_to_its_owner(mask: int, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("name: test\nsandbox: {root: .}\n")
    before = os.umask(mask)
    try:
        async with embedded_server(tmp_path):
            found = modes(tmp_path / ".llm-do")
    finally:
        os.umask(before)
    assert {".llm-do/temporal.db", ".llm-do/server.log", ".llm-do/host.json", ".llm-do/host.lock"} <= found.keys()
    assert not {name: oct(mode) for name, mode in found.items() if mode & OTHERS}


@pytest.mark.control
def test_other_children_make_files_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        spawn(["touch", str(tmp_path / "report.md")], tmp_path / "log").wait()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.md").stat().st_mode) == 0o644
