"""The embedded server: single worker files, variables that open runs need, and other accounts of the machine."""

from __future__ import annotations

import pwd
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.server import (
    forget_needed,
    lacking,
    logins_in_words,
    other_logins,
    remember_needed,
    state_folder,
)
from llm_do_temporal.client.embedded.single_file import (
    check_single_file,
    enclosing_workshop,
    is_worker_file,
    name_in,
    single_file_workshop,
)
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.messages.runs import StartRunInput


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


WORKSHOP = """
name: test
models:
  own: {model: 'openai-chat:m', base_url: 'http://127.0.0.1:1/v1', api_key_env: TEAM_KEY}
  other: anthropic:m
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workshop whose models need two keys, of which one is set."""
    (tmp_path / "workshop.yaml").write_text(WORKSHOP)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TEAM_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEAM_KEY", "sk-of-the-team")
    return tmp_path


def begun(folder: Path, model: str | None = None) -> None:
    """A run begins with this model."""
    remember_needed(load_workshop(folder), StartRunInput(worker="main", model=model))


def test_a_key_that_was_set_at_a_start_is_missed_later(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(workshop)
    assert lacking(workshop) == []
    monkeypatch.delenv("TEAM_KEY")
    assert lacking(workshop) == ["TEAM_KEY"]
    assert "sk-of-the-team" not in (state_folder(workshop) / "needed.json").read_text()
    forget_needed(workshop)
    assert lacking(workshop) == []


def test_the_key_of_a_model_that_the_start_alone_names_is_missed_too(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(workshop)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    begun(workshop, "openai-chat:gpt")
    for name in ("OPENAI_API_KEY", "TEAM_KEY"):
        monkeypatch.setenv(name, "")
    assert lacking(workshop) == ["OPENAI_API_KEY", "TEAM_KEY"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "{}", "null", "3", '[1, null, "", "A B", "\\u001b[1m", "x\\n", ["y"]]', "[" * 100_000, '"TEAM_KEY"'],
)
def test_a_damaged_note_names_nothing(workshop: Path, text: str) -> None:
    (state_folder(workshop) / "needed.json").write_text(text)
    assert lacking(workshop) == []


def test_a_worker_that_cannot_be_read_leaves_the_note_as_it_was(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(workshop)
    (workshop / "workers").mkdir()
    (workshop / "workers/main.worker").mkdir()
    begun(workshop, "openai-chat:gpt")
    monkeypatch.delenv("TEAM_KEY")
    assert lacking(workshop) == ["TEAM_KEY"]


def test_runs_that_begin_side_by_side_lose_no_name_of_each_other(
    workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"openai:m": "OPENAI_API_KEY", "groq:m": "GROQ_API_KEY", "mistral:m": "MISTRAL_API_KEY"}
    for name in keys.values():
        monkeypatch.setenv(name, "sk-test")
    with ThreadPoolExecutor(len(keys)) as pool:
        list(pool.map(partial(begun, workshop), keys))
    for name in keys.values():
        monkeypatch.delenv(name)
    assert lacking(workshop) == sorted(keys.values())


def account(name: str, uid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", f"/home/{name}", shell))


def test_people_count_and_the_system_and_oneself_do_not() -> None:
    listed = [
        account("root", 0),
        account("www", 33, "/usr/sbin/nologin"),
        account("ada", 1000),
        account("eve", 1002, "/usr/bin/zsh"),
        account("bob", 1001),
        account("gone", 1003, "/bin/false"),
        account("nobody", 65534),
    ]
    assert other_logins(listed, uid=1000) == ["bob", "eve"]
    assert other_logins(listed[:3], uid=1000) == []


def test_many_are_counted_and_some_named() -> None:
    assert logins_in_words([f"user{number}" for number in range(7)]) == "user0, user1, user2, user3, user4 and 2 more"
