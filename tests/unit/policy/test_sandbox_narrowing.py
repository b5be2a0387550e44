"""A worker's tree is its caller's or less, however long the chain."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import SandboxEscalation, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import (
    NO_FILES,
    Mount,
    Tree,
    WorkerSandbox,
    WorkshopSandbox,
    locate,
    narrow,
    root_tree,
)


def workshop(**rules: Any) -> Tree:
    return root_tree(WorkshopSandbox.model_validate({"root": ".", **rules}))


def narrowed(tree: Tree, *asked: dict[str, Any] | None, workshop_has_sandbox: bool = True) -> Tree:
    """The tree after each worker of a chain asked for something; None is a worker without `sandbox:`."""
    for one in asked:
        sandbox = None if one is None else WorkerSandbox.model_validate(one)
        tree = narrow(tree, sandbox, workshop_has_sandbox=workshop_has_sandbox)
    return tree


def paths(**named: dict[str, Any]) -> dict[str, Any]:
    return {"paths": named}


def shape(tree: Tree) -> list[tuple[str, str, bool]]:
    return [(mount.at, mount.root, mount.readonly) for mount in tree.mounts]


def only(tree: Tree) -> Mount:
    (mount,) = tree.mounts
    return mount


def test_a_workshop_without_a_sandbox_has_no_files() -> None:
    assert root_tree(None) == NO_FILES


@pytest.mark.parametrize(("root", "normal"), [(".", "."), ("./data/", "data"), ("a//b", "a/b"), ("", ".")])
def test_the_workshops_root_is_the_top_of_the_tree(root: str, normal: str) -> None:
    assert shape(root_tree(WorkshopSandbox(root=root, readonly=True))) == [("/", normal, True)]


@pytest.mark.parametrize("root", ["x" * 256, f"a/{'x' * 5000}", "é" * 128])
def test_a_root_has_no_name_that_no_folder_can_have(root: str) -> None:
    with pytest.raises(SandboxRefusal, match="a name of more than 255 bytes"):
        root_tree(WorkshopSandbox(root=root))
    with pytest.raises(SandboxRefusal, match="a name of more than 255 bytes"):
        narrowed(NO_FILES, paths(input={"root": root}), workshop_has_sandbox=False)


@pytest.mark.parametrize("root", ["/", "/etc", "..", "../x", "a/../..", "a\0b", "//x"])
def test_a_root_cannot_leave_the_workshop(root: str) -> None:
    with pytest.raises(SandboxRefusal, match="leaves the workshop"):
        root_tree(WorkshopSandbox(root=root))
    with pytest.raises(SandboxRefusal, match="leaves the workshop"):
        narrowed(NO_FILES, paths(input={"root": root}), workshop_has_sandbox=False)


@pytest.mark.parametrize(
    ("readonly", "asked", "result"),
    [
        (False, None, False),
        (False, {}, False),
        (False, {"readonly": True}, True),
        (False, {"readonly": False}, False),
        (True, None, True),
        (True, {}, True),
        (True, {"readonly": True}, True),
    ],
)
def test_readonly_is_inherited_and_can_be_added(readonly: bool, asked: dict[str, Any] | None, result: bool) -> None:
    assert only(narrowed(workshop(readonly=readonly), asked)).readonly is result


def test_readonly_cannot_be_taken_back() -> None:
    with pytest.raises(SandboxEscalation, match="'/' is read-only for the caller"):
        narrowed(workshop(readonly=True), {"readonly": False})
    with pytest.raises(SandboxEscalation):
        narrowed(workshop(), {"readonly": True}, None, {"restrict": "/src"}, {"readonly": False})


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([{"restrict": "/"}], ("/", ".")),
        ([{"restrict": "/src"}], ("/src", "src")),
        ([{"restrict": "//src/./"}], ("/src", "src")),
        ([{"restrict": "/src"}, {"restrict": "/src"}], ("/src", "src")),
        ([{"restrict": "/src"}, {"restrict": "/"}], ("/src", "src")),
        ([{"restrict": "/src"}, None, {"restrict": "/src/app"}, {"restrict": "/src"}], ("/src/app", "src/app")),
        ([{"restrict": f"/{'/'.join('abcdefgh'[:n])}"} for n in range(1, 9)], ("/a/b/c/d/e/f/g/h", "a/b/c/d/e/f/g/h")),
    ],
)
def test_restrict_keeps_a_subtree_and_its_name(chain: list[dict[str, Any] | None], expected: tuple[str, str]) -> None:
    mount = only(narrowed(workshop(), *chain))
    assert (mount.at, mount.root) == expected


def test_a_restricted_path_keeps_its_name() -> None:
    place = locate(narrowed(workshop(), {"restrict": "/src"}), "/src/app.ts")
    assert (place.path, place.relative, place.mount.root) == ("/src/app.ts", "app.ts", "src")


@pytest.mark.parametrize(
    ("restrict", "error"),
    [
        ("src", "must start with '/'"),
        ("", "must start with '/'"),
        ("./src", "must start with '/'"),
        ("/src/../..", "contains '..'"),
        ("/a\0", "NUL"),
    ],
)
def test_a_restriction_is_a_plain_path_from_the_top(restrict: str, error: str) -> None:
    with pytest.raises(SandboxRefusal, match=error):
        narrowed(workshop(), {"restrict": restrict})


@pytest.mark.parametrize("regained", ["/docs", "/sr", "/src2", "/src/other"])
def test_what_was_lost_is_not_regained(regained: str) -> None:
    with pytest.raises(SandboxEscalation, match="lies outside the caller's files"):
        narrowed(workshop(), {"restrict": "/src/app"}, {"restrict": regained})


def test_a_worker_without_files_cannot_restrict_itself_to_some() -> None:
    with pytest.raises(SandboxEscalation):
        narrowed(NO_FILES, {"restrict": "/"})


def test_restricting_several_mounts_keeps_those_inside() -> None:
    tree = narrowed(workshop(), paths(input={"root": "in"}, output={"root": "out", "mode": "rw"}))
    assert shape(narrowed(tree, {"restrict": "/output/x"})) == [("/output/x", "out/x", False)]
    assert shape(narrowed(tree, {"restrict": "/"})) == [("/input", "in", True), ("/output", "out", False)]


def test_restricting_below_nested_mounts_keeps_the_one_that_was_seen() -> None:
    tree = Tree(mounts=(Mount(at="/docs", root="m", readonly=True), Mount(at="/", root="a/long/way/down")))
    assert shape(narrowed(tree, {"restrict": "/docs/x"})) == [("/docs/x", "m/x", True)]
    assert shape(narrowed(tree, {"restrict": "/docs"})) == [("/docs", "m", True)]


def test_named_paths_stand_alone_in_a_workshop_without_a_sandbox() -> None:
    asked = paths(input={"root": "./pipeline", "suffixes": [".PDF"]}, output={"root": "out", "mode": "rw"})
    tree = narrowed(NO_FILES, asked, workshop_has_sandbox=False)
    assert shape(tree) == [("/input", "pipeline", True), ("/output", "out", False)]
    assert tree.mounts[0].suffixes == (".pdf",)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a/", "a:b", "a\0b"])
def test_a_named_path_has_a_plain_name(name: str) -> None:
    with pytest.raises(SandboxRefusal):
        narrowed(NO_FILES, paths(**{name: {"root": "."}}), workshop_has_sandbox=False)


@pytest.mark.parametrize(
    "chain",
    [
        [paths(input={"root": "in"}), paths(other={"root": "secret"})],
        [paths(input={"root": "in"}), paths(other={"root": "."})],
        # choosing no folders is a choice that holds for everybody further down
        [paths(), paths(other={"root": "in"})],
        [paths(input={"root": "in"}), paths(), paths(input={"root": "in"})],
        [paths(input={"root": "in"}), paths(), None, {"readonly": True}, paths(input={"root": "in"})],
    ],
)
def test_named_paths_further_down_stay_inside_the_callers(chain: list[dict[str, Any] | None]) -> None:
    with pytest.raises(SandboxEscalation, match="lies outside its caller's files"):
        narrowed(NO_FILES, *chain, workshop_has_sandbox=False)


def test_a_caller_without_a_sandbox_leaves_the_older_form_to_its_callees() -> None:
    tree = narrowed(NO_FILES, None, {"readonly": True}, paths(a={"root": "in"}), workshop_has_sandbox=False)
    assert shape(tree) == [("/a", "in", True)]


def test_with_a_workshop_sandbox_named_paths_lie_inside_it() -> None:
    tree = narrowed(workshop(), paths(input={"root": "./in/deep"}, all={"root": ".", "mode": "rw"}))
    assert shape(tree) == [("/input", "in/deep", True), ("/all", ".", False)]
    with pytest.raises(SandboxEscalation, match=r"'input' \('in'\) lies outside"):
        narrowed(workshop(root="data"), paths(input={"root": "in"}))
    with pytest.raises(SandboxEscalation):
        narrowed(NO_FILES, paths(input={"root": "in"}))


def test_a_named_path_cannot_be_more_writable_than_the_folder_it_lies_in() -> None:
    with pytest.raises(SandboxEscalation, match="'out' asks for mode rw where its caller can only read"):
        narrowed(workshop(readonly=True), paths(out={"root": "out", "mode": "rw"}))
    # the innermost of the caller's folders decides
    outer = paths(all={"root": ".", "mode": "rw"}, locked={"root": "locked"})
    with pytest.raises(SandboxEscalation):
        narrowed(workshop(), outer, paths(x={"root": "locked/x", "mode": "rw"}))
    assert shape(narrowed(workshop(), outer, paths(x={"root": "free", "mode": "rw"}))) == [("/x", "free", False)]


def test_every_mount_remembers_the_folder_its_author_named() -> None:
    tree = narrowed(workshop(root="data"), {"restrict": "/src"}, paths(app={"root": "data/src/app"}))
    assert (only(tree).root, only(tree).base) == ("data/src/app", "data")
    alone = narrowed(NO_FILES, paths(a={"root": "in"}), {"restrict": "/a/b"}, workshop_has_sandbox=False)
    assert (only(alone).root, only(alone).base) == ("in/b", "in")


@pytest.mark.parametrize(
    ("has", "asked", "result"),
    [
        (None, None, None),
        (None, [".pdf"], (".pdf",)),
        ([".pdf"], None, (".pdf",)),
        ([".pdf", ".txt"], [".txt", ".md"], (".txt",)),
        ([".pdf"], [".txt"], ()),
        ([".pdf"], [], ()),
        ([], None, ()),
        ([".PDF"], [".pdf"], (".pdf",)),
        # what ends in both ends in the longer one
        ([".gz"], [".tar.gz"], (".tar.gz",)),
        ([".tar.gz"], [".gz"], (".tar.gz",)),
        ([".gz", ".tar.gz"], [".tar.gz"], (".tar.gz",)),
    ],
)
def test_suffixes_only_get_fewer(
    has: list[str] | None, asked: list[str] | None, result: tuple[str, ...] | None
) -> None:
    assert only(narrowed(workshop(suffixes=has), {"suffixes": asked})).suffixes == result


@pytest.mark.parametrize(
    ("has", "asked", "result"),
    [(None, None, None), (None, 5, 5), (5, None, 5), (5, 9, 5), (9, 5, 5), (5, 0, 0), (0, 5, 0)],
)
def test_the_largest_file_only_gets_smaller(has: int | None, asked: int | None, result: int | None) -> None:
    assert only(narrowed(workshop(max_file_bytes=has), {"max_file_bytes": asked})).max_file_bytes == result


@pytest.mark.parametrize(
    ("name", "has", "asked", "result"),
    [
        ("write_approval", None, None, None),
        ("write_approval", None, True, True),
        ("write_approval", False, True, True),
        ("write_approval", False, False, False),
        ("write_approval", False, None, False),
        ("write_approval", True, True, True),
        ("write_approval", True, None, True),
        ("read_approval", None, True, True),
        # saying false where nothing is said must not overrule the workshop's capability rules
        ("read_approval", None, False, None),
        ("read_approval", False, False, False),
        ("read_approval", True, True, True),
    ],
)
def test_asking_can_be_switched_on(name: str, has: bool | None, asked: bool | None, result: bool | None) -> None:
    assert getattr(only(narrowed(workshop(**{name: has}), {name: asked})), name) is result


@pytest.mark.parametrize(("name", "has"), [("write_approval", True), ("write_approval", None), ("read_approval", True)])
def test_but_not_off(name: str, has: bool | None) -> None:
    with pytest.raises(SandboxEscalation, match=f"has {name}: true; a worker cannot switch it off"):
        narrowed(workshop(**{name: has}), {name: False})
    with pytest.raises(SandboxEscalation):
        narrowed(workshop(**{name: has}), paths(a={"root": ".", name: False}))


def test_the_rules_of_a_path_and_of_its_worker_both_hold() -> None:
    asked = {**paths(a={"root": "in", "max_file_bytes": 9, "suffixes": [".a", ".b"]}), "max_file_bytes": 5}
    mount = only(narrowed(workshop(suffixes=[".b", ".c"]), asked))
    assert (mount.max_file_bytes, mount.suffixes) == (5, (".b",))


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(ValidationError):
        WorkerSandbox.model_validate({"read_only": True})
    with pytest.raises(ValidationError):
        WorkshopSandbox.model_validate({"root": ".", "restrict": "/"})
