"""Nothing leads out of a mount: links of every kind, our own state, and folders swapped while they are used."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import resource
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.messages.activities import ReadFileInput
from llm_do_temporal.policy.files.sandbox import Mount, WorkerSandbox, WorkshopSandbox, locate, narrow, root_tree
from llm_do_temporal.sandbox.changes import see_file
from llm_do_temporal.sandbox.processes import ProcessSpec, run_program
from llm_do_temporal.sandbox.safe_open import MAX_LINKS, OpenBelow, WorkshopFolder
from tests.support.workshops.file_tree import WHOLE, Files, assert_failed, assert_refused

LEADS_OUT = "leads out of this worker's files"
NOT_THROUGH = "nothing is written through links"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("a.txt", "real/b.txt"),
        ("real/a.txt", "b.txt"),
        ("real/up.txt", "../real/./b.txt"),
        ("deep/er/a.txt", "../../real/b.txt"),
        ("chain.txt", "chain2.txt"),
    ],
)
def test_links_that_stay_inside_are_followed(files: Files, link: str, target: str) -> None:
    files.put("real/b.txt", "inside")
    (files.workshop / "chain2.txt").symlink_to("real/b.txt")
    path = files.workshop / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    assert files.read(link).content == "inside"


def test_a_link_to_a_folder_is_followed_on_the_way_when_reading(files: Files) -> None:
    files.put("real/sub/b.txt", "inside")
    (files.workshop / "short").symlink_to("real/sub")
    assert files.read("short/b.txt").content == "inside"


@pytest.mark.parametrize("target", ["../outside", "../workshop/../outside", "real/../../outside", "{outside}", "/"])
def test_links_that_lead_out_are_refused(files: Files, outside: Path, target: str) -> None:
    files.put("real/b.txt")
    (files.workshop / "link").symlink_to(target.format(outside=outside))
    assert_refused(files.read, "link/secret.txt", says=LEADS_OUT)
    assert_refused(files.list, "link", says=LEADS_OUT)
    for call in (files.write, files.preview_write):
        assert_refused(call, "link/new.txt", "text", says=NOT_THROUGH)
    for call in (files.edit, files.preview_edit):
        assert_refused(call, "link/secret.txt", "secret", "known", says=NOT_THROUGH)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"secret.txt": "secret"}


@pytest.mark.parametrize("target", ["../outside/secret.txt", "{outside}/secret.txt", "../outside/new.txt"])
def test_a_file_that_is_a_link_out_is_refused(files: Files, outside: Path, target: str) -> None:
    (files.workshop / "a.txt").symlink_to(target.format(outside=outside))
    assert_refused(files.read, "a.txt", says=LEADS_OUT)
    assert_refused(files.write, "a.txt", "text", says=NOT_THROUGH)
    assert (files.workshop / "a.txt").is_symlink()
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_an_absolute_link_is_refused_even_where_it_comes_back(files: Files) -> None:
    file = files.put("b.txt")
    (files.workshop / "a.txt").symlink_to(file)
    assert_refused(files.read, "a.txt", says=LEADS_OUT)


def test_a_link_out_of_a_mount_is_refused_though_it_stays_in_the_workshop(files: Files) -> None:
    files.put("secret/key.txt")
    files.put("data/a.txt")
    (files.workshop / "data/key.txt").symlink_to("../secret/key.txt")
    assert_refused(files.seen_through(Mount(at="/data", root="data")).read, "/data/key.txt", says=LEADS_OUT)
    assert files.read("data/key.txt").content == "x"


def test_a_kernel_link_into_a_process_is_refused(files: Files, outside: Path) -> None:
    descriptor = os.open(outside, os.O_RDONLY)
    try:
        (files.workshop / "fd").symlink_to(f"/proc/self/fd/{descriptor}")
        assert_refused(files.read, "fd/secret.txt", says=LEADS_OUT)
    finally:
        os.close(descriptor)


def test_links_in_a_circle_end(files: Files) -> None:
    (files.workshop / "a").symlink_to("b")
    (files.workshop / "b").symlink_to("a")
    (files.workshop / "here").symlink_to("here/here")
    for path in ("a", "a/x", "here"):
        assert_refused(files.read, path, says="symbolic link")


def test_a_long_chain_of_links_is_given_up(files: Files) -> None:
    files.put("0", "end")
    for number in range(MAX_LINKS + 1):
        (files.workshop / str(number + 1)).symlink_to(str(number))
    assert files.read(str(MAX_LINKS)).content == "end"
    assert_refused(files.read, str(MAX_LINKS + 1), says="symbolic link")


@pytest.mark.parametrize(
    ("link", "target"), [("a.txt", "real/b.txt"), ("new.txt", "made/later.txt"), ("short", "real")]
)
def test_nothing_is_written_through_a_link_inside(files: Files, link: str, target: str) -> None:
    files.put("real/b.txt", "old")
    (files.workshop / link).symlink_to(target)
    path = f"{link}/b.txt" if link == "short" else link
    for call in (files.write, files.preview_write):
        assert_refused(call, path, "new", says=NOT_THROUGH)
    for call in (files.edit, files.preview_edit):
        assert_refused(call, path, "old", "new", says=NOT_THROUGH)
    assert (files.workshop / link).is_symlink()
    assert (files.workshop / "real/b.txt").read_text() == "old"
    assert not (files.workshop / "made").exists()


@pytest.mark.parametrize("relative", ["../outside/secret.txt", "/etc/passwd", "a/../../outside/secret.txt", ".."])
def test_a_path_that_policy_never_saw_leads_nowhere_either(files: Files, outside: Path, relative: str) -> None:
    def read(relative: str) -> object:
        asked = ReadFileInput(mount=files.tree.mounts[0], relative=relative, path="/x", max_chars=9, offset=0)
        return files.run(files.activities.read_file, asked)

    assert_refused(read, relative, says=LEADS_OUT)
    assert outside.is_dir()


@pytest.mark.parametrize("root", ["../outside", "link", "/", "real/../../outside"])
def test_a_mount_lies_inside_the_workshop(files: Files, outside: Path, root: str) -> None:
    (files.workshop / "link").symlink_to(outside)
    files.put("real/a.txt")
    for base in (".", root):
        mounted = files.seen_through(Mount(at="/", root=root, base=base))
        assert_refused(mounted.read, "secret.txt", says="leads out")
        assert_refused(
            mounted.write, "new.txt", "text", says="leads out" if (base, root) != (".", "link") else NOT_THROUGH
        )
        assert_refused(mounted.list, "/", says="leads out")
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_the_authors_own_root_may_be_a_link_inside_the_workshop(files: Files) -> None:
    files.put("store/2026/a.txt", "inside")
    (files.workshop / "data").symlink_to("store/2026")
    through = files.seen_through(*root_tree(WorkshopSandbox(root="data")).mounts)
    assert through.read("a.txt").content == "inside"
    assert through.names() == ["/a.txt"]


def test_a_narrower_tree_does_not_begin_at_a_link(files: Files) -> None:
    files.put("data/open/a.txt", "fine")
    files.put("secret/key.txt", "key")
    (files.workshop / "data/src").symlink_to("../secret")
    tree = root_tree(WorkshopSandbox(root="data"))
    for asked in (
        WorkerSandbox(restrict="/src"),
        WorkerSandbox.model_validate({"paths": {"src": {"root": "data/src"}}}),
    ):
        narrower = files.seen_through(*narrow(tree, asked, workshop_has_sandbox=True).mounts)
        assert_refused(narrower.read, "/src/key.txt", says="leads out")
        assert_refused(narrower.list, "/src", says="leads out")


@pytest.mark.parametrize(
    "path", [".llm-do", ".llm-do/db.sqlite", ".LLM-DO/db.sqlite", "state/db.sqlite", "db", "sub/.llm-do/x"]
)
def test_our_own_state_is_out_of_reach(files: Files, path: str) -> None:
    files.put(".llm-do/db.sqlite", "state")
    files.put("sub/.llm-do/x", "state of a workshop further down")
    (files.workshop / "state").symlink_to(".llm-do")
    (files.workshop / "db").symlink_to(".llm-do/db.sqlite")
    assert_refused(files.read, path, says="where llm-do-temporal keeps its own state")
    written = "its own state" if ".llm-do" in path.lower() else NOT_THROUGH
    assert_refused(files.write, path, "mine", says=written)
    assert (files.workshop / ".llm-do/db.sqlite").read_text() == "state"


def test_no_mount_and_no_link_makes_our_own_state_reachable_or_creates_it(files: Files) -> None:
    (files.workshop / "here").symlink_to(".")
    assert_refused(files.write, "here/.llm-do/x", "mine", says="its own state")
    assert_refused(files.write, "here", "mine", says=NOT_THROUGH)
    mounted = files.seen_through(Mount(at="/", root=".llm-do", base=".llm-do"))
    assert_refused(mounted.write, "x", "mine", says="its own state")
    assert_refused(mounted.list, "/", says="its own state")
    assert not (files.workshop / ".llm-do/x").exists()


def test_a_folder_swapped_for_a_link_after_the_preview_is_refused(files: Files, outside: Path) -> None:
    files.put("notes/a.txt", "old")
    assert files.preview_write("notes/b.txt", "new").created
    assert files.preview_edit("notes/a.txt", "old", "new").diff
    (files.workshop / "notes").rename(files.workshop / "moved")
    (files.workshop / "notes").symlink_to(outside)
    assert_refused(files.write, "notes/b.txt", "new", says=NOT_THROUGH)
    assert_refused(files.edit, "notes/a.txt", "old", "new", says=NOT_THROUGH)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_a_file_swapped_for_a_link_after_the_preview_is_refused(files: Files, outside: Path) -> None:
    file = files.put("a.txt", "secret")
    assert files.preview_edit("a.txt", "secret", "known").diff
    file.unlink()
    file.symlink_to(outside / "secret.txt")
    assert_refused(files.edit, "a.txt", "secret", "known", says=NOT_THROUGH)
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_folder_that_keeps_turning_into_a_link_never_lets_anything_out(files: Files, outside: Path) -> None:
    files.put("swap/secret.txt", "inside")
    swap, aside, stop = files.workshop / "swap", files.workshop / "aside", threading.Event()

    def keep_swapping() -> None:
        while not stop.is_set():
            # A write may have made the folder anew while it was away.
            with suppress(OSError):
                if aside.exists():
                    shutil.rmtree(swap, ignore_errors=True)
                    aside.rename(swap)
                swap.rename(aside)
                swap.symlink_to(outside)
                swap.unlink()
                aside.rename(swap)

    swapping = threading.Thread(target=keep_swapping)
    swapping.start()
    seen: set[str] = set()
    try:
        for number in range(300):
            with suppress(ApplicationError):
                seen.add(files.read("swap/secret.txt").content)
            with suppress(ApplicationError):
                files.write("swap/new.txt", str(number))
    finally:
        stop.set()
        swapping.join()
    assert seen <= {"inside"}
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("link", errno.ELOOP),
        ("link/x", errno.ELOOP),
        ("real/link", errno.ELOOP),
        ("..", errno.EXDEV),
        ("real/../..", errno.EXDEV),
        ("/etc", errno.EXDEV),
        ("real/x", errno.ENOENT),
        ("file/x", errno.ENOTDIR),
    ],
)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDONLY | os.O_DIRECTORY])
def test_opening_follows_no_link_at_all(
    tmp_path: Path, open_below: OpenBelow, path: str, number: int, flags: int
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/link").symlink_to("../real")
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        os.close(open_below(root, "real", flags))
        os.close(open_below(root, ".", flags))
        with pytest.raises(OSError, match=re.escape(os.strerror(number))) as refused:
            open_below(root, path, flags)
        assert refused.value.errno == number
    finally:
        os.close(root)


def open_files() -> list[str]:
    """The paths of all files and folders that this process has open; what other tests have left is closed before."""
    gc.collect()
    found: list[str] = []
    for descriptor in Path("/dev/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the list itself
            found.append(str(descriptor.readlink()))
    return sorted(path for path in found if path.startswith("/"))


@pytest.mark.sampled(1)
def test_no_descriptor_is_left_open(files: Files, outside: Path) -> None:
    files.put("a/b.txt", "text")
    (files.workshop / "out").symlink_to(outside)
    before = open_files()
    for _ in range(20):
        files.read("a/b.txt")
        files.write("c/d.txt", "text")
        files.list()
        assert_refused(files.read, "out/x", says=LEADS_OUT)
        assert_failed(files.read, "a", says="is a folder")
        assert_failed(files.edit, "none/x", "a", "b", says="does not exist")
    assert open_files() == before


def test_a_link_that_leads_through_very_many_folders_is_given_up(files: Files) -> None:
    files.put("real/b.txt", "inside")
    (files.workshop / "far.txt").symlink_to("real/../" * 200 + "real/b.txt")
    assert_refused(files.read, "far.txt", says="symbolic link")


def open_numbers() -> set[str]:
    """Return the numbers of the open files of this process; one that is closed meanwhile does not count."""
    folder = Path("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd")
    return {one.name for one in folder.iterdir() if os.path.lexists(one)}


@contextmanager
def room_for(files: int) -> Generator[None]:
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, open_numbers())) + 20, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(files):
            os.close(taken.pop())
        yield
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("room", range(12))
async def test_a_program_that_could_not_be_started_leaves_no_file_open(room: int, *, supervised: bool) -> None:
    program = ProcessSpec(argv=("true",), folder="/", environment={"PATH": os.defpath}, supervised=supervised)
    (await run_program(program, timeout_seconds=60)).close()
    gc.collect()
    before = open_numbers()
    with room_for(room), suppress(OSError):
        (await run_program(program, timeout_seconds=60)).close()
    # Transports close their files in the next round of the loop.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert open_numbers() == before


def failing_with(number: int) -> WorkshopFolder:
    """A folder in which nothing can be opened."""

    def open_below(_folder: int, _path: str, _flags: int) -> int:
        raise OSError(number, os.strerror(number))

    return WorkshopFolder(Path.cwd(), open_below)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EXDEV, errno.ENXIO, errno.ELIBACC])
def test_a_file_that_cannot_be_read_is_seen_as_none(number: int) -> None:
    seen = see_file(failing_with(number), locate(WHOLE, "/a.txt"))
    assert (seen.path, seen.place, seen.sha256, seen.mode) == ("/a.txt", None, None, None)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_a_file_that_cannot_be_read_for_a_moment_is_not_taken_for_one_that_is_gone(number: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)):
        see_file(failing_with(number), locate(WHOLE, "/a.txt"))
