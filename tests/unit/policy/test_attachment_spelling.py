"""What a path that a model gives as an attachment stands for."""

from __future__ import annotations

import pytest

from llm_do_temporal.policy.files.attachments import AttachmentPaths, meant_path
from llm_do_temporal.policy.files.sandbox import Mount, Tree, locate_in_workshop, path_in_tree

MAPPED = AttachmentPaths(path_map={"path/to/deck.txt": "/input/deck.txt"})
BASED = AttachmentPaths(base_path="/input/")


@pytest.mark.parametrize(
    ("paths", "given", "meant"),
    [
        (AttachmentPaths(), "deck.pdf", "deck.pdf"),
        (MAPPED, "path/to/deck.txt", "/input/deck.txt"),
        # one alias, whatever its spelling
        (MAPPED, "./path//to/deck.txt", "/input/deck.txt"),
        (MAPPED, "path/to/other.txt", "path/to/other.txt"),
        (MAPPED, "/path/to/deck.txt", "/path/to/deck.txt"),
        (BASED, "deck.pdf", "/input/deck.pdf"),
        (BASED, "a/deck.pdf", "/input/a/deck.pdf"),
        # absolute ones and named folders are complete
        (BASED, "/deck.pdf", "/deck.pdf"),
        (BASED, "notes:deck.pdf", "notes:deck.pdf"),
        (BASED, "other:deck.pdf", "/input/other:deck.pdf"),
        # nothing is checked here, and nothing gets lost that a check must see
        (BASED, "../deck.pdf", "/input/../deck.pdf"),
        (AttachmentPaths(path_map={"a": "../b"}, base_path="/c"), "a", "../b"),
    ],
)
def test_a_path_is_replaced_or_completed(paths: AttachmentPaths, given: str, meant: str) -> None:
    assert meant_path(paths, given, names=("notes",)) == meant


@pytest.mark.parametrize(
    ("mounts", "file", "seen"),
    [
        ([Mount(at="/", root=".")], "pipeline/deck.pdf", "/pipeline/deck.pdf"),
        ([Mount(at="/", root="files")], "files/deck.pdf", "/deck.pdf"),
        ([Mount(at="/", root="files")], "deck.pdf", None),
        ([Mount(at="/input", root="pipeline")], "pipeline/a/deck.pdf", "/input/a/deck.pdf"),
        # the nearest folder names it
        ([Mount(at="/", root="."), Mount(at="/in", root="pipeline")], "pipeline/deck.pdf", "/in/deck.pdf"),
        # what another folder covers cannot be seen
        ([Mount(at="/", root="."), Mount(at="/docs", root="other")], "docs/deck.pdf", None),
        ([], "deck.pdf", None),
    ],
)
def test_a_file_of_the_workshop_is_found_where_the_tree_shows_it(
    mounts: list[Mount], file: str, seen: str | None
) -> None:
    place = locate_in_workshop(Tree(mounts=tuple(mounts)), file)
    assert (None if place is None else place.path) == seen
    assert path_in_tree(Tree(mounts=tuple(mounts)), file) == (seen or file)
