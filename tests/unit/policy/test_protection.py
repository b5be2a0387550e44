"""Files that define workers are told apart from the files that workers work on."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Ruling, decide
from llm_do_temporal.policy.files.protection import Protection, defines, is_always_protected
from llm_do_temporal.policy.files.sandbox import (
    Mount,
    Tree,
    WorkshopSandbox,
    check_readable,
    check_writable,
    locate,
    root_tree,
)
from llm_do_temporal.policy.values import CapabilityUse

WHOLE = root_tree(WorkshopSandbox(root="."))


@pytest.mark.parametrize(
    ("path", "defining"),
    [
        # worker files, wherever they lie
        ("/a.worker", True),
        ("/deep/down/a.WORKER", True),
        # the workshop, workers in YAML, and Python that definitions name
        ("/workshop.yaml", True),
        ("/schemas.py", True),
        ("/tools.PY", True),
        ("/workers/a.yml", True),
        ("/templates/deep/a.YAML", True),
        ("/workers/a/tools.py", True),
        # Python that other Python of the workshop can import
        ("/src/app.py", True),
        ("/src/__pycache__/app.cpython-311.pyc", True),
        # what programs run, and our own state
        ("/.git/config", True),
        ("/sub/.GIT/hooks/pre-commit", True),
        ("/.llm-do/host.json", True),
        # what workers work on
        ("/data/a.yaml", False),
        ("/README.md", False),
        ("/evaluations/a.md", False),
    ],
)
def test_a_file_is_a_definition_where_definitions_are_looked_for(path: str, defining: bool) -> None:
    assert defines(locate(WHOLE, path)) is defining


def test_the_place_in_the_workshop_counts_and_not_the_name_in_the_tree() -> None:
    tree = Tree(mounts=(Mount(at="/in", root="workers"), Mount(at="/workers", root="data")))
    assert defines(locate(tree, "/in/a.yaml"))
    assert not defines(locate(tree, "/workers/a.yaml"))


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        ("workshop.yaml", True),
        ("files/a.worker", True),
        ("templates/a.yaml", True),
        # Python is protected where no definition says that workers write there, which a path alone does not tell
        ("files/app.py", False),
        ("files/workshop.txt", False),
    ],
)
def test_some_files_are_protected_whatever_definitions_name(path: str, protected: bool) -> None:
    assert is_always_protected(path) is protected


SHARED = Protection(
    templates=("files/prompts/*.yaml", "prompts/**/*.yaml"), included=("texts/RULES.md",), shared=("files",)
)


@pytest.mark.parametrize(
    ("path", "protects"),
    [
        # Python in a folder that workers write to is data, but not beside templates or definitions
        ("files/app.py", False),
        ("files/deep/__pycache__/app.pyc", False),
        ("Files/app.PY", False),
        ("lib/app.py", True),
        ("files/prompts/tools.py", True),
        ("files/prompts/deep/tools.py", True),
        ("workers/a/tools.py", True),
        # templates that somebody may name, in any capitals
        ("files/prompts/a.yaml", True),
        ("files/Prompts/a.YAML", True),
        ("files/prompts/deep/a.yaml", False),
        ("prompts/a/b/c.yaml", True),
        ("prompts/a.txt", False),
        # included text
        ("texts/RULES.md", True),
        ("TEXTS/rules.md", True),
        ("texts/other.md", False),
        # links to what tools run
        ("files/.git", True),
        (".", False),
    ],
)
def test_what_definitions_name_is_protected(path: str, protects: bool) -> None:
    assert SHARED.protects(path) is protects


@pytest.mark.parametrize(
    ("folder", "may_define"),
    [
        (".", True),
        ("workers", True),
        ("templates/deep", True),
        ("files/.git/hooks", True),
        ("files", True),
        ("files/prompts", True),
        ("files/prompts/deep", False),
        ("prompts/deep/er", True),
        ("texts", True),
        ("texts/deep", True),
        ("files/notes", False),
        ("files/notes/deep", False),
        ("files2", True),
        ("other", True),
    ],
)
def test_a_folder_is_closed_where_something_new_in_it_could_define(folder: str, may_define: bool) -> None:
    assert SHARED.may_define(folder) is may_define


def test_a_glob_that_ends_in_any_folders_closes_everything_below_it() -> None:
    assert Protection(templates=("prompts/**",)).may_define("prompts/a/b")


@pytest.mark.parametrize("mode", list(Mode))
def test_writing_a_definition_is_blocked_until_a_rule_names_it(mode: Mode) -> None:
    use = CapabilityUse(name="sandbox.write.definitions", asks=False)
    for rules in ({}, {"sandbox.write": Ruling.PRE_APPROVED}):
        assert decide(ApprovalRules.model_validate({"rules": rules}), mode, "write_file", [use]).kind == "block"
    named = ApprovalRules.model_validate({"rules": {"sandbox.write.definitions": Ruling.PRE_APPROVED}})
    assert decide(named, mode, "write_file", [use]).kind == "allow"


@pytest.mark.parametrize("path", ["/.llm-do", "/.llm-do/temporal.db", "/.LLM-DO/x"])
def test_our_own_state_is_refused_before_anybody_is_asked(path: str) -> None:
    place = locate(WHOLE, path)
    with pytest.raises(SandboxRefusal, match="its own state"):
        check_readable(place)
    with pytest.raises(SandboxRefusal, match="its own state"):
        check_writable(place)


SERVED = Protection(
    included=("files/rules.md",), programs=("files/bin",), shared=("files",), templates=("files/t/*.yaml",)
)


@pytest.mark.parametrize(("folder", "may_define"), [("files/bin/lib", True), ("files", True), ("files/notes", False)])
def test_a_folder_with_a_program_is_closed(folder: str, may_define: bool) -> None:
    assert SERVED.protects("files/bin/tool")
    assert SERVED.may_define(folder) is may_define


@pytest.mark.parametrize(
    ("path", "link", "looked_for"),
    [
        ("tools.py", False, True),
        ("files/.git/config", False, True),
        ("files/rules.md", False, True),
        ("files/.git", False, True),
        ("files/.git", True, False),
        ("files/bin/tool", False, True),
        ("files/x.worker", False, False),
        ("files/workshop.yaml", False, False),
        ("files/t/workshop.yaml", False, True),
    ],
)
def test_what_is_only_named_like_a_definition_is_not_looked_for(path: str, link: bool, looked_for: bool) -> None:
    assert SERVED.is_looked_for(path, link=link) is looked_for


@pytest.mark.parametrize("path", ["files/a.py", "files/t/a.py", "FILES/a.py", "files/sub/a.py"])
def test_python_where_workers_write_is_never_run_whatever_names_it(path: str) -> None:
    named = Protection(templates=("files/t/*.yaml",), included=(path,), programs=(path,), shared=("files",))
    assert named.protects(path)
    assert not named.protects_code(path)


def test_python_beside_the_workers_files_may_be_run() -> None:
    assert Protection(shared=("files",)).protects_code("tools/a.py")
    assert not Protection(shared=("files",)).protects_code("tools/a.md")
