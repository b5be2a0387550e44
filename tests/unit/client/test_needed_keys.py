"""The embedded server: variables that open runs need, and other accounts of the machine."""

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
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.messages.runs import StartRunInput

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
