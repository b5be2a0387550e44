"""Commands that cannot do what they are asked, because of keys, tokens or addresses."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.encryption.keys import ENCRYPTION_VARIABLE, KEY_FILE_VARIABLE, KEYS_VARIABLE

KEY = f"k:{base64.b64encode(b'k' * 32).decode()}"


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
@pytest.mark.parametrize("command", [["list", "--address", "127.0.0.1:1"], ["codec-server"]], ids=["list", "codec"])
def test_keys_that_are_none_end_a_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    name: str,
    value: str,
    says: str,
) -> None:
    monkeypatch.setenv(name, value)
    assert run_command(command) == 2
    said = capsys.readouterr()
    assert (says in said.err, KEY[2:-8] in said.err, said.out) == (True, False, "")


@pytest.mark.parametrize(
    "command", ["list", "approvals", "gc", "dev", "ui --port 0", "ui --address h:1", "codec-server"]
)
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


def test_without_a_key_there_is_nothing_to_decode(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["codec-server"]) == 2
    assert "there is no key to decode with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--host", "0.0.0.0"], "the codec server would be open to others at '0.0.0.0', and nothing says who they are"),
        (["--host", "codec.example.com"], "nothing says who they are"),
        (["--trusted-header", "X-User"], "need each other"),
        (["--trusted-proxy", "10.0.0.5"], "need each other"),
        (["--trusted-header", "X-User", "--trusted-proxy", "proxy"], "'proxy' is not an IP address"),
        (["--token-file", "nowhere"], "the token file 'nowhere' cannot be read"),
        (["--ui-origin", "*"], "is not like https://temporal.example.com"),
        (["--ui-origin", "temporal.example.com"], "is not like https://temporal.example.com"),
        (["--ui-origin", "https://temporal.example.com/namespaces"], "is not like https://temporal.example.com"),
        (["--ui-origin", "https://temporal.example.com#top"], "is not like https://temporal.example.com"),
        (["--ui-origin", "https://ada@temporal.example.com"], "is not like https://temporal.example.com"),
        (["--ui-origin", "https://[temporal"], "is not like https://temporal.example.com"),
        (["--ui-origin", "https://temporal:port"], "is not like https://temporal.example.com"),
        (["--port", "70000"], "70000 is not a port"),
    ],
    ids=str,
)
def test_a_codec_server_that_cannot_be_served_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, KEY)
    assert run_command(["codec-server", *flags]) == 2
    assert says in capsys.readouterr().err


def test_a_port_in_use_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, KEY)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run_command(["codec-server", "--port", str(taken.getsockname()[1])]) == 2
    assert "Address already in use" in capsys.readouterr().err
