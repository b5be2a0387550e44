"""What defines cannot be written by a model: by any spelling of its path, through any link, in any layout.

Each input is a write or an edit as a model asks for it: judged by policy, and carried out by the real activity on
real files if policy lets it through with everything pre-approved that can be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.messages.activities import WriteFileInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from tests.support.workshops.defining_files import (
    EVIL,
    TEMPLATE_USER,
    WHOLE_WORKSHOP,
    lay_out,
    own_folder,
    snapshot,
    whole,
    writes,
)
from tests.support.workshops.file_tree import Files

__all__ = ["own_folder", "whole"]

SPELLINGS: tuple[str, ...] = (
    # the workshop, worker files in every place, in any capitals
    *("workshop.yaml", "/WORKSHOP.YAML", "./workshop.yaml", "//workshop.yaml", "sub/workshop.yaml", "Workshop.YML"),
    *(
        "workers/main.worker",
        "workers/MAIN.Worker",
        "new.worker",
        "workers/new.yaml",
        "Workers/new.yml",
        "WORKERS/x.YAML",
    ),
    *(
        "workers/clerk/worker.worker",
        "workers/clerk/worker.yaml",
        "workers/generated/x.worker",
        "workers/generated/x.yml",
    ),
    *("assistant.yaml", "other.yaml", "OTHER.YML", "deep/er/x.worker", "workers/./main.worker", "workers//main.worker"),
    # Python wherever it can be imported from
    *(
        "tools.py",
        "TOOLS.PY",
        "workers/tools.py",
        "workers/clerk/tools.py",
        "lib/deep/helper.py",
        "lib/new.py",
        "new/x.py",
    ),
    *(
        "tools.pyc",
        "__pycache__/tools.cpython-311.pyc",
        "lib/__pycache__/x",
        "ext.so",
        "site.pth",
        "stubs.pyi",
        "w.pyw",
    ),
    *("yaml.py", "json/__init__.py", "lib/deep/__init__.py", "prompts/tools.py", "sitecustomize.py", "x.pyd"),
    # templates that an allow or a lock names, and those that templates name
    *(
        "prompts/a.yaml",
        "prompts/new.yaml",
        "prompts/deep/er/b.yaml",
        "Prompts/NEW.yaml",
        "prompts/x.YAML",
        "prompts/d/e/f.yaml",
    ),
    *(
        "locked/only.yaml",
        "LOCKED/Only.yaml",
        "one/two/xy.yml",
        "files/t/chain.yaml",
        "files/t/new.yaml",
        "chained/c.yaml",
    ),
    *("chained/new.yaml", "templates/x.yaml", "templates/deep/x.yml", "Templates/x.YAML"),
    # included text, and where it is looked for first
    *(
        "RULES.md",
        "rules.md",
        "workers/clerk/RULES.md",
        "texts/more.md",
        "workers/clerk/texts/more.md",
        "Texts/MORE.md",
    ),
    # what other programs run, and our own state
    *(
        ".git/config",
        ".GIT/config",
        ".git/hooks/pre-commit",
        ".git/new",
        "sub/.git/config",
        "other/.git/config",
        ".git",
    ),
    *("sub/.Git/HEAD", ".githooks/pre-push", ".husky/pre-commit", ".hg/hgrc", ".jj/repo", ".svn/x", "\uff0egit/config"),
    *(".llm-do/host.json", ".LLM-DO/x", "sub/.llm-do/x", ".llm-do", "\u2024git/hooks/x"),
)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("path", SPELLINGS, ids=ascii)
def test_no_spelling_of_a_definition_can_be_written(whole: Files, path: str) -> None:
    before = snapshot(whole.workshop)
    assert not writes(whole, path)
    assert snapshot(whole.workshop) == before


EXISTING = (
    *(
        "workshop.yaml",
        "workers/main.worker",
        "tools.py",
        "prompts/a.yaml",
        "locked/only.yaml",
        "RULES.md",
        "texts/more.md",
    ),
    *("chained/c.yaml", "lib/deep/helper.py", ".git/config", "assistant.yaml", "files/t/chain.yaml"),
)


@pytest.mark.parametrize("path", EXISTING)
def test_nor_can_it_be_edited(whole: Files, path: str) -> None:
    before = snapshot(whole.workshop)
    assert not writes(whole, path, edit=True)
    assert snapshot(whole.workshop) == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", EXISTING)
def test_a_link_to_a_definition_is_no_way_to_it(whole: Files, target: str) -> None:
    """As left by a command that was let make links."""
    (whole.workshop / "innocent.md").symlink_to(target)
    before = snapshot(whole.workshop)
    for edit in (False, True):
        assert not writes(whole, "innocent.md", edit=edit)
    assert snapshot(whole.workshop) == before


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("workers", "innocent/notes.md"),
        ("workers", "innocent/new.yaml"),
        (".git", "innocent/config"),
        (".git/hooks", "innocent/pre-commit"),
        (".", "innocent/tools.txt"),
        ("prompts", "innocent/new.md"),
        ("prompts/deep", "innocent/er/b.yaml"),
        ("texts", "innocent/more.md"),
        (".llm-do", "innocent/host.json"),
        ("lib/deep", "innocent/helper.txt"),
    ],
)
def test_a_linked_folder_is_no_way_to_it(whole: Files, folder: str, path: str) -> None:
    (whole.workshop / "innocent").symlink_to(folder)
    before = snapshot(whole.workshop)
    assert not writes(whole, path)
    assert snapshot(whole.workshop) == before


@pytest.mark.parametrize("target", EXISTING)
def test_a_hard_link_to_a_definition_leaves_it_as_it_is(whole: Files, target: str) -> None:
    """A file is replaced, never written in place: its other names keep the old text."""
    (whole.workshop / "innocent.md").hardlink_to(whole.workshop / target)
    writes(whole, "innocent.md")
    assert (whole.workshop / target).read_text() == WHOLE_WORKSHOP[target]


def _becomes_a_link(workshop: Path) -> None:
    (workshop / "notes.md").unlink()
    (workshop / "notes.md").symlink_to("tools.py")


def _becomes_a_linked_folder(workshop: Path) -> None:
    (workshop / "data/list.yaml").unlink()
    (workshop / "data").rmdir()
    (workshop / "data").symlink_to("prompts")


def _becomes_a_template(workshop: Path) -> None:
    (workshop / "workers/late.worker").write_text(TEMPLATE_USER.format(allow="['data/*.yaml']", lock="null"))


def _becomes_included(workshop: Path) -> None:
    (workshop / "workers/late.worker").write_text("description: Reads.\n---\n{{ file('notes.md') }}\n")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("notes.md", _becomes_a_link),
        ("data/list.yaml", _becomes_a_linked_folder),
        ("data/list.yaml", _becomes_a_template),
        ("notes.md", _becomes_included),
    ],
)
def test_what_becomes_a_definition_after_the_question_is_not_written(
    whole: Files, path: str, change: Callable[[Path], None]
) -> None:
    assert whole.preview_write(path, EVIL).diff
    change(whole.workshop)
    before = snapshot(whole.workshop)
    assert not writes(whole, path)
    assert snapshot(whole.workshop) == before


@pytest.mark.parametrize(
    "mount",
    [
        Mount(at="/", root="workers"),
        Mount(at="/in", root="workers", base="."),
        Mount(at="/in", root="workers/clerk", base="workers/clerk"),
        Mount(at="/notes", root="prompts", base="prompts"),
        Mount(at="/notes", root=".git", base=".git"),
        Mount(at="/texts", root="texts", base="texts"),
        Mount(at="/t", root="files/t", base="files"),
    ],
    ids=lambda mount: f"{mount.root} at {mount.at}",
)
@pytest.mark.parametrize("name", ["new.yaml", "more.md", "x.worker", "config"])
def test_no_name_in_the_tree_hides_where_it_really_lies(whole: Files, mount: Mount, name: str) -> None:
    seen = whole.seen_through(mount)
    path = f"{mount.at}/{name}"
    real = f"{mount.root}/{name}"
    expected = protection_of(whole.workshop).protects(real)
    before = snapshot(whole.workshop)
    assert writes(seen, path) is not expected
    if expected:
        assert snapshot(whole.workshop) == before


@pytest.mark.parametrize(
    "path",
    [
        *("t/chain.yaml", "t/new.yaml", "T/New.yaml", "t/tools.py", "t/deep/tools.py", "x.worker", "deep/x.WORKER"),
        *(
            ".git/config",
            "deep/.git/hooks/post-checkout",
            "workshop.yaml",
            "deep/workshop.yml",
            ".llm-do/x",
            ".husky/x",
        ),
    ],
)
def test_in_a_folder_of_their_own_what_defines_is_protected_all_the_same(own_folder: Files, path: str) -> None:
    before = snapshot(own_folder.workshop)
    assert not writes(own_folder, path)
    assert snapshot(own_folder.workshop) == before


@pytest.mark.parametrize("flag", [False, True])
def test_a_forged_request_of_an_older_history_is_judged_on_the_real_place(whole: Files, flag: bool) -> None:
    """`definitions` says what was judged; our own state is out of reach whatever it says."""
    asked = WriteFileInput(
        mount=whole.tree.mounts[0], relative=".llm-do/host.json", path="/x", content=EVIL, definitions=flag
    )
    with pytest.raises(ApplicationError, match="its own state"):
        whole.run(whole.activities.write_file, asked)


@pytest.mark.control
@pytest.mark.parametrize("path", ["notes.md", "data/list.yaml", "new/deep/report.md", "texts/other.md", "prompts/x.md"])
def test_ordinary_files_are_written(whole: Files, path: str) -> None:
    assert writes(whole, path)


@pytest.mark.control
@pytest.mark.parametrize(
    "path", ["app.py", "pkg/__init__.py", "data.yaml", "workers/x.yaml", "templates/x.yaml", "a.so"]
)
def test_a_folder_of_their_own_takes_whatever_workers_make(own_folder: Files, path: str) -> None:
    assert writes(own_folder, path)


@pytest.mark.control
def test_a_rule_that_names_definitions_lets_them_be_written(whole: Files) -> None:
    place = locate(whole.tree, "lib/new.py")
    asked = WriteFileInput(
        mount=place.mount, relative=place.relative, path=place.path, content="x = 2\n", definitions=True
    )
    whole.run(whole.activities.write_file, asked)
    assert (whole.workshop / "lib/new.py").read_text() == "x = 2\n"


@pytest.mark.control
def test_named_folders_of_an_older_worker_are_folders_of_its_own(tmp_path: Path) -> None:
    files = {
        "workshop.yaml": "name: old\n",
        "old.worker": "sandbox: {paths: {out: {root: ./out, mode: rw}, in: {root: ./in}}}\n---\nDo it.\n",
    }
    lay_out(tmp_path, files)
    (tmp_path / "out").mkdir()
    assert protection_of(tmp_path).shared == ("out",)
    assert writes(Files(tmp_path, Tree(mounts=(Mount(at="/out", root="out", base="out"),))), "/out/app.py")
