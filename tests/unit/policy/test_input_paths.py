"""Paths of files that a run reads when it begins by itself: which are refused by their text alone."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.input_paths import check_input_path, input_place, is_hidden_path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/a.txt", "leads out"),
        ("../a.txt", "leads out"),
        ("a/../b.txt", "leads out"),
        ("", "is no path"),
        (".", "is no path"),
        ("a\0b", "is no path"),
        ("a\ud800", "is no path"),
        (".llm-do/x", "its own state"),
        ("a/.LLM-Do/x", "its own state"),
        (".env", "is hidden"),
        ("a/.git/config", "is hidden"),
    ],
    ids=ascii,
)
def test_what_leads_out_or_is_hidden_is_refused(path: str, words: str) -> None:
    with pytest.raises(AttachmentRefusal, match=words):
        check_input_path(path)


def test_a_path_of_the_workshop_is_a_place_in_it() -> None:
    place = input_place("./inbox//news.txt")
    assert (place.relative, place.path, place.mount.root, place.mount.readonly) == (
        "inbox/news.txt",
        "inbox/news.txt",
        ".",
        True,
    )


@pytest.mark.parametrize(("path", "hidden"), [("a/b.c", False), ("a/.b", True), (".a/b", True), ("a..b", False)])
def test_a_part_that_begins_with_a_dot_hides_a_path(path: str, hidden: bool) -> None:
    assert is_hidden_path(path) is hidden
