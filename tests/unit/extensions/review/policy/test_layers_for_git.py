"""Layers that go to git: what it can hold of them, and what stays in the layer of the invocation."""

from __future__ import annotations

from collections.abc import Callable

from llm_do_temporal.extensions.review.policy.review import accepted, for_git, worked_on
from llm_do_temporal.policy.layers.layer import NO_LAYER, Layer
from tests.support.workshops.layered import EDITOR, FilesInMind, PlayedDraft, text_file

Work = Callable[[PlayedDraft], None]


def drafted_files(*work: Callable[[PlayedDraft], None]) -> Layer:
    base = FilesInMind()
    for name in ("a.txt", "b.txt", "d/c.txt", "d/e.txt"):
        base.put(name, text_file(name))
    draft = PlayedDraft(NO_LAYER, base, EDITOR)
    for one in work:
        one(draft)
    return draft.layer()


def test_git_has_no_folders_and_knows_of_permissions_whether_a_file_is_a_program() -> None:
    layer = drafted_files(
        lambda d: d.write("new/n.sh", text_file("run"), 0o700),
        lambda d: d.change_mode("a.txt", 0o600),
        lambda d: d.change_mode("b.txt", 0o755),
        lambda d: d.delete("d"),
        lambda d: d.link("l", "a.txt"),
    )
    kept = for_git(layer)
    assert list(kept.entries) == ["b.txt", "d/c.txt", "d/e.txt", "l", "new/n.sh"]
    assert kept.entries["new/n.sh"].now == text_file("run", 0o755)


def test_what_was_accepted_stays_over_files_that_are_as_they_were_and_what_was_rejected_goes() -> None:
    layer = drafted_files(
        lambda d: d.write("a.txt", text_file("accepted"), 0o600),
        lambda d: d.write("b.txt", text_file("rejected")),
        lambda d: d.write("new/half.txt", text_file("whole")),
        lambda d: d.write("new/kept.txt", text_file("kept")),
    )
    reviewed = for_git(layer)
    part = accepted(reviewed, ["a.txt"], {"new/half.txt": text_file("half")})
    rest = accepted(reviewed, ["new/kept.txt"])
    after = worked_on(layer, reviewed, part, rest)
    assert list(after.entries) == ["a.txt", "new", "new/half.txt", "new/kept.txt"]
    assert after.entries["a.txt"].now == text_file("accepted", 0o600)
    assert after.entries["new/half.txt"].now == text_file("half")
    assert list(worked_on(layer, reviewed, part, NO_LAYER).entries) == ["a.txt", "new", "new/half.txt"]


def test_a_file_whose_removal_was_rejected_is_back_with_its_folder() -> None:
    layer = drafted_files(lambda d: d.delete("d"))
    reviewed = for_git(layer)
    after = worked_on(layer, reviewed, accepted(reviewed, ["d/c.txt"]), NO_LAYER)
    assert list(after.entries) == ["d/c.txt"]
