"""Commands among files that may define: they make and change what `write_file` could, and the result names the rest."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.files import FileActivities
from llm_do_temporal.messages.activities import ShellResult, WriteFileInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers import written_files
from llm_do_temporal.storage.blobs import LocalBlobStore
from tests.support.workshops.hostile_commands import FILES, WHOLE, Ground
from tests.support.workshops.layered_commands import HAS_OVERLAYS

BWRAP = working_bwrap()
pytestmark = pytest.mark.skipif(not HAS_OVERLAYS, reason="commands have no overlays on this machine")


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """Workshop with the sandbox of the reference, `root: "."`."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    made = Ground(tmp_path / "whole/workshop", BWRAP)
    (made.folder / "workshop.yaml").write_text('name: test\nsandbox: {root: "."}\n')
    made.before = dict(made.contents())
    return made


def seen(ground: Ground, path: str) -> str:
    return (ground.folder / path).read_text()


def mount(**rules: Any) -> Tree:
    return Tree(mounts=(Mount(at="/", root=".", **rules),))


async def remark(ground: Ground, script: str, **more: Any) -> str:
    """Run a script; return the remark about what was not taken over."""
    result = await ground.script(script, **more)
    assert result.note is not None, (result.stdout.text, result.stderr.text)
    assert str(ground.folder) not in result.note
    assert "\n" not in result.note
    return result.note


def well(result: ShellResult) -> None:
    assert (result.exit_code, result.stderr.text, result.note) == (0, "", None)


# --- what is taken over ---


WORK: list[tuple[str, dict[str, str | None]]] = [
    ("touch docs/new.txt", {"docs/new.txt": ""}),
    ("mkdir -p out/deep && echo x > out/deep/a.txt", {"out/deep/a.txt": "x\n"}),
    ("echo x > new.md && echo more >> notes.md", {"new.md": "x\n", "notes.md": "notes\nmore\n"}),
    ("sed -i s/text/word/ src/a.txt", {"src/a.txt": "word of a\n"}),
    ("cp -r src copy", {"copy/a.txt": "text of a\n", "copy/evil.txt": "name: evil\n---\nEvil.\n"}),
    ("ln notes.md src/same.md", {"src/same.md": "notes\n"}),
    ("cd src && cat a.txt ../docs/b.txt > 'two words.txt'", {"src/two words.txt": "text of a\ntext of b\n"}),
    ("echo x > src/tmp && mv src/tmp src/a.txt", {"src/a.txt": "x\n"}),
    ("ln -s docs /tmp/d; cd docs && echo x > ../src/../docs/through.txt", {"docs/through.txt": "x\n"}),
    ("echo x > gone && rm gone", {}),
    ("cat notes.md; touch notes.md", {}),
    ("echo x > /docs/virtual.txt", {"docs/virtual.txt": "x\n"}),
    ("touch files/x.txt && rm files/data.txt && echo x > files/data.txt", {"files/x.txt": "", "files/data.txt": "x\n"}),
    ("false || printf '\\377\\000' | tee bytes.bin >/dev/null; ls bytes.bin >/dev/null", {"bytes.bin": None}),
]


@pytest.mark.parametrize(("script", "wanted"), WORK)
async def test_files_are_made_and_changed(ground: Ground, script: str, wanted: dict[str, str | None]) -> None:
    result = await ground.script(script)
    assert (result.exit_code, result.stderr.text, result.note) == (0, "", None)
    assert ground.changed() == wanted.keys()
    assert {name: None if text is None else seen(ground, name) for name, text in wanted.items()} == wanted
    with os.scandir(tempfile.gettempdir()) as left:
        assert not any(left)


async def test_a_command_that_fails_or_runs_out_of_time_has_written_what_it_wrote(ground: Ground) -> None:
    failed = await ground.script("echo x > docs/one.txt; exit 3")
    late = await ground.script("echo x > docs/two.txt; sleep 600", timeout=1)
    assert (failed.exit_code, late.timed_out) == (3, True)
    assert ground.changed() <= {"docs/one.txt", "docs/two.txt"}
    assert seen(ground, "docs/one.txt") == "x\n"


async def test_a_command_that_is_cancelled_leaves_nothing(ground: Ground) -> None:
    (ground.folder / "workshop.yaml").write_text("name: test\nsandbox: {root: files}\n")
    environment = ActivityEnvironment()
    asked = ground.asked("sh", "-c", "echo x > new.md; touch files/begun; sleep 600")
    running = asyncio.create_task(environment.run(ground.activities.run_command, asked))
    while not (ground.folder / "files/begun").exists():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.02)
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ground.changed() == {"workshop.yaml", "files/begun"}


async def test_what_one_command_makes_the_next_one_has(ground: Ground) -> None:
    well(await ground.script("mkdir out && echo one > out/a.txt"))
    well(await ground.script("cat out/a.txt >> out/b.txt; echo two > out/a.txt"))
    assert (seen(ground, "out/a.txt"), seen(ground, "out/b.txt")) == ("two\n", "one\n")


async def test_commands_side_by_side_are_all_taken_over(ground: Ground) -> None:
    results = await asyncio.gather(*(ground.script(f"echo {number} > out{number}.txt") for number in range(4)))
    assert [result.note for result in results] == [None] * 4
    assert ground.changed() == {f"out{number}.txt" for number in range(4)}


async def test_only_the_paths_of_a_rule_are_written(ground: Ground) -> None:
    well(await ground.run("sh", "-c", "echo x > docs/new.txt", sandbox_paths=("/docs",), spelled=3))
    result = await ground.run("sh", "-c", "echo x > src/new.txt", sandbox_paths=("/docs",), spelled=3)
    assert result.exit_code != 0
    assert ground.changed() == {"docs/new.txt"}


async def test_a_narrower_tree_keeps_its_names(ground: Ground) -> None:
    ground.tree = Tree(mounts=(Mount(at="/in", root="src", suffixes=(".txt",)),))
    assert "'/in/b.md' has a suffix" in await remark(ground, "echo x > b.txt; echo x > /in/b.md")
    assert ground.changed() == {"src/b.txt"}


async def test_a_folder_within_another_is_no_work_of_the_command(ground: Ground) -> None:
    outer = Mount(at="/", root="docs")
    ground.tree = Tree(mounts=(outer, Mount(at="/in/src", root="src", readonly=True)))
    well(await ground.script("cat in/src/a.txt > copy.txt"))
    assert ground.changed() == {"docs/copy.txt"}


# --- what is left out, and the words for it ---


LEFT = [
    ("rm notes.md", "'/notes.md' was removed by the command and is still there"),
    ("rm -rf src", "'/src' was removed by the command and is still there"),
    ("mv notes.md docs/", "'/notes.md' was removed by the command and is still there"),
    (
        "rm -r src && mkdir src && echo x > src/b.txt",
        "each of '/src/a.txt', '/src/evil.txt' was removed by the command",
    ),
    ("ln -s notes.md docs/link", "'/docs/link' is a symbolic link"),
    ("ln -sf ../outside.txt notes.md", "'/notes.md' is a symbolic link"),
    ("mkfifo docs/pipe", "'/docs/pipe' is neither a file nor a folder"),
    ("mkdir docs/empty", "'/docs/empty' is an empty folder; a folder is made with the first file in it"),
    ("chmod 777 notes.md", "'/notes.md' keeps its permissions"),
    ("chmod 777 docs", "'/docs' keeps its permissions"),
    ("echo x > docs/run.sh && chmod +x docs/run.sh", "'/docs/run.sh' was taken over without the permission to be"),
    ("echo x > evil.worker", "'/evil.worker' is one of the files that define workers"),
    ("mkdir -p proj/.git && echo x > proj/.git/config", "'/proj/.git/config' is one of the files that define"),
    ("mkdir .husky && echo x > .husky/pre-commit", "'/.husky/pre-commit' is one of the files that define"),
    ("echo x > prompts/new.yaml", "'/prompts/new.yaml' is one of the files that define workers"),
    ("rm notes.md && mkdir notes.md && echo x > notes.md/a", "'/notes.md/a' "),
    ("rm -r docs && echo x > docs", "'/docs' is a folder, not a file"),
    ("printf x > \"$(printf 'docs/caf\\351.txt')\"", "'/docs/caf\\xe9.txt' a path cannot contain half a character"),
    ("truncate -s 300M docs/large", "'/docs/large' has more than the 268435456 bytes"),
    (
        "chmod 000 docs/b.txt; for i in 1 2 3 4 5 6 7; do echo > $i.py; done",
        "each of '/1.py', '/2.py', '/3.py', '/4.py', '/5.py' and 2 more is one of",
    ),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("script", "says"), LEFT)
async def test_what_write_file_could_not_do_is_left_out_and_named(ground: Ground, script: str, says: str) -> None:
    modes = {path: path.lstat().st_mode for path in ground.folder.rglob("*")}
    assert says in await remark(ground, script)
    assert ground.changed() <= {"docs/run.sh", "docs/notes.md", "src/b.txt"}
    assert {path: path.lstat().st_mode for path in modes} == modes
    assert not any(not any(path.iterdir()) for path in ground.folder.rglob("*") if path.is_dir())


async def test_what_is_refused_takes_nothing_else_along(ground: Ground) -> None:
    ground.tree = mount(suffixes=(".txt", ".md"), max_file_bytes=10)
    note = await remark(ground, "echo a > a.txt; echo b > b.exe; seq 100 > c.txt; rm notes.md; echo d > docs/d.md")
    assert "'/b.exe' has a suffix that is not allowed" in note
    assert "'/c.txt' has 292 bytes; the limit here is 10 (max_file_bytes)" in note
    assert "'/notes.md' was removed by the command" in note
    assert ground.changed() == {"a.txt", "docs/d.md"}


async def test_a_file_that_nobody_may_write_to_stays(ground: Ground) -> None:
    (ground.folder / "notes.md").chmod(0o444)
    assert "'/notes.md' is write-protected" in await remark(ground, "echo x > t && mv -f t notes.md")
    assert ground.changed() == set()


async def test_what_defines_is_read_only_while_the_command_runs(ground: Ground) -> None:
    result = await ground.script("echo x > tools.py; echo x > .git/config; rm -f lead.worker; rm -rf .git")
    assert result.stderr.text.count("Read-only file system") >= 2
    assert ground.changed() == set()


async def test_a_file_that_somebody_else_changes_meanwhile_is_theirs(ground: Ground) -> None:
    # Here `files` is not under the overlay, so that both sides see what the other one does there.
    (ground.folder / "workshop.yaml").write_text("name: test\nsandbox: {root: files}\n")
    script = "echo ours > notes.md; echo ours > new.md; touch files/begun; until [ -e files/go ]; do sleep 0.05; done"
    running = asyncio.create_task(ground.script(script))
    while not (ground.folder / "files/begun").exists():  # noqa: ASYNC110 - another process sets no event
        await asyncio.sleep(0.02)
    (ground.folder / "notes.md").write_text("theirs\n")
    (ground.folder / "new.md").write_text("theirs\n")
    (ground.folder / "files/go").touch()
    note = (await running).note or ""
    assert "each of '/new.md', '/notes.md' was changed by something else while the command ran" in note
    assert (seen(ground, "notes.md"), seen(ground, "new.md")) == ("theirs\n", "theirs\n")


async def test_nothing_of_too_much_is_taken_over(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "MAX_FILES", 3)
    note = await remark(ground, "for i in 1 2 3 4; do echo > $i.txt; done")
    assert note == "nothing that the command wrote was taken over: it wrote more than 3 files"
    assert ground.changed() == set()


# --- the same as write_file ---


PATHS = [
    *("new.txt", "docs/new.txt", "a/b/c.txt", "evil.worker", "x.py", "lib/pkg/new.pyc", "workshop.yml", "new.yaml"),
    *("templates/new.yaml", "workers/new.yaml", "workers/new.txt", "prompts/deep/new.yaml", "docs/new.yaml"),
    *(".git/hooks/x", "docs/.hg/x", ".github/workflows/x.yml", ".llm-do/x", "docs/.LLM-DO/x", "docs/__pycache__/x"),
    *("notes.md/x", "docs", "link", "\N{LATIN SMALL LETTER A WITH DIAERESIS}.txt", "docs/UPPER.WORKER"),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", PATHS)
async def test_a_command_makes_a_file_where_write_file_does(ground: Ground, tmp_path: Path, path: str) -> None:
    other = Ground(tmp_path / "other/workshop", BWRAP)
    for one in (ground, other):
        (one.folder / "workshop.yaml").write_text('name: test\nsandbox: {root: "."}\n')
        (one.folder / "link").symlink_to("notes.md")
        one.before = dict(one.contents())
    writes = FileActivities(other.folder, LocalBlobStore(tmp_path / "blobs"))
    try:
        place = locate(WHOLE, path)
        wanted = WriteFileInput(mount=place.mount, relative=place.relative, path=place.path, content="new\n")
        ActivityEnvironment().run(writes.write_file, wanted)
    except ApplicationError:
        pass
    # The new file is put in the place of a link, as a tool that saves a file does.
    await ground.run(
        "sh", "-c", 'mkdir -p "${1%/*}" 2>/dev/null; echo new > /tmp/t; mv -fT /tmp/t "$1"', "sh", f"./{path}"
    )
    assert ground.changed() == other.changed()


# --- where it cannot be had ---


async def test_without_overlays_the_question_and_the_result_say_what_to_do(ground: Ground) -> None:
    ground.overlays = False
    result = await ground.script("touch docs/new.txt")
    asked = ground.asked("touch", "docs/new.txt")
    preview = ActivityEnvironment().run(ground.activities.preview_command, asked)
    assert "Read-only file system" in result.stderr.text
    assert (
        result.note
        == preview.note
        == (
            "commands can change the files that are in '/', but not make, rename or remove any there (this machine has "
            "none); make them with write_file, or give workers a folder of their own (`sandbox: {root: files}` in "
            "workshop.yaml)"
        )
    )


@pytest.mark.parametrize("tree", [FILES, mount(readonly=True)], ids=["own folder", "read-only"])
async def test_where_nothing_can_be_done_or_need_be_done_nothing_is_said(ground: Ground, tree: Tree) -> None:
    (ground.folder / "workshop.yaml").write_text("name: test\nsandbox: {root: files}\n")
    ground.overlays, ground.tree = False, tree
    preview = ActivityEnvironment().run(ground.activities.preview_command, ground.asked("touch", "x"))
    assert (preview.note, (await ground.script("touch x")).note) == ("", None)


async def test_folders_that_are_the_same_files_are_told_apart_by_a_remark(ground: Ground) -> None:
    ground.tree = Tree(mounts=(Mount(at="/a", root="docs"), Mount(at="/b", root="docs")))
    assert "are in part the same files" in await remark(ground, "echo x > /a/b.txt")
    assert seen(ground, "docs/b.txt") == "x\n"
