"""Review of a layer: its changes, the part that is accepted, sections that are apart, and the steps of the commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llm_do_temporal.errors import DecisionRefused, SandboxRefusal
from llm_do_temporal.extensions.review.policy.review import (
    ReviewManifest,
    Section,
    accepted,
    joined,
    needing,
    section_of,
    sections_of,
    steps_of,
)
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer, changes_of, folder_node, link_node
from tests.support.workshops.layered import EDITOR, FilesInMind, PlayedDraft, laid_over, text_file

Work = Callable[[PlayedDraft], None]


def base() -> FilesInMind:
    files = FilesInMind()
    for name in ("a.txt", "src/one.py", "src/same.py", "other/same.py"):
        files.put(name, text_file("same" if "same" in name else name))
    files.put("empty.txt", text_file(""))
    files.put("ci/.envrc", text_file("layout"))
    return files


def drafted(*work: Work) -> Layer:
    draft = PlayedDraft(NO_LAYER, base(), EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def told(layer: Layer) -> list[str]:
    return [f"{one.kind} {' -> '.join(one.paths)}" for one in changes_of(layer)]


def test_changes_are_told_by_kind_in_the_order_of_their_paths() -> None:
    layer = drafted(
        lambda d: d.write("new/b.txt", text_file("b")),
        lambda d: d.write("a.txt", text_file("changed")),
        lambda d: d.change_mode("src/one.py", 0o755),
        lambda d: d.delete("src/same.py"),
    )
    assert told(layer) == ["modified a.txt", "added new", "added new/b.txt", "mode src/one.py", "deleted src/same.py"]
    assert all(change.author == EDITOR for change in changes_of(layer))


def test_a_renamed_file_is_one_change() -> None:
    layer = drafted(lambda d: d.rename("a.txt", "src/b.txt"))
    assert told(layer) == ["renamed a.txt -> src/b.txt"]
    assert changes_of(layer)[0].base == text_file("a.txt")


def test_of_several_files_with_the_same_bytes_those_with_the_same_name_belong_together() -> None:
    layer = drafted(
        lambda d: d.folder("x"),
        lambda d: d.rename("src/same.py", "x/else.py"),
        lambda d: d.rename("other/same.py", "x/same.py"),
        lambda d: d.write("x/third.py", text_file("same")),
    )
    assert told(layer) == [
        *("added x", "renamed src/same.py -> x/else.py", "renamed other/same.py -> x/same.py", "added x/third.py"),
    ]


def test_empty_files_and_links_are_not_taken_for_renamed() -> None:
    layer = drafted(
        lambda d: d.rename("empty.txt", "b.txt"), lambda d: d.link("l", "a.txt"), lambda d: d.folder("folder")
    )
    assert told(layer) == ["added b.txt", "deleted empty.txt", "added folder", "added l"]


def test_a_renamed_file_is_accepted_with_both_its_paths() -> None:
    layer = drafted(lambda d: d.rename("a.txt", "b.txt"))
    assert joined(layer, ["a.txt"]) == joined(layer, ["b.txt"]) == {"a.txt", "b.txt"}


def test_a_new_file_is_accepted_with_its_folders_and_no_more() -> None:
    layer = drafted(lambda d: d.write("x/y/z", text_file("z")), lambda d: d.write("x/y/other", text_file("o")))
    assert set(accepted(layer, ["x/y/z"]).entries) == {"x", "x/y", "x/y/z"}


def test_a_folder_goes_with_all_that_is_in_it_and_a_file_of_it_alone() -> None:
    layer = drafted(lambda d: d.delete("src"))
    assert joined(layer, ["src"]) == {"src", "src/one.py", "src/same.py"}
    assert joined(layer, ["src/one.py"]) == {"src/one.py"}
    turned = drafted(lambda d: d.delete("src"), lambda d: d.write("src", text_file("a file")))
    assert joined(turned, ["src"]) == {"src", "src/one.py", "src/same.py"}


def test_a_file_in_what_was_a_file_needs_the_folder() -> None:
    layer = drafted(lambda d: d.delete("a.txt"), lambda d: d.write("a.txt/b", text_file("b")))
    assert joined(layer, ["a.txt/b"]) == {"a.txt", "a.txt/b"}


def test_a_folder_that_only_got_other_permissions_is_accepted_by_itself() -> None:
    layer = drafted(lambda d: d.change_mode("src", 0o700), lambda d: d.write("src/one.py", text_file("1")))
    assert joined(layer, ["src"]) == {"src"}
    assert joined(layer, ["src/one.py"]) == {"src/one.py"}


def test_what_was_accepted_and_what_was_not_are_the_whole() -> None:
    layer = drafted(lambda d: d.delete("src"), lambda d: d.write("a.txt", text_file("1")))
    part = accepted(layer, ["src/one.py"])
    assert set(layer.since(part).entries) == {"a.txt", "src", "src/same.py"}
    assert laid_over(part, layer.since(part)) == layer


def test_a_file_is_accepted_in_part() -> None:
    layer = drafted(lambda d: d.write("a.txt", text_file("all of it")))
    part = accepted(layer, [], {"a.txt": text_file("some of it")})
    assert part.entries["a.txt"].now == text_file("some of it")
    assert layer.since(part).entries["a.txt"].base == text_file("some of it")


def test_what_cannot_be_accepted() -> None:
    layer = drafted(lambda d: d.delete("a.txt"), lambda d: d.link("l", "x"), lambda d: d.write("b", text_file("b")))
    with pytest.raises(DecisionRefused, match="'no' is not among the changes"):
        accepted(layer, ["no"])
    for path, node in (("a.txt", text_file("x")), ("l", text_file("x")), ("b", folder_node())):
        with pytest.raises(DecisionRefused, match=f"'{path}' is no file"):
            accepted(layer, [], {path: node})
    with pytest.raises(SandboxRefusal, match="set-id"):
        accepted(layer, [], {"b": text_file("x", 0o6755)})


SECTIONS: list[tuple[Work, list[str]]] = [
    (lambda d: d.write("data/x.txt", text_file("x")), ["ordinary", "ordinary"]),
    (lambda d: d.write("w.worker", text_file("x")), ["definitions"]),
    (lambda d: d.write("data/w.worker", text_file("x")), ["ordinary", "definitions"]),
    (lambda d: d.write("a.py", text_file("x")), ["definitions"]),
    (lambda d: d.write(".git/hooks/pre-commit", text_file("x")), ["automation"] * 3),
    (lambda d: d.write("data/.GIT/config", text_file("x")), ["ordinary", "automation", "automation"]),
    (lambda d: d.write(".github/workflows/ci.yml", text_file("x")), ["ordinary", "automation", "automation"]),
    (lambda d: d.write("Jenkinsfile", text_file("x")), ["automation"]),
    (lambda d: d.link("l", "/etc/passwd"), ["links_out"]),
    (lambda d: d.link("l", "a.txt"), ["ordinary"]),
    (lambda d: d.rename("a.txt", "workshop.yaml"), ["definitions"]),
    # A worker can have the name of a file that a server runs; none has a name that begins with a dot.
    (lambda d: d.write("cloudbuild.yaml", text_file("x")), ["definitions"]),
    (lambda d: d.write("data/cloudbuild.yaml", text_file("x")), ["ordinary", "automation"]),
    (lambda d: d.write(".gitlab-ci.yml", text_file("x")), ["automation"]),
    # Of two sections the stricter one.
    (lambda d: d.rename("ci/.envrc", "own.worker"), ["definitions"]),
    (lambda d: d.rename("src/one.py", "ci/.travis.yml"), ["definitions"]),
    # Out of a section, too.
    (lambda d: d.rename("src/one.py", "one.txt"), ["definitions"]),
]


@pytest.mark.parametrize(("work", "sections"), SECTIONS)
def test_changes_that_give_power_are_apart(work: Work, sections: list[str]) -> None:
    protection = Protection(shared=("data",))
    assert [section_of(change, protection) for change in changes_of(drafted(work))] == sections


def test_steps_come_in_an_order_in_which_each_finds_what_it_needs() -> None:
    layer = drafted(
        lambda d: d.delete("src"),
        lambda d: d.write("src", text_file("a file now")),
        lambda d: d.delete("a.txt"),
        lambda d: d.write("a.txt/in", text_file("a folder now")),
        lambda d: d.delete("other"),
        lambda d: d.change_mode("empty.txt", 0o600),
    )
    assert [f"{step.kind} {step.path}" for step in steps_of(layer)] == [
        *("remove src/same.py", "remove src/one.py", "remove src", "remove a.txt"),
        "make a.txt",
        *("put a.txt/in", "put src"),
        *("remove other/same.py", "remove other"),
        *("mode empty.txt", "mode a.txt"),
    ]


def test_a_link_is_put_over_a_file_and_nothing_has_to_make_room() -> None:
    layer = drafted(
        lambda d: d.delete("a.txt"), lambda d: d.link("a.txt", "src"), lambda d: d.change_mode("src", 0o700)
    )
    put, mode = steps_of(layer)
    assert (put.kind, put.before, put.after) == ("put", text_file("a.txt"), link_node("src"))
    assert (mode.before, mode.after) == (folder_node(), folder_node(0o700))


def test_what_is_not_accepted_keeps_out_what_needs_it() -> None:
    layer = drafted(
        lambda d: d.delete("src"),
        lambda d: d.write("x/y/z", text_file("z")),
        lambda d: d.rename("a.txt", "x/a.txt"),
        lambda d: d.change_mode("ci", 0o700),
        lambda d: d.write("ci/.envrc", text_file("other")),
    )
    assert needing(layer, ["x/y"]) == {"x/y", "x/y/z"}
    assert needing(layer, ["x"]) == {"a.txt", "x", "x/a.txt", "x/y", "x/y/z"}
    assert needing(layer, ["src/one.py"]) == {"src", "src/one.py"}
    assert needing(layer, ["src"]) == {"src", "src/one.py", "src/same.py"}
    assert needing(layer, ["ci"]) == {"ci", "ci/.envrc"}
    assert needing(layer, ["ci/.envrc"]) == {"ci/.envrc"}
    with pytest.raises(DecisionRefused, match=r"'other/same\.py' is not among the changes"):
        needing(layer, ["other/same.py"])


SHARED = Protection(shared=("files",))
MADE = text_file("made").sha256


def layer(*work: Callable[[PlayedDraft], None]) -> Layer:
    base = FilesInMind()
    for name in ("files/a.txt", "files/b.txt", "files/c.txt", "workers/old.worker"):
        base.put(name, text_file(name))
    draft = PlayedDraft(NO_LAYER, base, EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


CASES: list[tuple[Work, dict[Section, tuple[str, ...]]]] = [
    (lambda d: d.write("files/a.txt", text_file("x")), {Section.ORDINARY: ("files/a.txt",)}),
    # A folder goes with what is in it, where all of that is of one section.
    (
        lambda d: d.write("files/new/.ci/run", text_file("x")),
        {Section.AUTOMATION: ("files/new", "files/new/.ci", "files/new/.ci/run")},
    ),
    (
        lambda d: (d.write("files/new/.envrc", text_file("x")), d.write("files/new/a.txt", text_file("x")))[0],
        {Section.ORDINARY: ("files/new", "files/new/a.txt"), Section.AUTOMATION: ("files/new/.envrc",)},
    ),
    (lambda d: d.folder("files/new/empty"), {Section.ORDINARY: ("files/new", "files/new/empty")}),
    (
        lambda d: d.write("made/new.worker", text_file("made")),
        {Section.WORKERS: ("made", "made/new.worker")},
    ),
    # Both paths of a renamed file belong to the section of the one that gives power.
    (
        lambda d: d.rename("files/a.txt", "files/.envrc"),
        {Section.AUTOMATION: ("files/.envrc", "files/a.txt")},
    ),
    (lambda d: d.link("files/out", "../../etc"), {Section.LINKS_OUT: ("files/out",)}),
    # A worker that was made, and is as it was made.
    (lambda d: d.write("workers/new.worker", text_file("made")), {Section.WORKERS: ("workers/new.worker",)}),
    # One that was written over since, one that nobody has made, and one that was there before.
    (lambda d: d.write("workers/new.worker", text_file("x")), {Section.DEFINITIONS: ("workers/new.worker",)}),
    (lambda d: d.write("workers/own.worker", text_file("made")), {Section.DEFINITIONS: ("workers/own.worker",)}),
    (lambda d: d.write("workers/old.worker", text_file("made")), {Section.DEFINITIONS: ("workers/old.worker",)}),
    (lambda d: d.delete("workers/old.worker"), {Section.DEFINITIONS: ("workers/old.worker",)}),
    # A file that was made and is no definition is an ordinary one.
    (lambda d: d.write("files/made.txt", text_file("made")), {Section.ORDINARY: ("files/made.txt",)}),
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
        lambda d: d.write("workers/new.worker", text_file("made")),
        lambda d: d.link("files/out", "/etc"),
        lambda d: d.write("files/c.txt", text_file("changed")),
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
