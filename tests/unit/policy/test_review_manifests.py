"""Manifests of reviews: each change belongs to one section, and a section is a layer by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.changes import changes_of
from llm_do_temporal.policy.layers.draft import LayerDraft
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from llm_do_temporal.policy.layers.review import ReviewManifest, sections_of
from llm_do_temporal.policy.layers.sections import Section
from tests.support.workshops.layered import EDITOR, FilesInMind, kept_text, text_file

SHARED = Protection(shared=("files",))
MADE = text_file("made").sha256


def layer(*work: Callable[[LayerDraft], None]) -> Layer:
    base = FilesInMind()
    for name in ("files/a.txt", "files/b.txt", "files/c.txt", "workers/old.worker"):
        base.put(name, text_file(name))
    draft = LayerDraft(NO_LAYER, base, EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


Work = Callable[[LayerDraft], None]
CASES: list[tuple[Work, dict[Section, tuple[str, ...]]]] = [
    (lambda d: d.write("files/a.txt", kept_text("x")), {Section.ORDINARY: ("files/a.txt",)}),
    # A folder goes with what is in it, where all of that is of one section.
    (
        lambda d: d.write("files/new/.ci/run", kept_text("x")),
        {Section.AUTOMATION: ("files/new", "files/new/.ci", "files/new/.ci/run")},
    ),
    (
        lambda d: (d.write("files/new/.envrc", kept_text("x")), d.write("files/new/a.txt", kept_text("x")))[0],
        {Section.ORDINARY: ("files/new", "files/new/a.txt"), Section.AUTOMATION: ("files/new/.envrc",)},
    ),
    (lambda d: d.folder("files/new/empty"), {Section.ORDINARY: ("files/new", "files/new/empty")}),
    (
        lambda d: d.write("made/new.worker", kept_text("made")),
        {Section.WORKERS: ("made", "made/new.worker")},
    ),
    # Both paths of a renamed file belong to the section of the one that gives power.
    (
        lambda d: d.rename("files/a.txt", "files/.envrc"),
        {Section.AUTOMATION: ("files/.envrc", "files/a.txt")},
    ),
    (lambda d: d.link("files/out", "../../etc"), {Section.LINKS_OUT: ("files/out",)}),
    # A worker that was made, and is as it was made.
    (lambda d: d.write("workers/new.worker", kept_text("made")), {Section.WORKERS: ("workers/new.worker",)}),
    # One that was written over since, one that nobody has made, and one that was there before.
    (lambda d: d.write("workers/new.worker", kept_text("x")), {Section.DEFINITIONS: ("workers/new.worker",)}),
    (lambda d: d.write("workers/own.worker", kept_text("made")), {Section.DEFINITIONS: ("workers/own.worker",)}),
    (lambda d: d.write("workers/old.worker", kept_text("made")), {Section.DEFINITIONS: ("workers/old.worker",)}),
    (lambda d: d.delete("workers/old.worker"), {Section.DEFINITIONS: ("workers/old.worker",)}),
    # A file that was made and is no definition is an ordinary one.
    (lambda d: d.write("files/made.txt", kept_text("made")), {Section.ORDINARY: ("files/made.txt",)}),
    (lambda _: None, {}),
]


@pytest.mark.parametrize(("work", "sections"), CASES)
def test_each_change_belongs_to_one_section(work: Work, sections: dict[Section, tuple[str, ...]]) -> None:
    created = {"workers/new.worker": MADE, "workers/old.worker": MADE, "files/made.txt": MADE, "made/new.worker": MADE}

    assert sections_of(layer(work), SHARED, created) == sections


def test_the_sections_of_a_manifest_are_all_its_changes_and_none_twice() -> None:
    whole = layer(
        lambda d: d.rename("files/a.txt", "files/.envrc"),
        lambda d: d.folder("files/d"),
        lambda d: d.rename("files/b.txt", "files/d/b.txt"),
        lambda d: d.write("workers/new.worker", kept_text("made")),
        lambda d: d.link("files/out", "/etc"),
        lambda d: d.write("files/c.txt", kept_text("changed")),
    )
    manifest = ReviewManifest(
        layer=whole, sections=sections_of(whole, SHARED), conflicts={"files/c.txt": "it was changed on both sides"}
    )
    read = ReviewManifest.model_validate_json(manifest.model_dump_json())

    assert read == manifest
    together = [change for section in Section for change in read.changes(section)]
    assert sorted(together, key=lambda change: change.path) == sorted(changes_of(whole), key=lambda change: change.path)
    assert read.of(Section.WORKERS).entries == {}
    assert read.conflicts_of(Section.ORDINARY) == {"files/c.txt": "it was changed on both sides"}
    assert read.conflicts_of(Section.AUTOMATION) == {}
