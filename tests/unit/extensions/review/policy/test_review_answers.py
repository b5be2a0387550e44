"""Answers to reviews: which changes they accept."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import DecisionRefused, LlmDoError
from llm_do_temporal.extensions.review.policy.review import MAX_COMMENT_CHARS as MAX_COMMENTS
from llm_do_temporal.extensions.review.policy.review import (
    MAX_DIFFERENCES,
    MAX_NAMES,
    LineComment,
    PathDifference,
    Rebase,
    ReturnedSection,
    ReviewAnswer,
    ReviewManifest,
    Section,
    SectionChoice,
    Settlement,
    check_file,
    named,
    rebased,
    review_words,
    sections_of,
    settled,
)
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.layers.layer import (
    FOREIGN,
    NO_LAYER,
    CarriedLayer,
    Layer,
    LayerEntry,
    LayerUpdate,
    NodeKind,
    folder_node,
    layer_of,
)
from llm_do_temporal.policy.layers.merge import against
from tests.support.workshops.layered import EDITOR, FilesInMind, PlayedDraft, laid_over, text_file

SHOWN = "a" * 64
PATHS = ("README.md", "src", "src/a.py", "src/b.py", "src-old/c.py")


def _layer(*paths: str) -> Layer:
    return layer_of({path: LayerEntry(now=text_file("new"), base=None, author=EDITOR) for path in paths})


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, PATHS),
        ({"accept": []}, ()),
        ({"accept": ["src/"]}, ("src", "src/a.py", "src/b.py")),
        ({"accept": ["src/a.py", "src/a.py", "README.md"]}, ("README.md", "src/a.py")),
        # A file that is accepted in part, or as a person has edited it, is not accepted as a whole.
        ({"hunks": {"src/a.py": ["1"]}}, ("README.md", "src", "src/b.py", "src-old/c.py")),
        ({"accept": ["src/"], "edits": {"src/b.py": "b" * 64}}, ("src", "src/a.py")),
    ],
)
def test_an_answer_accepts_exactly_the_paths_that_it_names(
    answer: dict[str, object], accepted: tuple[str, ...]
) -> None:
    taken = ReviewAnswer.model_validate({"changes": SHOWN, **answer}).paths(_layer(*PATHS))

    assert sorted(taken) == sorted(accepted)


def test_a_conflict_is_accepted_by_its_name_and_by_no_folder_or_star() -> None:
    layer, conflicts = _layer(*PATHS), frozenset({"src/a.py"})

    assert "src/a.py" not in ReviewAnswer(changes=SHOWN).paths(layer, conflicts)
    for folder in ("src/", "/"):
        assert "src/a.py" not in ReviewAnswer(changes=SHOWN, accept=(folder,)).paths(layer, conflicts)
    with pytest.raises(DecisionRefused, match="by somebody else"):
        ReviewAnswer(changes=SHOWN, accept=("src/",)).paths(_layer("src/a.py"), conflicts)
    assert "src/a.py" in ReviewAnswer(changes=SHOWN, accept=("*", "src/a.py")).paths(layer, conflicts)


@pytest.mark.parametrize("everything", ["*", "/"])
def test_everything_is_named_in_two_ways_while_no_file_has_the_name_of_one(everything: str) -> None:
    assert sorted(ReviewAnswer(changes=SHOWN, accept=(everything,)).paths(_layer(*PATHS))) == sorted(PATHS)


def test_a_file_called_like_a_word_is_accepted_by_its_path_alone() -> None:
    """The name of a changed file is chosen by the model."""
    layer = _layer("*", "**", "./a", "b", "c/*")
    with pytest.raises(DecisionRefused, match="may mean all changes, or the changed file"):
        ReviewAnswer(changes=SHOWN, accept=("*",)).paths(layer)
    for path in layer.changes:
        assert ReviewAnswer(changes=SHOWN, accept=(named(path),)).paths(layer) == [path]
    assert sorted(ReviewAnswer(changes=SHOWN).paths(layer)) == sorted(layer.changes)


@pytest.mark.parametrize("name", ["src/z.py", "srcs/", "", "../README.md", "SRC/a.py"])
def test_a_path_that_was_not_shown_is_refused(name: str) -> None:
    with pytest.raises(DecisionRefused, match="not among the changes"):
        ReviewAnswer(changes=SHOWN, accept=(name,)).paths(_layer(*PATHS))


@pytest.mark.parametrize("comment", [{"path": "a", "text": ""}, {"path": "a", "line": 0, "text": "x"}])
def test_a_comment_has_words_and_a_line_of_the_file(comment: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LineComment.model_validate(comment)


def test_an_update_is_put_over_the_layer_or_comes_with_a_manifest_of_its_own() -> None:
    before = CarriedLayer(manifest="c" * 64, recent=_layer("a"))

    assert before.updated(LayerUpdate(entries=_layer("b"))) == CarriedLayer(manifest="c" * 64, recent=_layer("a", "b"))
    assert before.updated(LayerUpdate(entries=_layer("b"), manifest=SHOWN)).recent == _layer("b")


def difference(path: str, text: str = "@@ -1,1 +1,1 @@\n-old\n+new\n") -> PathDifference:
    return PathDifference(path=path, difference=text)


def test_where_there_is_nothing_to_tell_there_are_no_words() -> None:
    assert review_words([ReturnedSection(section=Section.ORDINARY, by="ada")]) == ""


def test_all_that_happened_is_told_in_plain_text() -> None:
    told = ReturnedSection(
        section=Section.ORDINARY,
        by="ada",
        note="the old name stays",
        rejected=("/a.py (modified)",),
        in_part=(difference("/b.py"),),
        edited=(difference("/c.py"), difference("/c.png", "")),
        left_out=(("/d (deleted)", "/d/w.worker"),),
        comments=(
            LineComment(path="/b.py", line=12, text="why?\nsee the tests"),
            LineComment(path="/c.py", text="better so"),
        ),
    )
    assert review_words([told]) == (
        "Not accepted. They are again as they were before:\n- /a.py (modified)\n\n"
        "Accepted in part. What follows was not accepted, and is not in the files:\n"
        "/b.py:\n@@ -1,1 +1,1 @@\n-old\n+new\n\n"
        "Accepted as ada has changed it; the files have this now:\n/c.py:\n@@ -1,1 +1,1 @@\n-old\n+new\n- /c.png\n\n"
        "Left out, since each needs another change that was not accepted:\n- /d (deleted), because of /d/w.worker\n\n"
        "Comments of ada:\n/b.py:12: why?\n    see the tests\n/c.py: better so\n\n"
        "Said by ada: the old name stays"
    )


def test_what_stays_is_told_and_another_section_by_its_name() -> None:
    told = ReturnedSection(
        section=Section.LINKS_OUT, keeps_rest=True, rejected=("/l (added)",), in_part=(difference("/b"),), note="no"
    )
    words = review_words([told])
    assert "Not accepted (links out). They are still among your changes:\n- /l (added)" in words
    assert "was not accepted, and is still among your changes:" in words
    assert "Said by the review (links out): no" in words


def test_a_name_cannot_be_taken_for_another_line() -> None:
    told = ReturnedSection(section=Section.ORDINARY, by="a\nb", rejected=("/x\nSaid by ada: all fine",), note="no")
    words = review_words([told])
    assert "- /x\\nSaid by ada: all fine" in words
    assert "Said by a\\nb: no" in words


def test_however_much_was_rejected_the_words_are_bounded() -> None:
    many = [f"/file-{number}" for number in range(10_000)]
    told = ReturnedSection(
        section=Section.ORDINARY,
        rejected=tuple(many),
        in_part=tuple(difference(name, "+x\n" * 1_000) for name in many),
        comments=tuple(LineComment(path=name, text="y" * 4_000) for name in many[:200]),
    )
    words = review_words([told, told])
    assert words.count("+x\n") <= MAX_DIFFERENCES // 3
    assert words.count("y" * 4_000) == MAX_COMMENTS // 4_000 - 1
    assert "and 191 more comments" in words
    assert f"- and {10_000 - MAX_NAMES} more" in words
    assert len(words) < 80_000


Work = Callable[[PlayedDraft], None]
SHARED = Protection(shared=("data",))
CHANGED = "somebody else has changed it"


def base() -> FilesInMind:
    files = FilesInMind()
    for name in ("data/a.txt", "data/b.txt", "data/d/c.txt", "data/d/x.worker"):
        files.put(name, text_file(name))
    return files


def drafted(*work: Work) -> Layer:
    draft = PlayedDraft(NO_LAYER, base(), EDITOR)
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
    layer = drafted(lambda d: d.write("data/a.txt", text_file("mine")), lambda d: d.delete("data/d/c.txt"))
    rebase, files = moved(layer, put("data/b.txt", "theirs"), removed("data/d/c.txt"))
    assert (list(rebase.layer.entries), rebase.conflicts) == (["data/a.txt"], {})
    assert against(rebase.layer, files).conflicts == ()


def test_what_both_have_changed_begins_from_what_is_there_now_and_can_be_accepted() -> None:
    layer = drafted(lambda d: d.write("data/a.txt", text_file("mine")), lambda d: d.delete("data/b.txt"))
    rebase, files = moved(layer, put("data/a.txt", "theirs"), put("data/b.txt", "theirs"))
    assert rebase.conflicts == {"data/a.txt": CHANGED, "data/b.txt": CHANGED}
    assert rebase.layer.entries["data/a.txt"].base == text_file("theirs")
    assert rebase.layer.entries["data/a.txt"].now == text_file("mine")
    assert against(rebase.layer, files).conflicts == ()


def test_a_conflict_that_is_kept_as_it_is_is_one_in_the_next_review_too() -> None:
    layer = drafted(lambda d: d.write("data/a.txt", text_file("mine")), lambda d: d.delete("data/b.txt"))
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
        lambda d: d.write("data/d/new.txt", text_file("new")), lambda d: d.write("data/d/c.txt", text_file("changed"))
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
        lambda d: d.write("data/B.txt", text_file("capitals")),
        lambda d: d.write("data/a.txt", text_file("mine")),
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
    layer = drafted(lambda d: d.write("data/d/new.txt", text_file("new")))
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
    lambda d: d.write("data/n/plain.txt", text_file("plain")),
    lambda d: d.write("data/n/w.worker", text_file("worker")),
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
    named = reviewed(lambda d: d.write("data/odd.worker/deep/a.txt", text_file("a")))
    settlement = everything(named, Section.ORDINARY)
    assert settlement.accepted == NO_LAYER
    assert settlement.left_out == dict.fromkeys(
        ("data/odd.worker/deep", "data/odd.worker/deep/a.txt"), "data/odd.worker"
    )


def test_a_file_that_takes_the_place_of_a_folder_is_no_new_folder() -> None:
    manifest = reviewed(lambda d: d.delete("data/a.txt"), lambda d: d.write("data/a.txt/w.worker", text_file("worker")))
    settlement = everything(manifest, Section.DEFINITIONS)
    assert (settlement.accepted, settlement.left_out) == (NO_LAYER, {"data/a.txt/w.worker": "data/a.txt"})


def test_what_is_not_accepted_stays_where_people_want_that_with_the_folders_it_needs() -> None:
    manifest = reviewed(*MIXED, lambda d: d.write("data/a.txt", text_file("mine")))
    choices = {
        Section.ORDINARY: SectionChoice(whole=("data/a.txt",)),
        Section.DEFINITIONS: SectionChoice(keeps_rest=True),
    }
    settlement = settled(manifest, choices)
    assert list(settlement.kept.entries) == ["data/n", "data/n/w.worker"]
    assert list(settlement.rest.entries) == ["data/n", "data/n/plain.txt", "data/n/w.worker"]


def test_a_file_is_accepted_in_part_and_the_other_part_stays() -> None:
    manifest = reviewed(lambda d: d.write("data/a.txt", text_file("mine")))
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
    manifest = reviewed(lambda d: d.write("data/odd.worker/a.txt", text_file("a")))
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


FOLDERS = ("data", "data/a", "data/a/b", "data/x.worker", ".ci", "data/c")
NAMES = ("one.txt", "two.txt", "w.worker", ".envrc", "b", "link")


def _path(chance: random.Random) -> str:
    return f"{chance.choice(FOLDERS)}/{chance.choice(NAMES)}"


def _base(chance: random.Random) -> FilesInMind:
    files = FilesInMind()
    for _ in range(chance.randint(3, 12)):
        path = _path(chance)
        if path not in files.nodes and not any(
            over in files.nodes and files.nodes[over].sha256 for over in _over(path)
        ):
            files.put(path, text_file(chance.choice("abc"), chance.choice([0o644, 0o755])))
    return files


def _over(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _drafted(chance: random.Random, files: FilesInMind) -> Layer:
    draft = PlayedDraft(NO_LAYER, files, EDITOR)
    for _ in range(chance.randint(1, 15)):
        path, other = _path(chance), _path(chance)
        step = chance.choice(("write", "write", "delete", "folder", "rename", "link", "empty"))
        try:
            if step == "write":
                draft.write(path, text_file(chance.choice("abcdef")))
            elif step == "rename":
                draft.rename(path, other)
            elif step == "link":
                draft.link(path, chance.choice(["one.txt", "/etc"]))
            elif step == "empty":
                draft.delete(chance.choice(FOLDERS))
            elif step == "folder":
                draft.folder(path)
            else:
                draft.delete(path)
        except LlmDoError:
            continue  # what makes no sense in this state of the files
    return draft.layer()


def _moved(chance: random.Random, files: FilesInMind) -> None:
    """Have somebody else change the files."""
    for _ in range(chance.randint(0, 4)):
        path = _path(chance)
        node = files.nodes.get(path)
        if chance.random() < 0.3:
            for one in [one for one in files.nodes if one == path or one.startswith(f"{path}/")]:
                del files.nodes[one]
        elif chance.random() < 0.1:
            folder = chance.choice(FOLDERS)
            for one in [one for one in files.nodes if one == folder or one.startswith(f"{folder}/")]:
                del files.nodes[one]
        elif not any(
            over in files.nodes and files.nodes[over].kind is not NodeKind.FOLDER for over in _over(path)
        ) and (node is None or node.kind is NodeKind.FILE):
            files.put(path, text_file(chance.choice("xyz")))


def _can_be_accepted(rebase: Rebase) -> bool:
    """Return whether every conflict is one that people may decide."""
    words = ("somebody else has", "somebody has removed this folder", "it is one file with")
    return all(reason.startswith(words) for reason in rebase.conflicts.values())


@pytest.mark.parametrize("seed", range(400))
def test_what_was_accepted_can_be_committed_and_is_of_the_accepted_sections(seed: int) -> None:
    chance = random.Random(seed)
    files = _base(chance)
    drafted = _drafted(chance, files)
    _moved(chance, files)
    rebase = rebased(drafted, files)
    read = Layer.model_validate_json(rebase.layer.model_dump_json())
    assert read.digest() == rebase.layer.digest()
    sections = sections_of(read, SHARED)
    manifest = ReviewManifest(layer=read, sections=sections, conflicts=rebase.conflicts)
    choices: dict[Section, SectionChoice] = {}
    for section, paths in sections.items():
        free = [path for path in paths if path not in rebase.conflicts or _can_be_accepted(rebase)]
        if chance.random() < 0.7:
            choices[section] = SectionChoice(
                whole=tuple(chance.sample(free, chance.randint(0, len(free)))), keeps_rest=chance.random() < 0.5
            )
    settlement = settled(manifest, choices)

    part = settlement.accepted
    assert against(part, files).conflicts == (), seed
    belongs = {path: section for section, paths in sections.items() for path in paths}
    for path, entry in part.changes.items():
        is_new_folder = entry.base is None and entry.now is not None and entry.now.kind is NodeKind.FOLDER
        assert belongs[path] in choices or (is_new_folder and belongs[path] is Section.ORDINARY), (seed, path)
    assert laid_over(part, settlement.rest).digest() == read.digest()
    assert settlement.kept.entries.items() <= settlement.rest.entries.items()
    # What is kept is a layer by itself, over the files with what was accepted.
    Layer.model_validate_json(settlement.kept.model_dump_json())
    for path in settlement.kept.entries:
        kept = belongs[path]
        assert kept in choices or settlement.kept.entries[path].base is None
