"""Commands over layers: they see what was changed before, their work is in the layer, the files stay as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import LayerGrounds, ShellActivities
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.layers.layer import changes_of, folder_node, link_node
from tests.support.workshops.layered import seen, text_file
from tests.support.workshops.layered_commands import HAS_OVERLAYS, LayeredCommands, layered_commands


@pytest.fixture
def commands(tmp_path: Path) -> Generator[LayeredCommands]:
    """Commands after which not a byte of the workshop is another one."""
    made = layered_commands(tmp_path)
    before = seen(made.folder)
    yield made
    assert seen(made.folder) == before
    assert (made.folder / ".llm-do/state").read_text() == ".llm-do/state"


async def _fails(commands: LayeredCommands, activities: ShellActivities, *argv: str) -> ApplicationError:
    """What the command and its preview both fail with."""
    asked = commands.asked(*argv)
    with pytest.raises(ApplicationError) as previewed:
        ActivityEnvironment().run(activities.preview_command, asked)
    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(activities.run_command, asked)
    assert caught.value.message == previewed.value.message
    assert str(commands.folder) not in caught.value.message
    return caught.value


async def test_where_overlays_cannot_be_had_nothing_is_run_and_the_reason_is_told(commands: LayeredCommands) -> None:
    grounds = LayerGrounds(commands.folder, commands.blobs, lambda _bwrap: "this kernel has none")
    error = await _fails(
        commands, ShellActivities(commands.folder, commands.blobs, layers=grounds), "touch", "/llm-do/x"
    )
    assert error.type == "LayerUnavailable"
    assert error.message == "commands cannot work on changes that are not made yet: this kernel has none"


async def test_without_isolation_nothing_is_run_on_a_layer(commands: LayeredCommands) -> None:
    error = await _fails(commands, ShellActivities(commands.folder, commands.blobs, lambda: None), "touch", "x")
    assert error.type == "LayerUnavailable"
    assert "bubblewrap" in error.message


def _git(folder: Path, *commands: list[str]) -> None:
    for words in commands:
        subprocess.run(["git", *words], cwd=folder, check=True)


if HAS_OVERLAYS:

    async def test_commands_one_after_the_other_see_each_others_work(commands: LayeredCommands) -> None:
        assert (
            await commands.sh("rm -r src/deep; mv src/one.py src/uno.py; ln -s ../a.txt docs/l; mkdir src/deep") == ""
        )
        assert await commands.sh("cd src; ls -A . deep; cat uno.py; cat ../docs/l; readlink ../docs/l") == (
            ".:\ndeep\ntwo.py\nuno.py\n\ndeep:\nsrc/one.pya.txt../a.txt\n"
        )
        assert await commands.sh("echo more >> src/uno.py; chmod 755 src/two.py; rmdir src/deep; rm docs/l") == ""
        assert commands.changes == {
            "src/deep": None,
            "src/deep/three.py": None,
            "src/one.py": None,
            "src/two.py": text_file("src/two.py", 0o755),
            "src/uno.py": text_file("src/one.pymore\n"),
        }

    async def test_a_program_that_was_written_into_the_layer_runs(commands: LayeredCommands) -> None:
        await commands.sh("printf '#!/bin/sh\\necho ran in $PWD\\n' > run.sh; chmod +x run.sh")
        result = await commands.run("./run.sh")
        assert (result.exit_code, result.stdout.text, result.isolated) == (0, "ran in /\n", True)

    async def test_all_names_at_the_top_are_those_of_the_layer(commands: LayeredCommands) -> None:
        await commands.sh("mkdir /llm-do/new; echo x > /llm-do/new/x; rm -r /llm-do/docs")
        assert await commands.sh("cat /new/x; ls /docs 2>&1 | grep -c 'No such file'") == "x\n1\n"

    async def test_a_worker_of_a_narrower_tree_works_on_the_same_layer(commands: LayeredCommands) -> None:
        await commands.sh("echo changed > src/one.py")
        commands.tree = Tree(mounts=(Mount(at="/src", root="src", base="."),))
        assert await commands.sh("pwd; cat one.py; echo new > four.py; chmod 700 .; ls ../docs 2>&1 | wc -l") == (
            "/src\nchanged\n1\n"
        )
        assert commands.changes == {
            "src": folder_node(0o700),
            "src/four.py": text_file("new\n"),
            "src/one.py": text_file("changed\n"),
        }

    async def test_a_folder_that_is_in_the_layer_alone_is_where_a_command_works(commands: LayeredCommands) -> None:
        await commands.sh("mkdir -p new/inner; echo x > new/inner/x")
        commands.tree = Tree(mounts=(Mount(at="/new", root="new", base="."),))
        assert await commands.sh("pwd; cat inner/x; rm inner/x; echo y > y") == "/new\nx\n"
        commands.tree = Tree(mounts=(Mount(at="/", root="."),))
        assert await commands.sh("cat new/y; ls new/inner; ls a.txt 2>/dev/null", sandbox_paths=("/new",)) == "y\n"
        assert commands.changes == {"new": folder_node(), "new/inner": folder_node(), "new/y": text_file("y\n")}

    async def test_parts_of_the_tree_are_all_that_a_command_reaches(commands: LayeredCommands) -> None:
        await commands.sh("echo layer > a.txt")
        paths = ("/src", "/a.txt", "/nowhere")
        assert await commands.sh(
            "cat a.txt; ls docs 2>/dev/null; echo more >> a.txt; rm src/two.py", sandbox_paths=paths
        )
        assert commands.changes == {"a.txt": text_file("layer\nmore\n"), "src/two.py": None}
        await commands.sh("echo x > docs/x; chmod 600 a.txt; touch src/two.py", sandbox_paths=("/a.txt",))
        assert commands.changes == {"a.txt": text_file("layer\nmore\n", 0o600), "src/two.py": None}

    async def test_a_file_alone_that_is_no_file_of_the_layer_any_more_is_not_reached(commands: LayeredCommands) -> None:
        await commands.sh("rm a.txt; ln -s docs/a.md a.txt")
        said = await commands.sh("cat a.txt; echo x > a.txt || true", sandbox_paths=("/a.txt", "/src"))
        assert "No such file" in said
        assert commands.changes == {"a.txt": link_node("docs/a.md")}

    async def test_what_is_read_only_takes_nothing(commands: LayeredCommands) -> None:
        await commands.sh("echo layer > src/one.py")
        commands.tree = Tree(
            mounts=(
                Mount(at="/src", root="src", base="src", readonly=True),
                Mount(at="/docs", root="docs", base="docs"),
            )
        )
        before = commands.changes
        said = await commands.sh("cat /src/one.py; echo x > /src/x; rm /src/two.py; echo x > /docs/x")
        assert said.startswith("layer\n")
        assert said.count("Read-only file system") == 2
        assert commands.changes == {**before, "docs/x": text_file("x\n")}

    async def test_one_folder_by_two_names_is_changed_by_one_of_them(commands: LayeredCommands) -> None:
        read = Mount(at="/all", root="src", base="src", readonly=True)
        write = Mount(at="/deep", root="src/deep", base="src/deep")
        commands.tree = Tree(mounts=(read, write))
        await commands.sh("echo x > /deep/x; cat /all/one.py")
        assert commands.changes == {"src/deep/x": text_file("x\n")}
        commands.tree = Tree(mounts=(read.model_copy(update={"readonly": False}), write))
        error = await _fails(commands, commands.activities, "true")
        assert error.type == "LayerUnavailable"
        assert "'/all' and '/deep' are in part the same files" in error.message

    async def test_a_folder_that_the_layer_has_not_is_told(commands: LayeredCommands) -> None:
        await commands.sh("rm -r docs")
        commands.tree = Tree(mounts=(Mount(at="/docs", root="docs", base="."),))
        assert "the folder '/docs' does not exist" in (await _fails(commands, commands.activities, "true")).message

    async def test_a_question_about_a_command_shows_the_files_of_the_layer(commands: LayeredCommands) -> None:
        await commands.sh(
            "echo changed > src/one.py; rm src/two.py; ln -s ../src docs/s; ln -s /etc docs/out; echo x > new"
        )
        shown = commands.preview(
            "cat", "src/one.py", "src/two.py", "new", "docs/s/one.py", "docs/out", "docs/s/../a.txt"
        )
        assert shown.isolated
        found = {one.path: one for one in shown.files or ()}
        changed, new = text_file("changed\n").sha256, text_file("x\n").sha256
        assert {path: (one.sha256, one.place) for path, one in found.items() if one.sha256} == {
            "/src/one.py": (changed, "src/one.py"),
            "/new": (new, "new"),
            "/docs/s/one.py": (changed, "src/one.py"),
            "/a.txt": (text_file("a.txt").sha256, "a.txt"),
        }
        assert (found["/docs/out"].place or "").startswith("../")
        assert "/src/two.py" not in found

    @pytest.mark.parametrize(
        "meanwhile",
        [
            "echo other > src/one.py",
            "rm src/one.py",
            "chmod 755 src/one.py",
            "rm src/one.py; ln -s ../a.txt src/one.py",
            "mv src elsewhere; ln -s elsewhere src",
        ],
    )
    async def test_a_command_whose_files_are_not_as_they_were_shown_is_not_run(
        commands: LayeredCommands, meanwhile: str
    ) -> None:
        words = ("sh", "-c", "touch ran", "src/one.py")
        await commands.sh("echo shown > src/one.py")
        shown = commands.preview(*words)
        await commands.sh(meanwhile)
        with pytest.raises(ApplicationError) as caught:
            await commands.run(*words, expected=shown.files, expected_isolated=shown.isolated)
        assert caught.value.type == "ShownDiffers"
        assert "ran" not in commands.changes
        await commands.run(*words, expected=commands.preview(*words).files)
        assert "ran" in commands.changes

    async def test_git_commits_in_the_layer_and_what_it_writes_is_in_the_layer_too(tmp_path: Path) -> None:
        commands = layered_commands(tmp_path)
        me = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        # Newer versions of git tidy up beside the commit that has ended, and have a lock among its files meanwhile.
        me = (*me, "-c", "maintenance.auto=false")
        _git(commands.folder, ["init", "-q"], ["add", "a.txt", "src", "docs"], [*me, "commit", "-q", "-m", "begin"])
        before = {path: path.read_bytes() for path in commands.folder.rglob("*") if path.is_file()}
        await commands.sh("git mv src/one.py src/uno.py; echo more >> a.txt; git add a.txt; git rm -q -r docs")
        assert (await commands.run("git", *me, "commit", "-q", "-m", "all of it")).stderr.text == ""
        assert await commands.sh("git status --short -- . ':!workshop.yaml'; git log --format=%s; git ls-files") == (
            "all of it\nbegin\na.txt\nsrc/deep/three.py\nsrc/two.py\nsrc/uno.py\n"
        )
        changed = {path for change in changes_of(commands.layer) for path in change.paths}
        written = {path for path in changed if path.split("/")[0] == ".git"}
        assert written
        assert changed - written == {"a.txt", "docs", "docs/a.md", "src/one.py", "src/uno.py"}
        assert {path: path.read_bytes() for path in commands.folder.rglob("*") if path.is_file()} == before

    async def test_a_folder_of_the_layer_shows_no_state_that_was_put_there_meanwhile(tmp_path: Path) -> None:
        commands = layered_commands(tmp_path)
        await commands.sh("mkdir new; echo x > new/x")
        (commands.folder / "new/.llm-do").mkdir(parents=True)
        (commands.folder / "new/.llm-do/state").write_text("state")
        assert await commands.sh("ls -A new; cat new/.llm-do/state 2>/dev/null; touch new/y") == "x\n"
        assert set(commands.changes) == {"new", "new/x", "new/y"}

    async def test_a_layer_that_grows_long_keeps_a_manifest(commands: LayeredCommands) -> None:
        await commands.sh("mkdir many; i=0; while [ $i -lt 40 ]; do echo $i > many/$i; i=$((i+1)); done")
        assert commands.carried.manifest is not None
        assert not commands.carried.recent.entries
        assert await commands.sh("cat many/39; rm many/39") == "39\n"
        assert list(commands.carried.recent.entries) == ["many/39"]
        assert len(commands.changes) == 40
