"""Commands that really run: where, with what, for how long, and what is left of them."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.messages.sizes import SHOWN_OUTPUT_BYTES
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import Isolation, ShellSettings
from llm_do_temporal.sandbox import processes
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.workshops.run_commands import Commands

WAYS = list(dict.fromkeys([working_bwrap(), None]))
"""Isolated, where this machine can do it, and not."""
_UNIQUE = itertools.count(random.SystemRandom().randrange(10**6, 10**7))


@pytest.fixture(params=WAYS, ids=lambda way: "isolated" if way else "bare")
def commands(tmp_path: Path, request: pytest.FixtureRequest) -> Commands:
    folder = tmp_path / "workshop"
    for name in ("src", "docs", ".llm-do", "workers"):
        (folder / name).mkdir(parents=True)
    (folder / "src/a.txt").write_text("text of a")
    (folder / "workshop.yaml").write_text("name: test\n")
    (folder / ".llm-do/state").write_text("state")
    return Commands(folder, LocalBlobStore(tmp_path / "blobs"), request.param)


def sleeper() -> tuple[str, Callable[[], bool]]:
    """A `sleep` that nobody else has, and whether it runs anywhere on this machine."""
    seconds = f"{next(_UNIQUE)}.5"

    def runs() -> bool:
        return any(one.info["cmdline"] == ["sleep", seconds] for one in psutil.process_iter(["cmdline"]))

    return f"sleep {seconds}", runs


async def until(found: Callable[[], bool]) -> None:
    """Wait for what has to happen; the test's own time limit is the only one."""
    while not found():  # noqa: ASYNC110 - a process of somebody else's sets no event
        await asyncio.sleep(0.02)


# --- where and with what ---


async def test_a_command_runs_at_the_top_of_the_files_and_its_exit_code_is_a_result(commands: Commands) -> None:
    result = await commands.run("sh", "-c", "pwd; cat src/a.txt; echo wrong >&2; exit 3")
    assert (result.exit_code, result.timed_out, result.isolated) == (3, False, commands.bwrap is not None)
    assert result.stdout.text == "/\ntext of a"
    assert result.stderr.text == "wrong\n"
    assert (result.note is None) is result.isolated


async def test_arguments_arrive_as_they_are(commands: Commands) -> None:
    result = await commands.run("printf", "%s|", "two words", "*", "$HOME", "käse", "", "-x")
    assert result.stdout.text == "two words|*|$HOME|käse||-x|"


async def test_a_narrower_tree_is_where_a_command_is(commands: Commands) -> None:
    (commands.folder / "workshop.yaml").write_text("sandbox: {root: src}\n")
    tree = Tree(mounts=(Mount(at="/src", root="src"),))
    result = await commands.run("sh", "-c", "pwd; cat a.txt; echo new > b.txt", tree=tree)
    assert result.stdout.text == "/src\ntext of a"
    assert (commands.folder / "src/b.txt").read_text() == "new\n"


async def test_a_command_sees_no_key_and_nothing_but_what_is_passed_through(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("SOME_SETTING", "not passed")
    monkeypatch.setenv("BUILD_NUMBER", "7")
    result = await commands.run("env", settings=ShellSettings(env=("BUILD_NUMBER", "NOT_SET")))
    seen = dict(line.split("=", 1) for line in result.stdout.text.splitlines())
    of_git = {name for name in seen if name.startswith("GIT_")}
    assert seen.keys() - of_git - {"PWD"} == {"PATH", "HOME", "TMPDIR", "LANG", "PAGER", "BUILD_NUMBER"}
    assert seen["BUILD_NUMBER"] == "7"


async def test_a_home_of_its_own_is_gone_afterwards(commands: Commands) -> None:
    result = await commands.run("sh", "-c", "cd && touch kept && pwd -P && ls -A")
    home, *files = result.stdout.text.split()
    assert files == ["kept"]
    assert commands.bwrap is not None or not os.access(home, os.F_OK)


async def test_standard_input_is_empty(commands: Commands) -> None:
    assert (await commands.run("cat")).stdout.text == ""


async def test_no_open_file_of_ours_reaches_the_command(commands: Commands) -> None:
    result = await commands.run("sh", "-c", "echo /proc/self/fd/*")
    assert {int(Path(name).name) for name in result.stdout.text.split()} <= {0, 1, 2, 3}


async def test_messages_name_virtual_paths(commands: Commands) -> None:
    result = await commands.run("realpath", ".", "src/a.txt")
    assert result.stdout.text == "/\n/src/a.txt\n"


async def test_a_program_that_there_is_not_is_an_error(commands: Commands) -> None:
    assert "there is no program 'no-such-program'" in await commands.refused("no-such-program")


@pytest.mark.parametrize("program", ["./outside", "/no/such/program", "src/a.txt"])
async def test_a_file_that_cannot_be_run_is_said(commands: Commands, program: str) -> None:
    if commands.bwrap is None:
        with pytest.raises(ApplicationError, match=f"'{program}' cannot be run"):
            await commands.run(program)
    else:
        result = await commands.run(program)
        assert result.exit_code != 0
        assert program in result.stderr.text


# --- output ---


async def test_long_output_is_cut_and_kept_whole_in_a_blob(commands: Commands) -> None:
    data = "".join(f"line {number}\n" for number in range(110_000)).encode()
    (commands.folder / "big.txt").write_bytes(data)
    result = await commands.run("sh", "-c", "cat big.txt; cat big.txt >&2")
    for output in (result.stdout, result.stderr):
        assert (output.truncated, output.bytes, output.kept_bytes) == (True, len(data), len(data))
        assert output.text.encode() == data[:SHOWN_OUTPUT_BYTES]
        assert output.sha256 is not None
        assert commands.blobs.read(output.sha256) == data


async def test_output_that_just_fits_needs_no_blob(commands: Commands) -> None:
    (commands.folder / "fits.txt").write_bytes(b"x" * SHOWN_OUTPUT_BYTES)
    output = (await commands.run("cat", "fits.txt")).stdout
    assert (output.truncated, output.bytes, output.sha256) == (False, SHOWN_OUTPUT_BYTES, None)


async def test_binary_output_becomes_text_that_can_be_shown(commands: Commands) -> None:
    (commands.folder / "image.png").write_bytes(b"\x89PNG\0\xff\xfe end")
    assert (await commands.run("cat", "image.png")).stdout.text == "\N{REPLACEMENT CHARACTER}PNG\0\ufffd\ufffd end"


# --- the end ---


def time_begins_once(begun: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of a command begin once it has come that far, however long this machine takes to start it."""
    wait = processes._wait  # pyright: ignore[reportPrivateUsage]

    async def wait_from_then_on(running: Any, timeout_seconds: float) -> bool:
        await until(begun)
        return await wait(running, timeout_seconds)

    monkeypatch.setattr(processes, "_wait", wait_from_then_on)


async def test_its_time_over_a_command_ends_with_all_its_children(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, first_runs = sleeper()
    second, second_runs = sleeper()
    time_begins_once(lambda: first_runs() and second_runs(), monkeypatch)
    result = await commands.run("sh", "-c", f"echo begun; sh -c '{first} & {second}'; echo never", timeout=1)
    assert result.timed_out
    assert result.exit_code != 0
    assert result.stdout.text == "begun\n"
    await until(lambda: not first_runs() and not second_runs())


async def test_a_command_that_will_not_listen_is_killed(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps, runs = sleeper()
    time_begins_once(runs, monkeypatch)
    result = await commands.run("sh", "-c", f"trap '' TERM; {sleeps}; {sleeps}", timeout=1)
    assert result.timed_out
    await until(lambda: not runs())


async def test_cancelled_a_command_ends_with_all_its_children(commands: Commands) -> None:
    sleeps, runs = sleeper()
    environment = ActivityEnvironment()
    asked = commands.asked("sh", "-c", f"sh -c '{sleeps} & {sleeps}'; {sleeps}")
    running = asyncio.ensure_future(environment.run(commands.activities.run_command, asked))
    await until(runs)
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not runs())


async def test_children_left_behind_do_not_outlive_the_command(commands: Commands) -> None:
    sleeps, runs = sleeper()
    result = await commands.run("sh", "-c", f"{sleeps} & echo done")
    assert (result.exit_code, result.stdout.text, result.timed_out) == (0, "done\n", False)
    await until(lambda: not runs())


async def test_a_child_that_leaves_the_group_neither_holds_the_command_up_nor_outlives_it(commands: Commands) -> None:
    sleeps, runs = sleeper()
    result = await commands.run("sh", "-c", f"setsid {sleeps} & echo done")
    assert (result.exit_code, result.stdout.text) == (0, "done\n")
    await until(lambda: not runs())


async def test_a_signal_that_ends_a_command_is_counted_as_shells_do(commands: Commands) -> None:
    assert (await commands.run("sh", "-c", "kill -9 $$")).exit_code == 137


# --- what it must not reach ---


async def test_without_files_nothing_runs(commands: Commands) -> None:
    asked = ShellInput(argv=("true",), tree=Tree(), cwd="/", timeout_seconds=5)
    with pytest.raises(ApplicationError, match="no file access"):
        await ActivityEnvironment().run(commands.activities.run_command, asked)


async def test_read_only_files_stay_as_they_are(commands: Commands) -> None:
    tree = Tree(mounts=(Mount(at="/", root=".", readonly=True),))
    if commands.bwrap is None:
        assert "only isolation keeps them from writing" in await commands.refused("touch", "x", tree=tree)
    else:
        result = await commands.run("sh", "-c", "cat src/a.txt; echo x > src/a.txt; touch new", tree=tree)
        assert result.stdout.text == "text of a"
        assert "Read-only file system" in result.stderr.text
    assert (commands.folder / "src/a.txt").read_text() == "text of a"
    assert not (commands.folder / "new").exists()


async def test_where_isolation_is_required_nothing_runs_without(commands: Commands) -> None:
    settings = ShellSettings(isolation=Isolation.REQUIRED)
    if commands.bwrap is None:
        assert "the workshop requires it" in await commands.refused("touch", "x", settings=settings)
        assert not (commands.folder / "x").exists()
    else:
        assert (await commands.run("touch", "x", settings=settings)).isolated


async def test_a_service_that_requires_isolation_is_not_talked_out_of_it(commands: Commands) -> None:
    commands.isolation = Isolation.REQUIRED
    settings = ShellSettings(isolation=Isolation.PREFERRED)
    if commands.bwrap is None:
        assert "the worker service requires it" in await commands.refused("touch", "x", settings=settings)
        assert not (commands.folder / "x").exists()
    else:
        assert (await commands.run("touch", "x", settings=settings)).isolated


async def test_several_folders_are_one_tree_or_nothing_runs(commands: Commands) -> None:
    named = "sandbox: {paths: {in: {root: src}, out: {root: docs, mode: rw}}}\n---\nCopy.\n"
    (commands.folder / "copier.worker").write_text(named)
    tree = Tree(mounts=(Mount(at="/in", root="src", readonly=False), Mount(at="/out", root="docs")))
    if commands.bwrap is None:
        assert "several folders" in await commands.refused("cp", "in/a.txt", "out/b.txt", tree=tree)
    else:
        assert (await commands.run("cp", "in/a.txt", "/out/b.txt", tree=tree)).exit_code == 0
        assert (commands.folder / "docs/b.txt").read_text() == "text of a"


async def test_an_isolated_command_sees_its_files_and_nothing_else(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside")
    (commands.folder / "link").symlink_to(tmp_path)
    looks = f"cat /src/a.txt; ls {tmp_path} link/ /root /home .llm-do/state; cat ../outside.txt"
    result = await commands.run("sh", "-c", f"{looks}; touch workshop.yaml workers/w.worker; echo /proc/[0-9]*; true")
    if commands.bwrap is not None:
        first, *others = result.stdout.text.split("/proc/", 1)
        assert first == "text of a"
        assert len(others[0].split()) <= 3, "only its own processes"
        assert not (commands.folder / "workers/w.worker").exists()
        assert "outside.txt" not in result.stdout.text
    else:
        assert result.note == "ran without isolation, which does not work on this machine"


async def test_an_isolated_command_has_a_network_only_where_its_worker_has(commands: Commands) -> None:
    if commands.bwrap is not None:
        alone = (await commands.run("cat", "/proc/net/dev")).stdout.text
        shared = (await commands.run("cat", "/proc/net/dev", network=True)).stdout.text
        assert [line.split(":")[0].strip() for line in alone.splitlines()[2:]] == ["lo"]
        assert shared.splitlines()[2:] != alone.splitlines()[2:]
    else:
        assert not (await commands.run("true")).isolated


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("cat", "secret.txt"), "'secret.txt' names a file outside"),
        (("cat", "docs"), "'docs' names a file outside"),
        (("grep", "-fsecret.txt"), "'-fsecret.txt' names a file outside"),
        (("cat", "--file=secret.txt"), "names a file outside"),
        (("cat", "src/link.txt"), "'src/link.txt' names a file outside"),
        (("cat", "src/out/passwd"), "names a file outside"),
    ],
)
async def test_what_really_lies_outside_the_paths_of_a_rule_is_refused(
    commands: Commands, argv: tuple[str, ...], says: str
) -> None:
    (commands.folder / "secret.txt").write_text("secret")
    (commands.folder / "src/link.txt").symlink_to("../secret.txt")
    (commands.folder / "src/out").symlink_to("/etc")
    says = says if commands.bwrap is not None else "only isolation keeps it to the paths"
    assert says in await commands.refused(*argv, sandbox_paths=("/src",))


async def test_what_lies_inside_the_paths_of_a_rule_is_used(commands: Commands) -> None:
    (commands.folder / "src/link.txt").symlink_to("a.txt")
    allowed = ("/src", "/gone") if commands.bwrap is not None else ("/",)
    result = await commands.run("cat", "src/link.txt", "./src/a.txt", "src/missing", sandbox_paths=allowed)
    assert result.stdout.text == "text of atext of a"
    assert "src/missing" in result.stderr.text


async def test_a_preview_runs_nothing(commands: Commands) -> None:
    preview = ActivityEnvironment().run(commands.activities.preview_command, commands.asked("touch", "x"))
    assert preview.isolated is (commands.bwrap is not None)
    assert not (commands.folder / "x").exists()
