"""Layers: what is read through one, what a draft does to it, how it grows, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import LlmDoError, SandboxRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate
from llm_do_temporal.policy.layers import layer as layer_module
from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    MAX_RECENT,
    NO_LAYER,
    CarriedLayer,
    Layer,
    LayerAuthor,
    LayerEntry,
    LayerNode,
    NodeKind,
    alike,
    carried,
    checked_path,
    clashes,
    folder_node,
    layer_of,
    leads_out,
    link_node,
    node_of,
    path_of,
    same_content,
    seen_kind,
    seen_node,
    shown,
)
from llm_do_temporal.policy.layers.view import LayerView
from tests.support.workshops.layered import EDITOR, FilesInMind, PlayedDraft, laid_over, text_file

Work = Callable[[PlayedDraft], None]


def base() -> FilesInMind:
    files = FilesInMind()
    files.put("a.txt", text_file("a", kept=False))
    files.put("src/one.py", text_file("one"))
    files.put("src/deep/two.py", text_file("two", 0o755))
    files.put("link", link_node("src"))
    files.put("empty", folder_node(0o700))
    return files


def drafted(*work: Work, files: FilesInMind | None = None, layer: Layer = NO_LAYER) -> Layer:
    draft = PlayedDraft(layer, files or base(), EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def states(layer: Layer) -> dict[str, str | None]:
    return {path: entry.now and entry.now.kind.value for path, entry in layer.changes.items()}


def test_a_file_is_written_with_the_folders_it_needs() -> None:
    layer = drafted(lambda draft: draft.write("new/folder/b.txt", text_file("b")))
    assert states(layer) == {"new": "folder", "new/folder": "folder", "new/folder/b.txt": "file"}
    assert layer.entries["new/folder/b.txt"].base is None
    assert layer.entries["new/folder/b.txt"].author == EDITOR


def test_a_file_that_is_there_keeps_its_permissions() -> None:
    layer = drafted(lambda draft: draft.write("src/deep/two.py", text_file("2")))
    entry = layer.entries["src/deep/two.py"]
    assert (entry.now, entry.base) == (text_file("2", 0o755), text_file("two", 0o755))
    assert drafted(lambda draft: draft.write("src/one.py", text_file("1"), 0o700)).entries["src/one.py"].now == (
        text_file("1", 0o700)
    )


def test_the_base_is_what_was_there_when_a_path_was_first_touched() -> None:
    files = base()
    layer = drafted(lambda draft: draft.write("a.txt", text_file("1")), files=files)
    files.put("a.txt", text_file("changed by somebody"))
    layer = drafted(lambda draft: draft.write("a.txt", text_file("2")), files=files, layer=layer)
    assert layer.entries["a.txt"].base == text_file("a", kept=False)


def test_a_folder_is_deleted_file_by_file() -> None:
    layer = drafted(lambda draft: draft.delete("src"))
    assert states(layer) == {"src": None, "src/deep": None, "src/deep/two.py": None, "src/one.py": None}


def test_a_change_that_is_taken_back_is_none() -> None:
    layer = drafted(
        lambda draft: draft.write("a.txt", text_file("1")), lambda draft: draft.write("a.txt", text_file("a"))
    )
    assert list(layer.entries) == ["a.txt"]
    assert layer.changes == {}
    assert layer.digest() == NO_LAYER.digest()


REFUSED: list[tuple[Work, str]] = [
    (lambda d: d.write("src", text_file("x")), "'src' is a folder, not a file"),
    (lambda d: d.write("link", text_file("x")), "nothing is written through links"),
    (lambda d: d.write("link/one.py", text_file("x")), "nothing is written through links"),
    (lambda d: d.write("a.txt/b", text_file("x")), "'a.txt' is a file, not a folder"),
    (lambda d: d.write("../b", text_file("x")), "is no path of a layer"),
    (lambda d: d.change_mode("a.txt", 0o4755), "set-id bits"),
    (lambda d: d.delete("no"), "'no' does not exist"),
]


@pytest.mark.parametrize(("work", "says"), REFUSED)
def test_what_makes_no_sense_is_refused_and_changes_nothing(work: Work, says: str) -> None:
    draft = PlayedDraft(NO_LAYER, base(), EDITOR)
    with pytest.raises(LlmDoError, match=says):
        work(draft)
    assert draft.layer() == NO_LAYER


def test_the_view_shows_the_layer_over_the_base() -> None:
    layer = drafted(
        lambda draft: draft.delete("src"),
        lambda draft: draft.write("src/three.py", text_file("three")),
        lambda draft: draft.delete("a.txt"),
        lambda draft: draft.write("empty/x/y", text_file("y")),
    )
    files = base()
    files.put("empty/x/hidden", text_file("put there later"))
    view = LayerView(layer, files)
    assert view.names("") == ["empty", "link", "src"]
    assert view.names("src") == ["three.py"]
    assert view.names("no") == view.names("src/three.py") == []
    assert (view.look("src/one.py"), view.kind("a.txt"), view.kind("")) == (None, None, NodeKind.FOLDER)
    # Nothing of the base shines through a folder that is new.
    assert view.names("empty/x") == ["y"]
    assert view.kind("empty/x/hidden") is None
    assert view.look("empty/x/y") == text_file("y")


def test_a_walk_refuses_what_no_layer_can_hold_unless_it_is_lenient() -> None:
    files = base()
    files.nodes["a.pipe"] = text_file("x")
    view = LayerView(NO_LAYER, files)
    with pytest.raises(SandboxRefusal, match="neither a file"):
        list(view.walk())
    assert ("a.txt", NodeKind.FILE) in view.walk(lenient=True)


def test_a_walk_passes_over_what_has_just_gone() -> None:
    class Fleeting(FilesInMind):
        def names(self, path: str) -> tuple[str, ...]:
            return (*super().names(path), "gone")

    assert list(LayerView(NO_LAYER, Fleeting(a=text_file("a"))).walk()) == [("a", NodeKind.FILE)]


@pytest.mark.parametrize(
    ("links", "path", "within", "led_to"),
    [
        ({}, "src/one.py", "", "src/one.py"),
        ({}, "link/one.py", "", "src/one.py"),
        ({"src/up": "../a.txt"}, "link/up", "", "a.txt"),
        ({"src/here": "deep/../one.py"}, "src/here", "src", "src/one.py"),
        ({"src/dots": "./one.py"}, "src/dots", "", "src/one.py"),
    ],
)
def test_links_are_followed_while_they_stay_inside(links: dict[str, str], path: str, within: str, led_to: str) -> None:
    files = base()
    for one, target in links.items():
        files.put(one, link_node(target))
    found = LayerView(NO_LAYER, files).read(path, within)
    assert found == (led_to, files.nodes[led_to])


@pytest.mark.parametrize(
    ("target", "within"),
    [("/etc/passwd", ""), ("../../x", ""), ("../a.txt", "src"), ("../link/one.py", "src"), ("bad", ""), ("..", "src")],
)
def test_links_that_lead_out_or_in_a_circle_are_refused(target: str, within: str) -> None:
    files = base()
    files.put("src/bad", link_node(target))
    with pytest.raises(SandboxRefusal, match=r"leads out|in a circle"):
        LayerView(NO_LAYER, files).read("src/bad", within)


def test_what_is_not_there_is_read_as_nothing() -> None:
    view = LayerView(NO_LAYER, base())
    assert view.read("no") is None
    # The top itself has no node.
    files = base()
    files.put("src/top", link_node(".."))
    assert LayerView(NO_LAYER, files).read("src/top") is None


def test_a_link_that_vanishes_while_it_is_followed_is_no_way_out() -> None:
    class Vanishing(FilesInMind):
        def kind(self, path: str) -> NodeKind | None:
            return NodeKind.LINK if path == "x" else super().kind(path)

    assert LayerView(NO_LAYER, Vanishing()).read("x") is None


def test_a_layer_comes_back_from_json_and_is_short() -> None:
    layer = drafted(lambda draft: draft.delete("src"), lambda draft: draft.write("n", text_file("n")))
    assert Layer.model_validate_json(layer.model_dump_json()) == layer
    assert Layer.model_validate(layer) == layer
    assert len(layer.model_dump_json()) < 100 + 200 * len(layer.entries)


def _entry(now: LayerNode | None, was: LayerNode | None = None) -> LayerEntry:
    return LayerEntry(now=now, base=was, author=EDITOR)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"../x": _entry(text_file("x"))}, "is no path of a layer"),
        ({".llm-do/x": _entry(text_file("x"))}, "keeps for its own files"),
        ({"x": _entry(text_file("x", 0o4755))}, "set-id bits"),
        ({"x": _entry(LayerNode(kind=NodeKind.FILE))}, "without a digest"),
        ({"l": _entry(link_node("/etc")), "l/passwd": _entry(text_file("x"))}, "'l/passwd' lies in what is no folder"),
        ({"d": _entry(None, folder_node()), "d/x": _entry(text_file("x"))}, "lies in what is no folder"),
        ({f"f{n}": _entry(text_file("x")) for n in range(4)}, "at most 3 can be reviewed together"),
    ],
)
def test_entries_that_make_no_layer_are_refused_wherever_they_come_from(
    entries: dict[str, LayerEntry], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_module, "MAX_ENTRIES", 3)
    with pytest.raises(ValidationError, match=says):
        Layer(entries=entries)


def test_set_id_bits_that_were_there_before_may_go() -> None:
    assert Layer(entries={"x": _entry(None, text_file("x", 0o4755))}).changes


def test_a_layer_that_becomes_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_module, "MAX_ENTRIES", 3)
    with pytest.raises(SandboxRefusal, match="4 files, links and folders would be changed; at most 3"):
        drafted(lambda draft: draft.delete("src"))


def test_a_call_returns_what_it_changed_and_no_more() -> None:
    first = drafted(lambda draft: draft.delete("src"))
    second = drafted(lambda draft: draft.write("src/one.py", text_file("1")), layer=first)
    updates = second.updates_since(first)
    assert set(updates.entries) == {"src", "src/one.py"}
    assert first.with_updates(updates) == second


def test_what_has_changed_since_an_earlier_layer_is_a_layer_over_it() -> None:
    earlier = drafted(lambda d: d.write("a.txt", text_file("1")), lambda d: d.write("b", text_file("b")))
    later = drafted(lambda d: d.write("a.txt", text_file("2")), lambda d: d.write("c", text_file("c")), layer=earlier)
    since = later.since(earlier)
    assert {path: (entry.now, entry.base) for path, entry in since.entries.items()} == {
        "a.txt": (text_file("2"), text_file("1")),
        "c": (text_file("c"), None),
    }
    assert laid_over(earlier, since) == later
    # What an earlier layer has and this one never touched goes back to its base.
    assert NO_LAYER.since(earlier).entries["b"].now is None


def test_authors_do_not_count_in_the_digest_of_what_is_reviewed() -> None:
    one = {"x": _entry(text_file("x"))}
    other = {"x": LayerEntry(now=text_file("x"), base=None, author=LayerAuthor(invocation="main", turn=9))}
    assert layer_of(one).digest() == layer_of(other).digest() != NO_LAYER.digest()


def test_a_layer_travels_with_what_has_changed_since_its_manifest() -> None:
    earlier = drafted(lambda draft: draft.write("a.txt", text_file("1")))
    later = drafted(lambda draft: draft.write("b.txt", text_file("1")), layer=earlier)
    assert carried(later) == CarriedLayer(recent=later)
    travelling = carried(later, "a" * 64, earlier)
    assert list(travelling.recent.entries) == ["b.txt"]
    assert not travelling.is_long
    many = layer_of({f"f{n}": _entry(text_file("x")) for n in range(MAX_RECENT + 1)})
    assert carried(many).is_long


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


def test_what_no_layer_can_hold_is_a_node_like_no_other() -> None:
    files = FilesInMind()
    assert (seen_node(files, "a.pipe"), seen_kind(files, "a.pipe")) == (FOREIGN, FOREIGN.kind)
    assert (seen_node(files, "a.txt"), seen_kind(files, "a.txt")) == (None, None)
