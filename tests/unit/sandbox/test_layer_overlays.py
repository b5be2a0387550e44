"""Overlays for commands over layers, with the real program, and upper folders as commands leave them."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from llm_do_temporal.errors import EffectFailed, SandboxRefusal
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.policy.layers import layer as layer_module
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerNode, folder_node, link_node
from llm_do_temporal.policy.layers.view import LayerDraft, LayerView
from llm_do_temporal.sandbox.bubblewrap import IsolatedFolder, SeenFolders, isolated, working_bwrap
from llm_do_temporal.sandbox.layers import command_folders, overlay
from llm_do_temporal.sandbox.layers.command_folders import UpperReader, split_links
from llm_do_temporal.sandbox.layers.contents import BaseFiles, LayerContents, base_files
from llm_do_temporal.sandbox.layers.overlay import KeptLowers, LayerMount, overlay_folders, overlay_problem, write_lower
from tests.support.workshops.layered import EDITOR, MemoryBlobs, PlayedDraft, ran_over, seen, text_file
from tests.support.workshops.upper_folders import Upper, upper_over_base

HAS_OVERLAYS = overlay_problem(working_bwrap()) is None
"""Whether this machine has them: without, nothing is run on layers, and the tests of the words are what is left."""


@pytest.fixture
def contents() -> LayerContents:
    return LayerContents(MemoryBlobs())


@pytest.fixture
def base(tmp_path: Path, contents: LayerContents) -> Generator[BaseFiles]:
    folder = tmp_path / "base"
    for name in ("a.txt", "src/one.py", "src/two.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    with base_files(folder, contents=contents) as files:
        yield files


if HAS_OVERLAYS:

    def test_a_command_sees_the_layer_and_what_it_writes_is_in_the_layer(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        before = seen(tmp_path / "base")
        draft = LayerDraft(NO_LAYER, base, EDITOR)
        draft.write("src/one.py", contents.keep(b"from the layer", "src/one.py"))
        draft.delete("src/two.py")
        layer = ran_over(
            draft.layer(),
            base,
            contents,
            "ls src > seen.txt; cat src/one.py >> seen.txt; mv src lib; ln -s ../a.txt lib/l; rm a.txt; mkdir src",
            tmp_path,
        )
        assert seen(tmp_path / "base") == before
        assert {path: entry.now for path, entry in layer.changes.items()} == {
            "a.txt": None,
            "lib": folder_node(),
            "lib/l": link_node("../a.txt"),
            "lib/one.py": text_file("from the layer"),
            "seen.txt": text_file("one.py\nfrom the layer"),
            "src/one.py": None,
            "src/two.py": None,
        }

    def test_commands_of_one_layer_do_not_see_each_other(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        first = ran_over(NO_LAYER, base, contents, "echo 1 > mine", tmp_path)
        second = ran_over(NO_LAYER, base, contents, "cat mine; echo 2 > other", tmp_path)
        assert (set(first.changes), set(second.changes)) == ({"mine"}, {"other"})

    def test_a_folder_that_is_new_shows_nothing_that_was_put_there_meanwhile(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        draft = LayerDraft(NO_LAYER, base, EDITOR)
        draft.write("new/mine", contents.keep(b"x", "new/mine"))
        (tmp_path / "base/new").mkdir()
        (tmp_path / "base/new/theirs").write_text("x")
        layer = ran_over(draft.layer(), base, contents, "ls new > seen.txt", tmp_path)
        assert layer.entries["seen.txt"].now == text_file("mine\n")

    def _isolated(
        base: BaseFiles, contents: LayerContents, tmp_path: Path, layer: Layer, mount: Mount, script: str
    ) -> tuple[Layer, str]:
        """Run a script isolated as commands of workers are; return the layer after it, and what it printed."""
        workshop = tmp_path / "base"
        descriptor = os.open(workshop, os.O_RDONLY | os.O_DIRECTORY)
        place = locate(Tree(mounts=(mount,)), "/")
        folder = IsolatedFolder(descriptor=descriptor, path=workshop, place=place, in_workshop=".")
        program = working_bwrap()
        assert program is not None
        with (
            overlay_folders(layer, base, contents, scratch=tmp_path) as folders,
            isolated(
                SeenFolders([folder], layered={"/": LayerMount(folders, (), LayerView(layer, base).shows_base)}),
                Protection(),
                cwd="/",
                network=False,
            ) as how,
        ):
            assert how.held_back == ()
            command = [program, *how.options, "--", "sh", "-c", script]
            done = subprocess.run(command, capture_output=True, check=True, pass_fds=how.descriptors, timeout=60)
            os.close(descriptor)
            return UpperReader(base, contents).read(folders.upper, layer, EDITOR), done.stdout.decode()

    def test_an_isolated_command_writes_to_the_layer_and_sees_no_state_of_the_product(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        workshop = tmp_path / "base"
        (workshop / ".llm-do").mkdir()
        (workshop / ".llm-do/secret").write_text("secret")
        (workshop / "x.worker").write_text("a definition")
        before = seen(workshop)
        script = "cat .llm-do/secret; ls -A .llm-do; echo changed > /llm-do/x.worker; rm a.txt"
        layer, printed = _isolated(base, contents, tmp_path, NO_LAYER, Mount(at="/", root="."), script)
        assert (seen(workshop), printed) == (before, "")
        assert {path: entry.now for path, entry in layer.changes.items()} == {
            "a.txt": None,
            "x.worker": text_file("changed\n"),
        }

    def test_an_isolated_command_that_may_only_read_sees_the_layer_and_adds_nothing(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        draft = LayerDraft(NO_LAYER, base, EDITOR)
        draft.write("a.txt", contents.keep(b"from the layer", "a.txt"))
        mount = Mount(at="/", root=".", readonly=True)
        for layer, text in ((draft.layer(), "from the layer"), (NO_LAYER, "a.txt")):
            script = "cat a.txt; echo x > b.txt || rm a.txt || true"
            assert _isolated(base, contents, tmp_path, layer, mount, script) == (layer, text)

    def test_thousands_of_files_of_a_command_are_read_back(
        base: BaseFiles, contents: LayerContents, tmp_path: Path
    ) -> None:
        script = "mkdir many; i=0; while [ $i -lt 3000 ]; do echo $i > many/$i; i=$((i+1)); done"
        layer = ran_over(NO_LAYER, base, contents, script, tmp_path)
        assert len(layer.changes) == 3001
        assert layer.entries["many/2999"].now == text_file("2999\n")


def test_without_bubblewrap_there_are_no_overlays() -> None:
    assert overlay_problem(None) == "commands cannot be isolated on this machine (bubblewrap), and layers need that"


def test_a_program_that_mounts_nothing_is_told_apart(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho no overlays in this kernel >&2\nexit 1\n")
    program.chmod(0o755)
    problem = overlay_problem(str(program), tmp_path)
    assert problem == "overlays do not work on this machine: no overlays in this kernel"
    program.write_text("#!/bin/sh\nexit 0\n")
    assert overlay_problem(str(program), tmp_path) is not None


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    problem = overlay_problem("/bin/true", tmp_path / "nowhere")
    assert problem is not None
    assert "No such file or directory" in problem
    assert str(tmp_path) not in problem


def test_nothing_is_left_of_a_trial(tmp_path: Path) -> None:
    overlay_problem(working_bwrap(), tmp_path)
    assert list(tmp_path.iterdir()) == []


NAMES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a")


class CountedBlobs(MemoryBlobs):
    """Blob store that counts how often it is read."""

    reads = 0

    def read(self, sha256: str) -> bytes:
        self.reads += 1
        return super().read(sha256)


@pytest.fixture
def blobs() -> CountedBlobs:
    return CountedBlobs()


@pytest.fixture
def kept_base(tmp_path: Path, blobs: CountedBlobs) -> Generator[BaseFiles]:
    for name in ("a", "d/a", "d/e/a"):
        (tmp_path / "kept_base" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kept_base" / name).write_text(name)
    with base_files(tmp_path / "kept_base", contents=LayerContents(blobs)) as files:
        yield files


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[KeptLowers]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = KeptLowers()
    yield made
    made.close()
    assert [one.name for one in tmp_path.iterdir() if one.name != "kept_base"] == []


def laid_out(
    layer: Layer, kept_base: BaseFiles, contents: LayerContents, kept: KeptLowers | None, at: str = ""
) -> object:
    """Return all that a command is given of the layer: kinds, permissions, bytes, marks."""
    found: dict[str, object] = {}
    with overlay_folders(layer, kept_base, contents, at=at, kept=kept) as folders:
        lower = folders.lower
        for path in [] if lower is None else [lower, *lower.rglob("*")]:
            facts = path.lstat()
            content = path.read_bytes() if path.is_file() else str(path.readlink()) if path.is_symlink() else ""
            marks = os.listxattr(path, follow_symlinks=False)
            assert stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1
            found[str(path.relative_to(lower or path))] = (facts.st_mode, facts.st_rdev, content, marks)
    return found


def _step(draft: PlayedDraft, contents: LayerContents, chance: random.Random) -> None:
    path, other = chance.choice(NAMES), chance.choice(NAMES)
    with suppress(EffectFailed, SandboxRefusal):
        match chance.randrange(6):
            case 0:
                draft.delete(path)
            case 1:
                draft.rename(path, other)
            case 2:
                draft.link(path, other)
            case 3:
                draft.change_mode(path, chance.choice((0o600, 0o644, 0o700, 0o755)))
            case _:
                draft.write(path, contents.keep(chance.choice((b"x", b"y", b"d/a")), path))


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_is_what_would_be_written_anew(
    kept_base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers, seed: int
) -> None:
    chance, contents, layer = random.Random(seed), LayerContents(blobs), NO_LAYER
    for _ in range(25):
        draft = PlayedDraft(layer, kept_base, EDITOR)
        for _ in range(chance.randrange(3)):
            _step(draft, contents, chance)
        layer = draft.layer()
        at = chance.choice(("", "", "d"))
        assert laid_out(layer, kept_base, contents, kept, at) == laid_out(layer, kept_base, contents, None, at)


def test_a_file_that_is_the_same_is_not_read_again(kept_base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers) -> None:
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, kept_base, EDITOR)
    for number in range(20):
        draft.write(f"new/{number}", contents.keep(f"{number}".encode(), "new"))
    laid_out(draft.layer(), kept_base, contents, kept)
    before = blobs.reads
    draft.write("new/7", contents.keep(b"another", "new/7"))
    laid_out(draft.layer(), kept_base, contents, kept)
    assert blobs.reads == before + 1


def test_a_large_layer_is_not_kept(
    kept_base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MAX_KEPT_BYTES", 10)
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, kept_base, EDITOR)
    draft.write("new", contents.keep(b"more than ten bytes", "new"))
    laid_out(draft.layer(), kept_base, contents, kept)
    assert kept.take("") is None


def test_only_a_few_are_kept(kept_base: BaseFiles, blobs: CountedBlobs, kept: KeptLowers) -> None:
    contents = LayerContents(blobs)
    draft = PlayedDraft(NO_LAYER, kept_base, EDITOR)
    names = ("one", "two", "three", "four", "five")
    for name in names:
        draft.write(f"{name}/x", contents.keep(b"x", name))
    for name in names:
        laid_out(draft.layer(), kept_base, contents, kept, name)
    assert [name for name in names if kept.take(name) is None] == ["one"]


@pytest.fixture
def upper(tmp_path: Path) -> Generator[Upper]:
    with upper_over_base(tmp_path) as one:
        yield one


def nows(layer: Layer) -> dict[str, LayerNode | None]:
    return {path: entry.now for path, entry in layer.changes.items()}


def test_files_links_and_folders_are_taken_over(upper: Upper) -> None:
    upper.put("src/new.py", "new", 0o755)
    upper.put("a.txt", "changed")
    (upper.folder / "l").symlink_to("/etc/passwd")
    layer = upper.read()
    assert nows(layer) == {
        "a.txt": text_file("changed"),
        "l": link_node("/etc/passwd"),
        "src/new.py": text_file("new", 0o755),
    }
    assert layer.entries["a.txt"].base == text_file("a.txt", kept=False)


def test_a_file_that_was_only_copied_up_is_no_change(upper: Upper) -> None:
    upper.put("src/one.py", "src/one.py")
    assert upper.read() == NO_LAYER


def test_a_device_that_stands_for_nothing_deletes(upper: Upper) -> None:
    upper.whiteout("src")
    upper.whiteout("never-there")
    assert nows(upper.read()) == dict.fromkeys(("src", "src/deep", "src/deep/two.py", "src/one.py"))


@pytest.mark.parametrize("mark", ["user.overlay.opaque", "trusted.overlay.opaque"])
def test_nothing_of_the_base_is_left_in_an_opaque_folder(upper: Upper, mark: str) -> None:
    if mark.startswith("trusted.") and os.geteuid() != 0:
        mark = "user.overlay.opaque"
    upper.opaque("src", mark)
    upper.put("src/new.py", "new")
    assert nows(upper.read()) == {
        **dict.fromkeys(("src/deep", "src/deep/two.py", "src/one.py")),
        "src/new.py": text_file("new"),
    }


def test_an_opaque_folder_hides_what_is_in_the_layer_too(upper: Upper) -> None:
    draft = PlayedDraft(NO_LAYER, upper.base, EDITOR)
    draft.write("src/layer.py", text_file("layer"))
    upper.opaque("src")
    layer = upper.read(draft.layer())
    assert "src/layer.py" not in layer.changes
    assert layer.entries["src/layer.py"].now is None


def test_a_folder_where_a_file_was_and_a_file_where_a_folder_was(upper: Upper) -> None:
    upper.put("a.txt/in", "in")
    upper.put("src", "a file")
    layer = upper.read()
    assert nows(layer) == {
        "a.txt": folder_node(),
        "a.txt/in": text_file("in"),
        "src": text_file("a file"),
        **dict.fromkeys(("src/deep", "src/deep/two.py", "src/one.py")),
    }


def test_permissions_of_a_folder_are_taken_over_but_not_what_it_hands_on(upper: Upper) -> None:
    (upper.folder / "src").mkdir()
    (upper.folder / "src").chmod(0o2700)
    (upper.folder / "new").mkdir()
    (upper.folder / "new").chmod(0o2755)
    assert nows(upper.read()) == {"new": folder_node(0o755), "src": folder_node(0o700)}


def test_of_many_files_that_are_refused_five_are_named(upper: Upper) -> None:
    for number in range(8):
        os.mkfifo(upper.folder / f"pipe-{number}")
    with pytest.raises(SandboxRefusal, match=r"'pipe-4' is neither a file nor a link nor a folder, and 3 more$"):
        upper.read()


def test_after_a_hundred_refused_files_nothing_more_is_looked_at(upper: Upper) -> None:
    for number in range(150):
        os.mkfifo(upper.folder / f"pipe-{number:03}")
    with pytest.raises(SandboxRefusal, match=r"and many more$"):
        upper.read()


def test_a_base_that_no_layer_can_hold_is_not_deleted_with_its_folder(upper: Upper) -> None:
    os.mkfifo(Path(f"/proc/self/fd/{upper.base.descriptor}") / "src/pipe")
    upper.whiteout("src")
    with pytest.raises(SandboxRefusal, match="'src/pipe' is neither a file"):
        upper.read()
    (upper.folder / "src").unlink()
    upper.opaque("src")
    with pytest.raises(SandboxRefusal, match="'src/pipe' is neither a file"):
        upper.read()


def test_folders_in_folders_have_an_end(upper: Upper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_folders, "MAX_DEPTH", 3)
    upper.put("a/b/c/d/e")
    with pytest.raises(SandboxRefusal, match="lies in more than 3 folders"):
        upper.read()


def test_more_files_than_anybody_reviews_are_refused(upper: Upper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "MAX_ENTRIES", 5)
    for number in range(6):
        upper.put(f"file-{number}")
    with pytest.raises(SandboxRefusal, match="at most 5 can be reviewed together"):
        upper.read()


def test_a_file_with_two_names_becomes_two_files_and_both_are_told(upper: Upper) -> None:
    os.link(upper.put("one", "same"), upper.folder / "two")
    assert split_links(upper.folder) == ("one", "two")
    assert nows(upper.read()) == {"one": text_file("same"), "two": text_file("same")}


def test_what_a_layer_is_laid_out_as_is_read_back_as_the_same_layer(upper: Upper, tmp_path: Path) -> None:
    draft = PlayedDraft(NO_LAYER, upper.base, EDITOR)
    draft.delete("src/deep")
    draft.write("src/deep", upper.contents.keep(b"a file now", "src/deep"))
    draft.delete("a.txt")
    draft.write("x/y/z", upper.contents.keep(b"z", "x/y/z"), 0o600)
    draft.link("src/l", "../x")
    draft.change_mode("x/y", 0o700)
    (tmp_path / "lower").mkdir()
    write_lower(tmp_path / "lower", draft.layer(), upper.base, upper.contents)
    assert UpperReader(upper.base, upper.contents).read(tmp_path / "lower", NO_LAYER, EDITOR) == draft.layer()


def test_a_layer_below_a_mounted_folder_is_laid_out_from_there(upper: Upper, tmp_path: Path) -> None:
    draft = PlayedDraft(NO_LAYER, upper.base, EDITOR)
    draft.write("src/deep/new.py", upper.contents.keep(b"new", "src/deep/new.py"))
    draft.delete("a.txt")
    with overlay_folders(draft.layer(), upper.base, upper.contents, at="src", scratch=tmp_path) as folders:
        assert folders.lower is not None
        assert [str(path.relative_to(folders.lower)) for path in sorted(folders.lower.rglob("*"))] == [
            *("deep", "deep/new.py"),
        ]
        (folders.upper / "made.py").write_text("made")
        layer = UpperReader(upper.base, upper.contents).read(folders.upper, draft.layer(), EDITOR, at="src")
    assert layer.entries["src/made.py"].now == text_file("made")
    assert not folders.upper.exists()
    with overlay_folders(NO_LAYER, upper.base, upper.contents, at="src", scratch=tmp_path) as folders:
        assert folders.lower is None
