"""What an editor is told of broken files: what is wrong, on a line that the file has, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.definitions.yaml.documents import Problem
from llm_do_temporal.extensions.lsp.edited_file import edited_file, find_problems


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    (tmp_path / "workshop.yaml").write_text("models: {fast: offline:echo}\n")
    (tmp_path / "workers").mkdir()
    return tmp_path / "workers/broken.worker"


def told(worker: Path, text: str) -> list[Problem]:
    """What is told of the worker while an editor shows this text."""
    edited = edited_file(worker, text)
    assert edited is not None
    return find_problems(edited.root, {edited.path: edited})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "there are no instructions"),
        ("\n\n \n", None, "there are no instructions"),
        ("---", None, "there are no instructions"),
        ("---\n---\n", None, "there are no instructions"),
        ("---\ndescription: x\n", 2, "there are no instructions"),
        ("Read the deck.\nThen say: what is it?\n", 2, "A worker file is keys"),
        ("Read the deck.\n", 1, "A worker file is keys"),
        ("description:x\nmodel:fast\n---\nRead.\n", 1, "a colon and a space"),
        ("description: true\n---\nRead.\n", 1, "In quotes it is text"),
        ("toolsets:\n\tdelegation: {}\n---\nRead.\n", 2, "spaces in place of tabs"),
        ("description: x\nmodel: fast\ndescription: y\n---\nRead.\n", 3, "already stands in line 1"),
        (f"description: ok\nmodel: {'x' * 50_000}\n---\nRead.\n", 2, "neither an alias"),
    ],
)
def test_a_new_user_is_told_what_to_do(
    worker: Path, text: str, mark: str, end: str, line: int | None, words: str
) -> None:
    content = f"{mark}{text}".replace("\n", end)
    worker.write_bytes(content.encode())
    (problem,) = told(worker, content)
    assert problem.line == line
    assert words in f"{problem.message} {problem.next_step}"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("latin-1", "description: café\n---\nRead.\n"),
        ("latin-1", "description: caf\ufffd\n---\nx\n"),
        ("utf-16", "description: x\n---\nx\n"),
    ],
)
def test_a_file_that_only_an_editor_can_read_is_told_of(worker: Path, encoding: str, shown: str) -> None:
    worker.write_bytes("description: café\n---\nRead.\n".encode(encoding))
    (problem,) = told(worker, shown)
    assert (problem.message, problem.next_step) == (
        "'workers/broken.worker' is not UTF-8 text (line 1)",
        "Save it as UTF-8.",
    )
    worker.write_text("description: café\n---\nRead.\n", "utf-8")
    assert told(worker, shown) == []
