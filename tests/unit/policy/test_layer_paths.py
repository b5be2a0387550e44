"""Paths and nodes of layers: what can be named, what is the same name, what leads out, and how a node is written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.policy.layers.nodes import (
    LayerNode,
    NodeKind,
    NoFiles,
    alike,
    folder_node,
    link_node,
    node_of,
    same_content,
)
from llm_do_temporal.policy.layers.paths import checked_path, clashes, leads_out, path_of, shown
from tests.support.workshops.layered import text_file


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "is no path of a layer"),
        ("/a", "is no path of a layer"),
        ("a//b", "is no path of a layer"),
        ("a/", "is no path of a layer"),
        ("./a", "is no path of a layer"),
        ("a/../b", "is no path of a layer"),
        ("a\0b", "NUL"),
        ("a/\udcff.txt", r"the name of 'a/\\xff.txt' is not UTF-8"),
        ("n" * 256, "more than the 255 bytes"),
        ("ü" * 200, "more than the 255 bytes"),
        ("/".join(["n" * 200] * 18), "more than the 3500 bytes"),
        ("a/.llm-do/b", "keeps for its own files"),
        (".LLM-Do", "keeps for its own files"),
        ("a/.llm-do-0123456789abcdef.tmp", "keeps for its own files"),
    ],
)
def test_what_no_file_of_a_layer_is_called(path: str, says: str) -> None:
    with pytest.raises(SandboxRefusal, match=says):
        checked_path(path)


@pytest.mark.parametrize("path", ["a", "a/b.txt", ".git/config", "…/ünï", "a b", "-x", "n" * 255])
def test_what_a_file_of_a_layer_is_called(path: str) -> None:
    assert checked_path(path) == path


def test_one_file_that_two_workers_see_by_two_names_has_one_path() -> None:
    whole = Tree(mounts=(Mount(at="/", root="files"),))
    named = Tree(mounts=(Mount(at="/input", root="files/decks"),))
    assert path_of(locate(whole, "/decks/a.pdf")) == path_of(locate(named, "/input/a.pdf")) == "files/decks/a.pdf"


def test_a_name_that_is_no_utf8_is_shown_with_escapes() -> None:
    assert shown("a\udcff") == r"a\xff"


@pytest.mark.parametrize(
    ("paths", "groups"),
    [
        (["a", "b"], ()),
        (["Readme.md", "README.md"], (("README.md", "Readme.md"),)),
        # composed and decomposed
        (["\u00e9", "e\u0301"], (("e\u0301", "\u00e9"),)),
        (["A/x", "a/x", "a/y"], (("A", "a"),)),
        (["A/x", "a/X"], (("A", "a"),)),
        (["A/x", "a/x", "c", "C"], (("A", "a"), ("C", "c"))),
    ],
)
def test_names_that_some_file_systems_take_for_one(paths: list[str], groups: tuple[tuple[str, ...], ...]) -> None:
    assert clashes(paths) == groups


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("link", "/etc/passwd", True),
        ("link", "../x", True),
        ("a/link", "../x", False),
        ("a/link", "../../x", True),
        ("a/link", "b/../../x", False),
        ("a/link", "../.llm-do/blobs", True),
        ("link", "here", False),
    ],
)
def test_links_that_lead_out(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) is out


@pytest.mark.parametrize(
    "node",
    [
        text_file("x", 0o755),
        text_file("x", kept=False),
        text_file("x", 0o4755),
        text_file("x").model_copy(update={"blob": "b" * 64}),
        link_node("../l 644"),
        folder_node(0o700),
    ],
)
def test_a_node_comes_back_from_its_text(node: LayerNode) -> None:
    assert node_of(node.text()) == node
    assert LayerNode.model_validate_json(node.model_dump_json()) == node
    assert LayerNode.model_validate(dict(node)) == node


@pytest.mark.parametrize(
    "text", ["", "x", "f644", f"f999 {'a' * 64} 1", f"f644 {'A' * 64} 1", "d", "d4755x", "l", "l\0"]
)
def test_a_text_that_is_no_node_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        LayerNode.model_validate(text)


@pytest.mark.parametrize("target", ["", "a\0", "\ud800", "x" * 4000])
def test_a_text_that_no_link_can_have(target: str) -> None:
    with pytest.raises(SandboxRefusal, match="the text of the link 'l'"):
        link_node(target, "l")


def test_the_same_for_whoever_looks() -> None:
    assert alike(None, None)
    assert not alike(None, text_file("x"))
    assert alike(text_file("x"), text_file("x", kept=False))
    assert not alike(text_file("x"), text_file("x", 0o600))
    assert same_content(text_file("x"), text_file("x", 0o600))
    assert not same_content(text_file("x"), None)
    assert same_content(None, None)


def test_without_files_there_is_nothing() -> None:
    base = NoFiles()
    assert (base.kind("a"), base.look("a"), base.kept("a"), base.names("")) == (None, None, None, ())
    assert link_node("a").kind is NodeKind.LINK
