"""A worker file outside any workshop: where it is served, and what it cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.single_file import (
    check_single_file,
    enclosing_workshop,
    is_worker_file,
    name_in,
    single_file_workshop,
)
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import DefinitionError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def worker(folder: Path, text: str = "---\ndescription: Hi.\n---\nSay hi.\n", name: str = "greet.worker") -> Path:
    """A worker file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("given", "is_file"),
    [
        ("greet.worker", True),
        ("some/where/greet.yaml", True),
        ("./greet.yml", True),
        # names of workers
        ("greet", False),
        ("pkg:greet", False),
        ("pkg:greet.worker", False),
        ("../greet", False),
    ],
)
def test_a_suffix_tells_a_file_from_a_name(given: str, is_file: bool) -> None:
    assert is_worker_file(given) is is_file


def test_it_is_served_from_the_cache_and_nothing_is_written_beside_it(tmp_path: Path, cache: Path) -> None:
    file = worker(tmp_path / "mine")
    folder = single_file_workshop(file)
    assert folder.is_relative_to(cache)
    assert load_workshop(folder).config.sandbox is None
    assert [path.name for path in file.parent.iterdir()] == ["greet.worker"]
    assert folder.stat().st_mode & 0o077 == 0


def test_every_file_has_a_folder_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    one, other = worker(tmp_path / "one"), worker(tmp_path / "other")
    assert single_file_workshop(one) != single_file_workshop(other)
    assert single_file_workshop(one) == single_file_workshop(one.parent / ".." / "one" / one.name)


def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    folder = single_file_workshop(worker(tmp_path / "mine"))
    worker(tmp_path / "mine", "---\ndescription: Other.\n---\nSay bye.\n")
    assert single_file_workshop(tmp_path / "mine" / "greet.worker") == folder
    assert (folder / "greet.worker").read_text().endswith("Say bye.\n")


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ("toolsets: {filesystem: {}}", "'toolsets.filesystem' asks for files"),
        ("toolsets:\n  delegation: {allow_workers: ['*']}", "'toolsets.delegation' asks for other workers"),
        ("toolsets: {shell: {}}", "'toolsets.shell' asks for commands"),
        ("toolsets: {custom: {slug: {}}}", "'toolsets.custom' asks for Python tools"),
        ("sandbox: {restrict: /src}", "'sandbox' asks for files"),
    ],
)
def test_what_needs_a_workshop_is_refused_with_the_line_and_the_way_out(tmp_path: Path, keys: str, part: str) -> None:
    folder = single_file_workshop(worker(tmp_path / "mine", f"---\n{keys}\n---\nDo it.\n"))
    with pytest.raises(DefinitionError) as refused:
        check_single_file(folder, "greet")
    assert part in refused.value.message
    assert (refused.value.file, refused.value.line) == ("greet.worker", 2 + keys.count("\n"))
    assert "workers/greet.worker" in (refused.value.next_step or "")


def test_a_plain_worker_is_accepted(tmp_path: Path) -> None:
    file = worker(tmp_path / "mine", "---\ndescription: Hi.\nserver_side_tools: [web_search]\n---\nSay hi.\n")
    check_single_file(single_file_workshop(file), name_in(file))


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        # not there
        ("missing.worker", None, "there is no file"),
        # not a worker
        ("workshop.yaml", b"name: x\n", "defines no worker"),
        # too large
        ("big.worker", b"x" * (1024 * 1024 + 1), "larger than"),
    ],
)
def test_a_file_that_cannot_be_a_worker(tmp_path: Path, name: str, content: bytes | None, part: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((UsageError, DefinitionError), match=part):
        single_file_workshop(tmp_path / name)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "dir.worker").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        single_file_workshop(tmp_path / "dir.worker")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(UsageError, match="cannot be made in the cache"):
        single_file_workshop(worker(tmp_path / "mine"))


def test_the_workshop_around_a_file_is_found(tmp_path: Path) -> None:
    file = worker(tmp_path / "shop" / "workers")
    assert enclosing_workshop(file) is None
    (tmp_path / "shop" / "workshop.yaml").write_text("name: x\n")
    assert enclosing_workshop(file) == tmp_path / "shop"
