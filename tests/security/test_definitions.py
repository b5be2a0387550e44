"""What defines cannot be written by a model: by any spelling of its path, through any link, in any layout.

Each input is a write or an edit as a model asks for it: judged by policy, and carried out by the real activity on
real files if policy lets it through with everything pre-approved that can be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.definitions.protected_places import protection_of
from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.messages import WriteFileInput
from llm_do_temporal.policy.approvals import ApprovalRules, CapabilityUse, Mode, decide
from llm_do_temporal.policy.protection import defines
from llm_do_temporal.policy.sandbox import Mount, Tree, WorkshopSandbox, check_writable, locate, root_tree
from tests.support.file_tree import Files

EVIL = "evil: true\n"
ALL_WRITES = ApprovalRules.model_validate({"rules": {"sandbox": "pre_approved", "sandbox.write": "pre_approved"}})
TEMPLATE_USER = """\
toolsets:
  delegation:
    templates: {{allow: {allow}, lock: {lock}}}
---
Call a template.
"""
WHOLE_WORKSHOP = {
    "workshop.yaml": "sandbox: {root: .}\n",
    "workers/main.worker": "description: Does it.\n---\nDo it.\n",
    "workers/clerk/worker.worker": "description: Reads.\n---\n{{ file('RULES.md') }}\n{% include 'texts/more.md' %}\n",
    "texts/more.md": "More.\n",
    "RULES.md": "Rules.\n",
    "assistant.yaml": "instructions: Help.\n",
    "tools.py": "def add(a: int, b: int) -> int:\n    'Add.'\n    return a + b\n",
    "lib/deep/helper.py": "x = 1\n",
    "workers/prompter.worker": TEMPLATE_USER.format(
        allow="['./prompts/**/*.yaml', 'one/*/x?.yml', './files/t/*.yaml']", lock="./locked/only.yaml"
    ),
    "prompts/a.yaml": "prompt: hello\n",
    "prompts/deep/er/b.yaml": "prompt: hello\n",
    "locked/only.yaml": "prompt: hello\n",
    "files/t/chain.yaml": "prompt: x\ntoolsets: {delegation: {templates: {allow: [chained/*.yaml]}}}\n",
    "chained/c.yaml": "prompt: hello\n",
    ".git/config": "[core]\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    "sub/.git/config": "[core]\n",
    ".githooks/pre-push": "#!/bin/sh\n",
    ".llm-do/host.json": "{}\n",
    "notes.md": "notes\n",
    "data/list.yaml": "a: 1\n",
}
OWN_FOLDER = WHOLE_WORKSHOP | {"workshop.yaml": "sandbox: {root: files}\n", "files/notes.md": "notes\n"}


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    """The files in the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below the folder, but for links and the product's own locks."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.parent.name != "locks"
    }


def writes(files: Files, path: str, *, edit: bool = False) -> bool:
    """Whether a model gets text to `path`, in a workshop that approves every write it may."""
    try:
        place = locate(files.tree, path)
        check_writable(place)
    except SandboxRefusal:
        return False
    name = "sandbox.write.definitions" if defines(place) else "sandbox.write"
    if decide(ALL_WRITES, Mode.APPROVE_ALL, "write_file", [CapabilityUse(name=name, asks=False)]).kind != "allow":
        return False
    try:
        files.edit(path, "\n", f"\n{EVIL}") if edit else files.write(path, EVIL)
    except ApplicationError:
        return False
    return True


@pytest.fixture
def whole(tmp_path: Path) -> Files:
    """A workshop whose workers' files are the whole of it."""
    return Files(lay_out(tmp_path, WHOLE_WORKSHOP), root_tree(WorkshopSandbox(root=".")))


@pytest.fixture
def own_folder(tmp_path: Path) -> Files:
    """A workshop whose workers have a folder of their own."""
    return Files(lay_out(tmp_path, OWN_FOLDER), root_tree(WorkshopSandbox(root="files")))


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


def _author_turns_the_link(workshop: Path) -> None:
    (workshop / "texts/more.md").unlink()
    (workshop / "texts/more.md").symlink_to("../notes.md")


def _author_links_a_folder(workshop: Path) -> None:
    (workshop / "texts/more.md").unlink()
    (workshop / "texts").rmdir()
    (workshop / "middle").symlink_to("data")
    (workshop / "texts").symlink_to("middle")
    (workshop / "data/more.md").write_text("More.\n")


def _author_names_a_server(workshop: Path) -> None:
    (workshop / "bin").mkdir()
    (workshop / "bin/notes-server").write_text("#!/bin/sh\n")
    server = "toolsets: {mcp: {notes: {command: [bin/notes-server, --fast]}}}\n---\nUse it.\n"
    (workshop / "workers/served.worker").write_text(server)


def _author_names_a_script_by_its_whole_path(workshop: Path) -> None:
    (workshop / "srv").mkdir()
    (workshop / "srv/index.js").write_text("//\n")
    server = f"toolsets: {{mcp: {{notes: {{command: [node, {workshop}/srv/index.js]}}}}}}\n---\nUse it.\n"
    (workshop / "workers/served.worker").write_text(server)


def _author_leaves_a_file_half_written(text: str) -> Callable[[Path], None]:
    def write(workshop: Path) -> None:
        (workshop / "workers/half.worker").write_text(text)

    return write


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (_author_turns_the_link, "notes.md"),
        (_author_links_a_folder, "data/more.md"),
        (_author_links_a_folder, "middle"),
        (_author_names_a_server, "bin/notes-server"),
        (_author_names_a_server, "BIN/other-tool"),
        (_author_names_a_server, "bin/lib/helper.sh"),
        (_author_names_a_script_by_its_whole_path, "srv/index.js"),
        (_author_names_a_script_by_its_whole_path, "srv/lib/helper.js"),
        (_author_leaves_a_file_half_written("x: 1\n---\n{{ file('notes.md') }}\n{% if"), "notes.md"),
        (_author_leaves_a_file_half_written("no_such_key: 1\n---\n{{ file('notes.md') }}\n{% if x"), "notes.md"),
        (
            _author_leaves_a_file_half_written(
                "toolsets: {delegation: {templates: {allow: ['data/*.yaml'], max_bytes: many}}}\n---\nGo.\n"
            ),
            "data/new.yaml",
        ),
        (
            _author_leaves_a_file_half_written(
                "toolsets:\n  delegation: {templates: {lock: data/list.yaml}\n---\nGo.\n"
            ),
            "data/list.yaml",
        ),
    ],
)
def test_what_an_author_changes_counts_at_once_and_half_written_too(
    whole: Files, change: Callable[[Path], None], path: str
) -> None:
    """Also after what was protected before has been worked out once."""
    protection_of(whole.workshop)
    change(whole.workshop)
    before = snapshot(whole.workshop)
    assert not writes(whole, path)
    assert snapshot(whole.workshop) == before
