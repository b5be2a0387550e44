"""Commands that cannot do what they are asked, because of keys, tokens or addresses."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.encryption.keys import ENCRYPTION_VARIABLE, KEY_FILE_VARIABLE, KEYS_VARIABLE

KEY = f"k:{base64.b64encode(b'k' * 32).decode()}"
GC = pytest.param("gc", marks=pytest.mark.extension("maintenance"))
CODEC_SERVER = pytest.param("codec-server", marks=pytest.mark.extension("codec_server"))


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (ENCRYPTION_VARIABLE, KEYS_VARIABLE, KEY_FILE_VARIABLE, "LLM_DO_WORKSHOP", "TEMPORAL_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (KEYS_VARIABLE, KEY[:-8], "the key 'k' is not 32 bytes in base64"),
        (KEYS_VARIABLE, KEY[2:], "entry 1 is not `id:key`"),
        (KEY_FILE_VARIABLE, "/nowhere", "the key file '/nowhere' cannot be read: No such file or directory"),
    ],
)
@pytest.mark.parametrize("command", ["list --address 127.0.0.1:1", CODEC_SERVER])
def test_keys_that_are_none_end_a_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    value: str,
    says: str,
) -> None:
    monkeypatch.setenv(name, value)
    assert run_command(command.split()) == 2
    said = capsys.readouterr()
    assert (says in said.err, KEY[2:-8] in said.err, said.out) == (True, False, "")


@pytest.mark.parametrize("command", ["list", "approvals", GC, "dev", "ui --port 0", "ui --address h:1", CODEC_SERVER])
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (ENCRYPTION_VARIABLE, "required", "there is no key: LLM_DO_ENCRYPTION_KEYS and LLM_DO_ENCRYPTION_KEY_FILE"),
        ("LLM_DO_ENCRYPTION_KEY", KEY, "did you mean LLM_DO_ENCRYPTION_KEYS?"),
    ],
    ids=["none", "misspelt"],
)
def test_without_a_key_where_one_is_meant_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    name: str,
    value: str,
    says: str,
) -> None:
    (tmp_path / "workshop.yaml").write_text("name: test\n")
    monkeypatch.setenv(name, value)
    assert run_command(command.split()) == 2
    said = capsys.readouterr()
    assert (says in said.err, KEY[2:-8] in said.err, said.out) == (True, False, "")
    assert [path.name for path in tmp_path.iterdir()] == ["workshop.yaml"]
