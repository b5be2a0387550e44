"""The file of tokens under hostile conditions: made and revoked at once, broken, replaced, led elsewhere, opened."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.errors import AccessRefused, UsageError

READ = frozenset({TokenScope.READ})
MAKE = """
import sys
from pathlib import Path
from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.doors.principal import TokenFile
from llm_do_temporal.errors import AccessRefused, UsageError
tokens, made = TokenFile.of_workshop(Path(sys.argv[1])), 0
while made < 10:
    try:
        tokens.create(f"{sys.argv[2]}-{made}", frozenset({TokenScope.READ}), is_person=False)
        made += 1
        if made % 2:
            while True:
                try:
                    tokens.revoke(f"{sys.argv[2]}-{made - 1}")
                    break
                except UsageError as error:
                    assert "another program changes" in error.message, error.message
    except UsageError as error:
        assert "another program changes" in error.message, error.message
"""


def names(tokens: TokenFile) -> list[str]:
    return [one.name for one in tokens.records()]


@pytest.mark.thorough
def test_programs_that_make_and_revoke_at_once_lose_nothing(tmp_path: Path) -> None:
    makers = [subprocess.Popen([sys.executable, "-c", MAKE, str(tmp_path), f"p{n}"]) for n in range(4)]
    assert [one.wait() for one in makers] == [0] * 4
    assert names(TokenFile.of_workshop(tmp_path)) == sorted(f"p{n}-{m}" for n in range(4) for m in range(1, 10, 2))


def test_whoever_reads_meanwhile_sees_one_state_or_the_other(tmp_path: Path) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    kept = tokens.create("kept", READ, is_person=True)
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(lambda: [_turn(tokens) for _ in range(200)])
        while not changing.done():
            found = tokens.find(kept)
            assert found is not None
            assert found.name == "kept"
        changing.result()


def _turn(tokens: TokenFile) -> None:
    tokens.create("other", READ, is_person=False)
    tokens.revoke("other")


BROKEN = [b"", b"{", b"[]x", b"null", b"{}", b'[{"name": "ada"}]', b"\xff\xfe", b"\0" * 100, b"[" * 100_000]


@pytest.mark.parametrize("content", BROKEN, ids=lambda one: repr(one[:12]))
def test_a_broken_file_lets_nobody_in_and_is_not_written_over(tmp_path: Path, content: bytes) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    token = tokens.create("ada", READ, is_person=True)
    file = tmp_path / ".llm-do" / "tokens.json"
    file.write_bytes(content)
    assert tokens.find(token) is None
    for deed in (
        lambda: tokens.create("bob", READ, is_person=True),
        lambda: tokens.revoke("ada"),
    ):
        with pytest.raises(UsageError, match="cannot be read"):
            deed()
    assert file.read_bytes() == content


def test_a_file_or_folder_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / ".llm-do").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link"):
        TokenFile.of_workshop(tmp_path / "one").create("ada", READ, is_person=True)
    assert list(elsewhere.iterdir()) == []

    tokens = TokenFile.of_workshop(tmp_path / "two")
    (tmp_path / "two").mkdir()
    other = elsewhere / "tokens.json"
    other.write_text("[]")
    state = tmp_path / "two" / ".llm-do"
    state.mkdir()
    (state / "tokens.json.lock").symlink_to(other)
    with pytest.raises(UsageError, match="is a link"):
        tokens.create("ada", READ, is_person=True)
    (state / "tokens.json.lock").unlink()
    for name in ("tokens.json", "tokens.json.tmp"):
        (state / name).symlink_to(other)
        tokens.create(f"ada of {name}", READ, is_person=True)
    assert not (state / "tokens.json").is_symlink()
    assert other.read_text() == "[]"


def test_the_file_is_for_its_owner_whatever_the_umask_and_the_modes_before(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        tokens = TokenFile.of_workshop(tmp_path)
        tokens.create("ada", READ, is_person=True)
        file = tmp_path / ".llm-do" / "tokens.json"
        file.chmod(0o666)
        (tmp_path / ".llm-do").chmod(0o777)
        tokens.create("bob", READ, is_person=True)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "name",
    [
        "program:ci",
        "Program:ci",
        "\uff50\uff52\uff4f\uff47\uff52\uff41\uff4d\uff1aci",
        "program:",
        "\u115f",
        "\u2800\u3164",
    ],
)
@pytest.mark.parametrize("is_person", [True, False])
def test_a_name_that_shows_as_a_programs_or_as_nothing_gets_no_token(
    tmp_path: Path, name: str, *, is_person: bool
) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    with pytest.raises(UsageError):
        tokens.create(name, READ, is_person=is_person)
    assert names(tokens) == []


@pytest.mark.parametrize("name", ["mcp", "MCP", "\uff4d\uff43\uff50", "nexus-llm-do", "Nexus-x"])
def test_no_token_makes_a_program_one_that_has_none(tmp_path: Path, name: str) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    with pytest.raises(UsageError, match="programs that have no token"):
        tokens.create(name, READ, is_person=False)
    tokens.create(name, READ, is_person=True)  # a person is recorded otherwise


@pytest.mark.parametrize("name", ["ci", "CI", "\uff43\uff49", "c\u3164i"])
def test_names_that_count_as_one_have_one_token(tmp_path: Path, name: str) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    tokens.create("ci", READ, is_person=False)
    with pytest.raises(UsageError, match="'ci' has a token already"):
        tokens.create(name, READ, is_person=True)


def test_a_person_who_stands_in_the_file_under_the_name_of_a_program_is_refused(tmp_path: Path) -> None:
    tokens = TokenFile.of_workshop(tmp_path)
    token = tokens.create("ada", READ, is_person=True)
    file = tmp_path / ".llm-do" / "tokens.json"
    file.write_text(file.read_text().replace('"ada"', '"program:ci"'))
    record = tokens.find(token)
    assert record is not None
    with pytest.raises(AccessRefused, match="no name of a person"):
        record.principal("http")
