"""Upper folders of overlays, as commands leave them: read back into a layer, or refused by name."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.layers import layer as layer_module
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerNode, folder_node, link_node
from llm_do_temporal.sandbox.layers import command_folders
from llm_do_temporal.sandbox.layers.command_folders import UpperReader, split_links
from llm_do_temporal.sandbox.layers.overlay import overlay_folders, write_lower
from tests.support.workshops.layered import EDITOR, PlayedDraft, text_file
from tests.support.workshops.upper_folders import Upper, upper_over_base


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
