"""Merge of layers: with that of a child, and with a base that has moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, folder_node
from llm_do_temporal.policy.layers.merge import ConflictKind, Merge, against, merged
from tests.support.workshops.layered import EDITOR, FilesInMind, PlayedDraft, text_file

Work = Callable[[PlayedDraft], None]


def base() -> FilesInMind:
    files = FilesInMind()
    for name in ("a.txt", "b.txt", "src/one.py", "src/two.py"):
        files.put(name, text_file(name))
    return files


def drafted(*work: Work, layer: Layer = NO_LAYER, files: FilesInMind | None = None) -> Layer:
    draft = PlayedDraft(layer, files or base(), EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def writing(path: str, text: str) -> Work:
    return lambda draft: draft.write(path, text_file(text))


def deleting(path: str) -> Work:
    return lambda draft: draft.delete(path)


def conflicts(merge: Merge) -> dict[str, ConflictKind]:
    return {one.path: one.kind for one in merge.conflicts}


def test_what_a_child_changed_joins_what_its_caller_and_siblings_did() -> None:
    fork = drafted(writing("a.txt", "1"))
    mine = drafted(writing("b.txt", "mine"), layer=fork)
    child = drafted(writing("a.txt", "2"), writing("new.txt", "n"), deleting("src/one.py"), layer=fork)
    merge = merged(mine, child, fork)
    assert merge.conflicts == ()
    assert merge.layer == drafted(
        writing("a.txt", "2"), writing("new.txt", "n"), deleting("src/one.py"), writing("b.txt", "mine")
    )


def test_a_child_that_takes_a_change_back_has_changed_it() -> None:
    fork = drafted(writing("a.txt", "1"))
    child = drafted(writing("a.txt", "a.txt"), layer=fork)
    assert merged(fork, child, fork).layer.changes == {}


def test_both_may_do_the_same() -> None:
    mine, child = drafted(writing("n", "x"), deleting("a.txt")), drafted(writing("n", "x"), deleting("a.txt"))
    assert merged(mine, child, NO_LAYER) == Merge(layer=mine)


@pytest.mark.parametrize(
    ("mine", "child"),
    [
        (writing("a.txt", "1"), writing("a.txt", "2")),
        (writing("a.txt", "1"), deleting("a.txt")),
        (deleting("a.txt"), writing("a.txt", "2")),
        (writing("new", "1"), writing("new", "2")),
    ],
)
def test_what_both_changed_differently_is_a_conflict_and_the_layer_keeps_its_side(mine: Work, child: Work) -> None:
    ours, theirs = drafted(mine), drafted(child)
    merge = merged(ours, theirs, NO_LAYER)
    assert list(conflicts(merge).values()) == [ConflictKind.BOTH_CHANGED]
    assert merge.layer == ours
    [conflict] = merge.conflicts
    assert str(conflict) == f"{conflict.path}: it was changed on both sides"


def test_a_file_of_a_child_in_a_folder_that_is_gone_is_a_conflict() -> None:
    ours = drafted(deleting("src"))
    merge = merged(ours, drafted(writing("src/three.py", "3")), NO_LAYER)
    assert conflicts(merge) == {"src/three.py": ConflictKind.PLACE_GONE}
    assert merge.layer == ours


def test_a_child_cannot_remove_the_folder_of_a_file_that_is_new() -> None:
    fork = drafted(writing("src/one.py", "1"))
    ours = drafted(writing("src/new/three.py", "3"), layer=fork)
    merge = merged(ours, drafted(deleting("src"), layer=fork), fork)
    assert conflicts(merge) == {"src": ConflictKind.PLACE_GONE}
    assert merge.layer.entries["src/new/three.py"].now == text_file("3")
    assert "src" not in merge.layer.entries


def test_a_folder_that_was_touched_before_keeps_the_state_that_it_had() -> None:
    fork = drafted(lambda draft: draft.change_mode("src", 0o700))
    ours = drafted(writing("src/three.py", "3"), layer=fork)
    merge = merged(ours, drafted(deleting("src"), layer=fork), fork)
    assert conflicts(merge) == {"src": ConflictKind.PLACE_GONE}
    assert merge.layer.entries["src"].now == folder_node(0o700)


def test_a_layer_goes_on_over_a_base_that_changed_elsewhere() -> None:
    layer = drafted(writing("a.txt", "1"), deleting("src/one.py"), writing("x/y", "y"))
    files = base()
    files.put("b.txt", text_file("changed"))
    files.put("x", folder_node())
    files.nodes.pop("src/one.py")
    merge = against(layer, files)
    assert merge.conflicts == ()
    # What the base has already is no change any more.
    assert set(merge.layer.entries) == {"a.txt", "x/y"}


def test_only_what_changed_on_both_sides_is_a_conflict() -> None:
    layer = drafted(writing("a.txt", "1"), writing("b.txt", "1"), writing("new", "1"), deleting("src/one.py"))
    files = base()
    files.put("a.txt", text_file("a.txt", 0o600))
    files.put("new", text_file("theirs"))
    files.put("src/one.py", text_file("theirs"))
    merge = against(layer, files)
    assert conflicts(merge) == dict.fromkeys(("a.txt", "new", "src/one.py"), ConflictKind.BOTH_CHANGED)
    assert list(merge.layer.entries) == ["b.txt"]


def test_a_new_file_whose_folder_is_gone_or_a_file_by_now_is_a_conflict() -> None:
    layer = drafted(writing("src/three.py", "3"))
    files = base()
    for name in ("src/one.py", "src/two.py", "src"):
        del files.nodes[name]
    assert conflicts(against(layer, files)) == {"src/three.py": ConflictKind.PLACE_GONE}
    files.put("src", text_file("a file now"))
    assert conflicts(against(layer, files)) == {"src/three.py": ConflictKind.PLACE_GONE}


def test_a_folder_that_somebody_put_something_into_stays_and_so_do_those_around_it() -> None:
    files = base()
    files.put("out/in/x", text_file("x"))
    layer = drafted(deleting("out"), files=files)
    assert against(layer, files).conflicts == ()
    files.put("out/in/new", text_file("new"))
    merge = against(layer, files)
    assert conflicts(merge) == {"out": ConflictKind.NOT_EMPTY, "out/in": ConflictKind.NOT_EMPTY}
    assert list(merge.layer.entries) == ["out/in/x"]


def test_a_folder_cannot_turn_into_a_file_while_something_is_in_it() -> None:
    layer = drafted(deleting("src"), writing("src", "a file now"))
    files = base()
    files.put("src/new", text_file("new"))
    assert conflicts(against(layer, files)) == {"src": ConflictKind.NOT_EMPTY}


def test_a_new_folder_that_is_something_else_by_now_takes_its_files_with_it() -> None:
    layer = drafted(writing("x/y", "y"))
    files = base()
    files.put("x", text_file("theirs"))
    assert conflicts(against(layer, files)) == {"x": ConflictKind.BOTH_CHANGED, "x/y": ConflictKind.PLACE_GONE}


def test_names_in_other_capitals_are_a_conflict_where_the_file_system_folds_them() -> None:
    layer = drafted(
        writing("A.TXT", "other"), writing("Src/x", "x"), writing("one", "1"), writing("ONE", "2"), deleting("b.txt"),
        writing("B.txt", "renamed"),
    )  # fmt: skip
    assert against(layer, base()).conflicts == ()
    folded = against(layer, base(), folds=True)
    assert conflicts(folded) == dict.fromkeys(("A.TXT", "ONE", "Src", "Src/x", "one"), ConflictKind.SAME_NAME)
    assert set(folded.layer.entries) == {"B.txt", "b.txt"}
