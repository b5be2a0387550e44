"""Codec servers that cannot be served say why."""

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
