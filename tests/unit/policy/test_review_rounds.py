"""Rounds of a review: a layer over files that have moved, and what the answers of people come to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.draft import LayerDraft
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.policy.layers.nodes import FOREIGN, folder_node
from llm_do_temporal.policy.layers.review import ReviewManifest, sections_of
from llm_do_temporal.policy.layers.rounds.rebase import Rebase, rebased
from llm_do_temporal.policy.layers.rounds.settlement import SectionChoice, Settlement, check_file, settled
from llm_do_temporal.policy.layers.sections import Section
from tests.support.workshops.layered import EDITOR, FilesInMind, kept_text, text_file

Work = Callable[[LayerDraft], None]
SHARED = Protection(shared=("data",))
CHANGED = "somebody else has changed it"


def base() -> FilesInMind:
    files = FilesInMind()
    for name in ("data/a.txt", "data/b.txt", "data/d/c.txt", "data/d/x.worker"):
        files.put(name, text_file(name))
    return files


def drafted(*work: Work) -> Layer:
    draft = LayerDraft(NO_LAYER, base(), EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def moved(layer: Layer, *changes: Callable[[FilesInMind], None], folds: bool = False) -> tuple[Rebase, FilesInMind]:
    """Return the layer over files that somebody has changed meanwhile, and these."""
    files = base()
    for change in changes:
        change(files)
    return rebased(layer, files, folds=folds), files


def removed(*paths: str) -> Callable[[FilesInMind], None]:
    def remove(files: FilesInMind) -> None:
        for path in paths:
            del files.nodes[path]

    return remove


def put(path: str, text: str) -> Callable[[FilesInMind], None]:
    return lambda files: files.put(path, text_file(text))


def test_what_only_one_side_has_changed_is_no_conflict() -> None:
    layer = drafted(lambda d: d.write("data/a.txt", kept_text("mine")), lambda d: d.delete("data/d/c.txt"))
    rebase, files = moved(layer, put("data/b.txt", "theirs"), removed("data/d/c.txt"))
    assert (list(rebase.layer.entries), rebase.conflicts) == (["data/a.txt"], {})
    assert against(rebase.layer, files).conflicts == ()


def test_what_both_have_changed_begins_from_what_is_there_now_and_can_be_accepted() -> None:
    layer = drafted(lambda d: d.write("data/a.txt", kept_text("mine")), lambda d: d.delete("data/b.txt"))
    rebase, files = moved(layer, put("data/a.txt", "theirs"), put("data/b.txt", "theirs"))
    assert rebase.conflicts == {"data/a.txt": CHANGED, "data/b.txt": CHANGED}
    assert rebase.layer.entries["data/a.txt"].base == text_file("theirs")
    assert rebase.layer.entries["data/a.txt"].now == text_file("mine")
    assert against(rebase.layer, files).conflicts == ()


def test_a_conflict_that_is_kept_as_it_is_is_one_in_the_next_review_too() -> None:
    layer = drafted(lambda d: d.write("data/a.txt", kept_text("mine")), lambda d: d.delete("data/b.txt"))
    rebase, files = moved(layer, put("data/a.txt", "theirs"), put("data/b.txt", "theirs"))
    manifest = ReviewManifest(
        layer=rebase.layer, sections=sections_of(rebase.layer, SHARED), conflicts=rebase.conflicts, found=rebase.found
    )
    kept = settled(manifest, {Section.ORDINARY: SectionChoice(keeps_rest=True)}).kept
    assert kept.entries == layer.entries
    assert rebased(kept, files) == rebase
    # Of a file that was accepted in part the rest lies over that part.
    part = SectionChoice(in_part={"data/a.txt": text_file("both")}, keeps_rest=True)
    rest = settled(manifest, {Section.ORDINARY: part}).kept
    assert rest.entries["data/a.txt"].base == text_file("both")


def test_folders_that_are_gone_are_made_again_by_what_lies_in_them() -> None:
    layer = drafted(
        lambda d: d.write("data/d/new.txt", kept_text("new")), lambda d: d.write("data/d/c.txt", kept_text("changed"))
    )
    rebase, files = moved(layer, removed("data/d/c.txt", "data/d/x.worker", "data/d"))
    assert list(rebase.conflicts) == ["data/d", "data/d/c.txt", "data/d/new.txt"]
    assert rebase.layer.entries["data/d"].now == folder_node()
    assert against(rebase.layer, files).conflicts == ()


def test_a_renamed_file_is_a_conflict_with_both_its_paths() -> None:
    layer = drafted(lambda d: d.rename("data/a.txt", "data/z.txt"))
    rebase, _files = moved(layer, put("data/z.txt", "theirs"))
    assert rebase.conflicts == {
        "data/a.txt": "it is one file with 'data/z.txt', which somebody else has changed",
        "data/z.txt": CHANGED,
    }
    other, _files = moved(layer, removed("data/a.txt"))
    # That it is gone from its old path is what both wanted.
    assert other.conflicts == {}
    assert list(other.layer.entries) == ["data/z.txt"]


def test_what_can_only_be_refused_stays_and_is_told() -> None:
    layer = drafted(
        lambda d: d.delete("data/d"),
        lambda d: d.write("data/B.txt", kept_text("capitals")),
        lambda d: d.write("data/a.txt", kept_text("mine")),
    )

    def foreign(files: FilesInMind) -> None:
        files.nodes["data/a.txt"] = FOREIGN

    rebase, files = moved(layer, put("data/d/theirs.txt", "new"), foreign, folds=True)
    assert rebase.conflicts == {
        "data/B.txt": "the file system takes its name for that of another file",
        "data/a.txt": "something is there now that can be in no layer, and stays",
        "data/d": "there is something new in the folder that is to go",
    }
    assert [one.path for one in against(rebase.layer, files, folds=True).conflicts] == list(rebase.conflicts)


def test_a_file_in_the_place_of_a_folder_is_refused_with_what_was_to_lie_in_it() -> None:
    layer = drafted(lambda d: d.write("data/d/new.txt", kept_text("new")))
    rebase, files = moved(layer, removed("data/d/c.txt", "data/d/x.worker"), put("data/d", "a file"))
    assert list(rebase.conflicts) == ["data/d/new.txt"]
    assert [one.path for one in against(rebase.layer, files).conflicts] == ["data/d/new.txt"]


def reviewed(*work: Work, **conflicts: str) -> ReviewManifest:
    layer = drafted(*work)
    named = {path: conflicts[path] for path in conflicts}
    return ReviewManifest(layer=layer, sections=sections_of(layer, SHARED), conflicts=named)


def everything(manifest: ReviewManifest, *sections: Section, keeps_rest: bool = False) -> Settlement:
    """Return the settlement where these sections are accepted as a whole, and no others."""
    return settled(
        manifest,
        {one: SectionChoice(whole=manifest.sections[one], keeps_rest=keeps_rest) for one in sections},
    )


MIXED: tuple[Work, ...] = (
    lambda d: d.write("data/n/plain.txt", kept_text("plain")),
    lambda d: d.write("data/n/w.worker", kept_text("worker")),
)


def test_all_that_was_shown_is_accepted_as_it_was_shown() -> None:
    manifest = reviewed(*MIXED)
    settlement = everything(manifest, *manifest.sections)
    assert settlement.accepted.digest() == manifest.layer.digest()
    assert (settlement.rest, settlement.kept, settlement.left_out) == (NO_LAYER, NO_LAYER, {})


def test_nothing_is_accepted_where_nobody_has_chosen() -> None:
    manifest = reviewed(*MIXED)
    settlement = settled(manifest, {})
    assert settlement.accepted == NO_LAYER
    assert settlement.rest.digest() == manifest.layer.digest()
    assert settlement.kept == NO_LAYER


def test_a_new_folder_goes_with_a_file_of_another_section() -> None:
    manifest = reviewed(*MIXED)
    settlement = everything(manifest, Section.DEFINITIONS)
    assert list(settlement.accepted.entries) == ["data/n", "data/n/w.worker"]
    assert list(settlement.rest.entries) == ["data/n/plain.txt"]


def test_no_change_is_accepted_because_one_of_another_section_needs_it() -> None:
    # The folder is to go with a worker that stays.
    manifest = reviewed(lambda d: d.delete("data/d"))
    settlement = everything(manifest, Section.ORDINARY)
    assert list(settlement.accepted.entries) == ["data/d/c.txt"]
    assert settlement.left_out == {"data/d": "data/d/x.worker"}
    # A file in a folder that another section makes, of which nothing was accepted.
    named = reviewed(lambda d: d.write("data/odd.worker/deep/a.txt", kept_text("a")))
    settlement = everything(named, Section.ORDINARY)
    assert settlement.accepted == NO_LAYER
    assert settlement.left_out == dict.fromkeys(
        ("data/odd.worker/deep", "data/odd.worker/deep/a.txt"), "data/odd.worker"
    )


def test_a_file_that_takes_the_place_of_a_folder_is_no_new_folder() -> None:
    manifest = reviewed(lambda d: d.delete("data/a.txt"), lambda d: d.write("data/a.txt/w.worker", kept_text("worker")))
    settlement = everything(manifest, Section.DEFINITIONS)
    assert (settlement.accepted, settlement.left_out) == (NO_LAYER, {"data/a.txt/w.worker": "data/a.txt"})


def test_what_is_not_accepted_stays_where_people_want_that_with_the_folders_it_needs() -> None:
    manifest = reviewed(*MIXED, lambda d: d.write("data/a.txt", kept_text("mine")))
    choices = {
        Section.ORDINARY: SectionChoice(whole=("data/a.txt",)),
        Section.DEFINITIONS: SectionChoice(keeps_rest=True),
    }
    settlement = settled(manifest, choices)
    assert list(settlement.kept.entries) == ["data/n", "data/n/w.worker"]
    assert list(settlement.rest.entries) == ["data/n", "data/n/plain.txt", "data/n/w.worker"]


def test_a_file_is_accepted_in_part_and_the_other_part_stays() -> None:
    manifest = reviewed(lambda d: d.write("data/a.txt", kept_text("mine")))
    choice = SectionChoice(in_part={"data/a.txt": text_file("half")}, keeps_rest=True)
    settlement = settled(manifest, {Section.ORDINARY: choice})
    assert settlement.accepted.entries["data/a.txt"].now == text_file("half")
    assert settlement.kept.entries["data/a.txt"].base == text_file("half")
    assert settlement.kept.entries["data/a.txt"].now == text_file("mine")


def test_what_a_person_has_edited_is_not_put_back_by_what_stays() -> None:
    manifest = reviewed(lambda d: d.rename("data/a.txt", "data/z.txt"))
    choice = SectionChoice(edited={"data/z.txt": text_file("edited")}, keeps_rest=True)
    settlement = settled(manifest, {Section.ORDINARY: choice})
    assert settlement.accepted.entries["data/z.txt"].now == text_file("edited")
    assert settlement.accepted.entries["data/a.txt"].now is None
    assert (settlement.rest, settlement.kept) == (NO_LAYER, NO_LAYER)


def test_an_edited_file_that_is_left_out_is_among_the_rest() -> None:
    manifest = reviewed(lambda d: d.write("data/odd.worker/a.txt", kept_text("a")))
    choice = SectionChoice(edited={"data/odd.worker/a.txt": text_file("edited")})
    settlement = settled(manifest, {Section.ORDINARY: choice})
    assert settlement.accepted == NO_LAYER
    assert "data/odd.worker/a.txt" in settlement.rest.entries


def test_a_path_of_another_section_is_refused() -> None:
    with pytest.raises(DecisionRefused, match=r"'data/n/w\.worker' is not among the changes"):
        settled(reviewed(*MIXED), {Section.ORDINARY: SectionChoice(whole=("data/n/w.worker",))})


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("data/b.txt", "not among the changes"),
        ("data/a.txt", "is no file"),
        ("data/n", "is no file"),
    ],
)
def test_only_a_file_that_is_there_has_parts(path: str, message: str) -> None:
    layer = drafted(lambda d: d.delete("data/a.txt"), *MIXED)
    with pytest.raises(DecisionRefused, match=message):
        check_file(layer, path)
    assert check_file(layer, "data/n/plain.txt") == layer.entries["data/n/plain.txt"]
