"""Hostile commands over layers: the way to the real files, to the product's own state, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.messages.activities import ShellResult
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import LayerUpdate, link_node
from llm_do_temporal.sandbox.layers.overlay import PREFIX, remove_folder, remove_leftovers, scratch_folder
from tests.support.workshops.layered import seen, text_file
from tests.support.workshops.layered_commands import HAS_OVERLAYS, LayeredCommands, layered_commands


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder for the temporary files of this test alone."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def commands(tmp_path: Path, scratch: Path) -> Generator[LayeredCommands]:
    """Commands after which the workshop is as it was, and nothing is left of them."""
    made = layered_commands(tmp_path)
    (made.folder / "src/.llm-do").mkdir()
    (made.folder / "src/.llm-do/state").write_text("inner state")
    before = {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}
    shape = seen(made.folder)
    yield made
    assert {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()} == before
    assert seen(made.folder) == shape
    made.grounds.close()
    assert list(scratch.iterdir()) == []


def _refused(result: ShellResult) -> str:
    """The remark of a command of which nothing was taken over."""
    assert result.layer == LayerUpdate()
    assert result.note is not None
    assert result.note.startswith("nothing that the command wrote was taken over: ")
    return result.note


if HAS_OVERLAYS:

    @pytest.mark.parametrize("readonly", [False, True])
    @pytest.mark.parametrize("paths", [None, ("/src", "/a.txt")])
    async def test_no_open_file_leads_to_the_real_folder(
        commands: LayeredCommands, readonly: bool, paths: tuple[str, ...] | None
    ) -> None:
        commands.tree = Tree(mounts=(Mount(at="/", root=".", readonly=readonly),))
        script = "for f in /proc/[0-9]*/fd/*; do [ -d $f ] && readlink $f; done; for n in 3 4 5 6 7 8 9; do "
        script += "echo pwned > /proc/self/fd/$n/a.txt; echo pwned > /proc/1/fd/$n/a.txt; done 2>/dev/null; true"
        said = await commands.sh(script, sandbox_paths=paths)
        assert said == ""
        assert commands.changes == {}

    @pytest.mark.thorough
    async def test_no_program_begins_while_a_folder_of_the_machine_is_open(commands: LayeredCommands) -> None:
        commands.tree = Tree(mounts=(Mount(at="/", root=".", readonly=True),))
        # The fastest program to look, in as many starts as a test has time for.
        for _ in range(60):
            said = (await commands.run("ls", "-l", "/proc/1/fd")).stdout.text
            assert [line for line in said.splitlines() if "-> /" in line and "-> /dev/" not in line] == []

    async def test_the_products_own_state_is_neither_seen_nor_written(commands: LayeredCommands) -> None:
        script = (
            "ls -A .llm-do src/.llm-do; cat .llm-do/state src/.llm-do/state; echo x > .llm-do/state; "
            "echo x > src/.llm-do/new; ln .llm-do/state a; ln -s .llm-do/state l; cat l; echo x > l; "
            "umount /llm-do/.llm-do; rmdir .llm-do; mv .llm-do shown; rm l"
        )
        said = (await commands.run("sh", "-c", script)).stdout.text
        assert said == ".llm-do:\n\nsrc/.llm-do:\n"
        assert commands.changes == {}

    @pytest.mark.parametrize(
        "script",
        [
            "mkdir docs/.llm-do; echo x > docs/.llm-do/server.db",
            "mkdir docs/.LLM-DO",
            "mv src moved",
            "cp -r src copied",
            "echo x > docs/.llm-do",
            "ln -s ../.llm-do docs/.llm-do",
        ],
    )
    async def test_no_state_of_the_product_is_made_in_a_layer(commands: LayeredCommands, script: str) -> None:
        result = await commands.run("sh", "-c", f"{script}; echo done")
        assert "keeps for its own files" in _refused(result)
        assert result.stdout.text == "done\n"
        assert commands.changes == {}

    async def test_a_link_out_leads_nowhere_and_stays_a_link(commands: LayeredCommands) -> None:
        host = commands.folder.parent
        (host / "secret").write_text("secret")
        script = f"ln -s {host}/secret out; ln -s ../../secret up; cat out up; echo x > out; echo x > up; true"
        said = await commands.run("sh", "-c", script)
        assert said.stdout.text == ""
        assert (host / "secret").read_text() == "secret"
        assert commands.changes["out"] == link_node(f"{host}/secret")
        assert (await commands.run("cat", "out")).stdout.text == ""

    async def test_neither_blobs_nor_scratch_folders_are_within_reach(commands: LayeredCommands) -> None:
        await commands.sh("echo x > src/new.py")
        script = (
            "find / -name new.py -not -path '/proc/*'; find / -type f -name a.txt -not -path '/proc/*'; ls -A /tmp; "
        )
        script += "mount -o remount,rw /; umount /llm-do"
        result = await commands.run("sh", "-c", script)
        assert result.stdout.text == "/src/new.py\n/a.txt\n"
        assert result.exit_code != 0

    @pytest.mark.parametrize(
        ("script", "says"),
        [
            ("mkfifo bad", "'bad' is neither a file nor a link nor a folder"),
            ("mknod bad p", "'bad' is neither a file nor a link nor a folder"),
            ("cp /bin/true bad; chmod 4755 bad", "'bad' would run with other rights"),
            ("chmod 2755 a.txt", "'a.txt' would run with other rights"),
            ("truncate -s 2G bad", "'bad' has more than"),
            ("touch $(printf 'bad\\377')", "is not UTF-8"),
            ("ln -s $(printf '\\377') bad", "is not UTF-8"),
        ],
    )
    async def test_what_no_layer_can_hold_leaves_the_layer_and_shows_what_was_printed(
        commands: LayeredCommands, script: str, says: str
    ) -> None:
        await commands.sh("echo before > before")
        result = await commands.run("sh", "-c", f"echo lost > lost; {script}; echo printed")
        assert says in _refused(result)
        assert (result.exit_code, result.stdout.text) == (0, "printed\n")
        assert commands.changes == {"before": text_file("before\n")}

    async def test_folders_deeper_than_any_path_are_refused_and_removed(commands: LayeredCommands) -> None:
        script = "import os\nfor _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')"
        result = await commands.run("python3", "-c", script)
        assert "lies in more than 200 folders" in _refused(result)
        assert await commands.sh("ls -A src/deep") == "three.py\n"

    @pytest.mark.parametrize("script", ["true", "rm -rf more", "mkdir new; echo x > one/two/new; rm one/two/new"])
    async def test_a_folder_that_another_one_is_mounted_in_is_no_change(commands: LayeredCommands, script: str) -> None:
        mounts = (("/", "src", False), ("/more", "docs", True), ("/one/two/three", "docs", True))
        commands.tree = Tree(mounts=tuple(Mount(at=at, root=root, readonly=fixed) for at, root, fixed in mounts))
        await commands.run("sh", "-c", f"cat more/a.md one/two/three/a.md; {script}")
        assert set(commands.changes) == ({"src/new"} if "new;" in script else set())

    async def test_files_with_several_names_are_told(commands: LayeredCommands) -> None:
        result = await commands.run("sh", "-c", "echo x > one; ln one two")
        assert result.note == ("these were one file with several names, and are files of their own now: /one, /two")
        assert set(commands.changes) == {"one", "two"}

    async def test_a_command_that_ends_early_leaves_nothing_behind(commands: LayeredCommands, scratch: Path) -> None:
        slow = commands.asked("sh", "-c", "echo x > begun; sleep 600", timeout=1)
        result = await ActivityEnvironment().run(commands.activities.run_command, slow)
        assert result.timed_out
        environment = ActivityEnvironment()
        running = asyncio.ensure_future(
            environment.run(commands.activities.run_command, commands.asked("sleep", "600"))
        )
        while not any(scratch.glob(f"{PREFIX}*/in/upper")):  # noqa: ASYNC110, ASYNC240 - it sets no event
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


def test_a_folder_is_removed_whatever_is_in_it(scratch: Path) -> None:
    outside = scratch.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = scratch / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "inner").mkdir()
    (folder / "inner/link").symlink_to(outside)
    (folder / "inner/locked").mkdir(mode=0)
    here = os.open(folder / "inner", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 100, dir_fd=here)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_folder(folder)
    assert list(scratch.iterdir()) == []
    assert [one.name for one in outside.iterdir()] == ["kept"]


def test_folders_of_processes_that_were_killed_are_removed_and_no_others(scratch: Path) -> None:
    child = os.fork()
    if child == 0:
        with scratch_folder() as folder:
            (folder / "upper").mkdir()
            (folder / "upper").chmod(0)
            os._exit(0)
    os.waitpid(child, 0)
    (scratch / f"{PREFIX}of-somebody-else").mkdir()
    with scratch_folder() as mine:
        assert remove_leftovers(young_seconds=3600) == 0
        assert remove_leftovers(young_seconds=0) == 1
        assert mine.is_dir()
    assert [one.name for one in scratch.iterdir()] == [f"{PREFIX}of-somebody-else"]
