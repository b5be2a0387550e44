"""Layers: what is read through one, what a draft does to it, how it grows, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import EffectFailed, LlmDoError, SandboxRefusal
from llm_do_temporal.policy.layers import layer as layer_module
from llm_do_temporal.policy.layers.carried import MAX_RECENT, CarriedLayer, carried
from llm_do_temporal.policy.layers.draft import LayerDraft
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, LayerAuthor, LayerEntry, layer_of
from llm_do_temporal.policy.layers.nodes import LayerNode, NodeKind, folder_node, link_node
from llm_do_temporal.policy.layers.view import LayerView
from tests.support.workshops.layered import EDITOR, FilesInMind, kept_text, text_file

Work = Callable[[LayerDraft], None]


def base() -> FilesInMind:
    files = FilesInMind()
    files.put("a.txt", text_file("a", kept=False))
    files.put("src/one.py", text_file("one"))
    files.put("src/deep/two.py", text_file("two", 0o755))
    files.put("link", link_node("src"))
    files.put("empty", folder_node(0o700))
    return files


def drafted(*work: Work, files: FilesInMind | None = None, layer: Layer = NO_LAYER) -> Layer:
    draft = LayerDraft(layer, files or base(), EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def states(layer: Layer) -> dict[str, str | None]:
    return {path: entry.now and entry.now.kind.value for path, entry in layer.changes.items()}


def test_a_file_is_written_with_the_folders_it_needs() -> None:
    layer = drafted(lambda draft: draft.write("new/folder/b.txt", kept_text("b")))
    assert states(layer) == {"new": "folder", "new/folder": "folder", "new/folder/b.txt": "file"}
    assert layer.entries["new/folder/b.txt"].base is None
    assert layer.entries["new/folder/b.txt"].author == EDITOR


def test_a_file_that_is_there_keeps_its_permissions() -> None:
    layer = drafted(lambda draft: draft.write("src/deep/two.py", kept_text("2")))
    entry = layer.entries["src/deep/two.py"]
    assert (entry.now, entry.base) == (text_file("2", 0o755), text_file("two", 0o755))
    assert drafted(lambda draft: draft.write("src/one.py", kept_text("1"), 0o700)).entries["src/one.py"].now == (
        text_file("1", 0o700)
    )


def test_the_base_is_what_was_there_when_a_path_was_first_touched() -> None:
    files = base()
    layer = drafted(lambda draft: draft.write("a.txt", kept_text("1")), files=files)
    files.put("a.txt", text_file("changed by somebody"))
    layer = drafted(lambda draft: draft.write("a.txt", kept_text("2")), files=files, layer=layer)
    assert layer.entries["a.txt"].base == text_file("a", kept=False)


def test_a_folder_is_deleted_file_by_file() -> None:
    layer = drafted(lambda draft: draft.delete("src"))
    assert states(layer) == {"src": None, "src/deep": None, "src/deep/two.py": None, "src/one.py": None}


def test_a_change_that_is_taken_back_is_none() -> None:
    layer = drafted(
        lambda draft: draft.write("a.txt", kept_text("1")), lambda draft: draft.write("a.txt", kept_text("a"))
    )
    assert list(layer.entries) == ["a.txt"]
    assert layer.changes == {}
    assert layer.digest() == NO_LAYER.digest()


def test_a_folder_is_moved_with_all_that_is_in_it_and_its_bytes_are_kept() -> None:
    layer = drafted(lambda draft: draft.rename("src", "empty"), lambda draft: draft.rename("a.txt", "empty/a.txt"))
    view = LayerView(layer, base())
    assert [path for path, _kind in view.walk()] == [
        *("empty", "empty/a.txt", "empty/deep", "empty/deep/two.py", "empty/one.py", "link"),
    ]
    assert layer.entries["empty/a.txt"].now == text_file("a")
    assert layer.entries["empty"].now == folder_node()


def test_a_file_takes_the_place_of_another() -> None:
    layer = drafted(lambda draft: draft.rename("a.txt", "src/one.py"), lambda draft: draft.rename("link", "link"))
    assert states(layer) == {"a.txt": None, "src/one.py": "file"}


def test_permissions_change_and_the_same_ones_change_nothing() -> None:
    layer = drafted(lambda draft: draft.change_mode("a.txt", 0o755), lambda draft: draft.change_mode("empty", 0o700))
    assert layer.entries["a.txt"].now == text_file("a", 0o755)
    assert list(layer.entries) == ["a.txt"]


def test_folders_are_made_and_one_that_is_there_is_left() -> None:
    layer = drafted(lambda draft: draft.folder("x/y", 0o700), lambda draft: draft.folder("src"))
    assert layer.entries["x/y"].now == folder_node(0o700)
    assert states(layer) == {"x": "folder", "x/y": "folder"}


REFUSED: list[tuple[Work, str]] = [
    (lambda d: d.write("src", kept_text("x")), "'src' is a folder, not a file"),
    (lambda d: d.write("link", kept_text("x")), "nothing is written through links"),
    (lambda d: d.write("link/one.py", kept_text("x")), "nothing is written through links"),
    (lambda d: d.write("a.txt/b", kept_text("x")), "'a.txt' is a file, not a folder"),
    (lambda d: d.write("../b", kept_text("x")), "is no path of a layer"),
    (lambda d: d.link("link", "x"), "'link' is there already"),
    (lambda d: d.link("no/link", "x"), "there is no folder 'no'"),
    (lambda d: d.link("link/x", "x"), "nothing is written through links"),
    (lambda d: d.folder("a.txt"), "is there already, and is no folder"),
    (lambda d: d.change_mode("link", 0o600), "only these have permissions"),
    (lambda d: d.change_mode("no", 0o600), "only these have permissions"),
    (lambda d: d.change_mode("a.txt", 0o4755), "set-id bits"),
    (lambda d: d.delete("no"), "'no' does not exist"),
    (lambda d: d.rename("no", "x"), "'no' does not exist"),
    (lambda d: d.rename("src", "src/deep/x"), "cannot be moved into itself"),
    (lambda d: d.rename("src", "a.txt"), "is no empty folder"),
    (lambda d: d.rename("empty", "src"), "is no empty folder"),
    (lambda d: d.rename("a.txt", "src"), "'src' is a folder"),
    (lambda d: d.rename("a.txt", "no/a.txt"), "there is no folder 'no'"),
]


@pytest.mark.parametrize(("work", "says"), REFUSED)
def test_what_makes_no_sense_is_refused_and_changes_nothing(work: Work, says: str) -> None:
    draft = LayerDraft(NO_LAYER, base(), EDITOR)
    with pytest.raises(LlmDoError, match=says):
        work(draft)
    assert draft.layer() == NO_LAYER


def test_a_file_that_vanishes_while_it_is_moved_is_told() -> None:
    class Vanishing(FilesInMind):
        def kept(self, path: str) -> LayerNode | None:
            return None

    files = Vanishing()
    files.put("a.txt", text_file("a", kept=False))
    with pytest.raises(EffectFailed, match="has just been removed"):
        drafted(lambda draft: draft.rename("a.txt", "b.txt"), files=files)


def test_the_view_shows_the_layer_over_the_base() -> None:
    layer = drafted(
        lambda draft: draft.delete("src"),
        lambda draft: draft.write("src/three.py", kept_text("three")),
        lambda draft: draft.delete("a.txt"),
        lambda draft: draft.write("empty/x/y", kept_text("y")),
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
    layer = drafted(lambda draft: draft.delete("src"), lambda draft: draft.write("n", kept_text("n")))
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
    second = drafted(lambda draft: draft.write("src/one.py", kept_text("1")), layer=first)
    updates = second.updates_since(first)
    assert set(updates.entries) == {"src", "src/one.py"}
    assert first.with_updates(updates) == second


def test_what_has_changed_since_an_earlier_layer_is_a_layer_over_it() -> None:
    earlier = drafted(lambda d: d.write("a.txt", kept_text("1")), lambda d: d.write("b", kept_text("b")))
    later = drafted(lambda d: d.write("a.txt", kept_text("2")), lambda d: d.write("c", kept_text("c")), layer=earlier)
    since = later.since(earlier)
    assert {path: (entry.now, entry.base) for path, entry in since.entries.items()} == {
        "a.txt": (text_file("2"), text_file("1")),
        "c": (text_file("c"), None),
    }
    assert earlier.with_layer(since) == later
    # What an earlier layer has and this one never touched goes back to its base.
    assert NO_LAYER.since(earlier).entries["b"].now is None


def test_only_the_entries_of_a_folder_are_enough_to_read_there() -> None:
    layer = drafted(lambda d: d.write("x/y/z", kept_text("z")), lambda d: d.delete("src"))
    assert set(layer.of_folder("x/y")) == {"x", "x/y", "x/y/z"}
    assert layer.of_folder("") == layer.entries


def test_authors_do_not_count_in_the_digest_of_what_is_reviewed() -> None:
    one = {"x": _entry(text_file("x"))}
    other = {"x": LayerEntry(now=text_file("x"), base=None, author=LayerAuthor(invocation="main", turn=9))}
    assert layer_of(one).digest() == layer_of(other).digest() != NO_LAYER.digest()


def test_a_layer_travels_with_what_has_changed_since_its_manifest() -> None:
    earlier = drafted(lambda draft: draft.write("a.txt", kept_text("1")))
    later = drafted(lambda draft: draft.write("b.txt", kept_text("1")), layer=earlier)
    assert carried(later) == CarriedLayer(recent=later)
    travelling = carried(later, "a" * 64, earlier)
    assert list(travelling.recent.entries) == ["b.txt"]
    assert not travelling.is_long
    many = layer_of({f"f{n}": _entry(text_file("x")) for n in range(MAX_RECENT + 1)})
    assert carried(many).is_long
