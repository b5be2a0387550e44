"""Keys whose signs a program escaped, and those that a configuration or a definition names, in what is said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_do_temporal.client.connections import Connection, connect_config
from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.configured_keys import know_variable, remove_keys
from tests.support.patience import PATIENCE_SECONDS

KEY = "aB3+xY9/Qw+7kLm2+NpR4sT6+uV8wX0yZ+1c=="
SECRET = "s3cr3t-key-toml-123456"
COMMAND = Path(sys.executable).with_name("llm-do-temporal")
ENTITIES = {"+": "&plus;", "/": "&sol;", "=": "&equals;"}
ESCAPES: dict[str, Callable[[str], str]] = {
    "JSON of .NET": lambda char: f"\\u{ord(char):04X}",
    "JSON of Gson": lambda char: f"\\u{ord(char):04x}",
    "JSON in JSON": lambda char: f"\\\\u{ord(char):04x}",
    "JSON in JSON in JSON": lambda char: f"\\\\\\\\u{ord(char):04x}",
    "Python": lambda char: f"\\U{ord(char):08x}",
    "JavaScript": lambda char: f"\\x{ord(char):02x}",
    "JavaScript, in capitals": lambda char: f"\\x{ord(char):02X}",
    "JavaScript with braces": lambda char: f"\\u{{{ord(char):x}}}",
    "Rust with zeros": lambda char: f"\\u{{{ord(char):06x}}}",
    "Perl": lambda char: f"\\x{{{ord(char):x}}}",
    "C": lambda char: f"\\{ord(char):03o}",
    "shell": lambda char: f"\\{char}",
    "XML": lambda char: f"&#{ord(char)};",
    "XML with zeros": lambda char: f"&#{ord(char):05};",
    "XML in hexadecimals": lambda char: f"&#x{ord(char):x};",
    "XML in capitals": lambda char: f"&#x{ord(char):X};",
    "XML in HTML": lambda char: f"&amp;#{ord(char)};",
    "HTML by name": lambda char: ENTITIES[char],
    "addresses, twice": lambda char: f"%25{ord(char):02x}",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_key_is_found_however_its_signs_are_escaped(
    escape: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    spelled = "".join(char if char.isalnum() else escape(char) for char in KEY)
    assert remove_keys(f'{{"error": "\\"{spelled}\\" is wrong"}}') == '{"error": "\\"[key AZURE_API_KEY]\\" is wrong"}'


@pytest.mark.parametrize("escape", ["&#{};", "\\x{:02x}", "%{:02x}", "\\u{:04x}"])
def test_a_key_is_found_whose_every_character_is_escaped(escape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    spelled = "".join(escape.format(ord(char)) for char in KEY)
    assert remove_keys(f"({spelled})") == "([key AZURE_API_KEY])"


def test_a_key_is_found_that_is_escaped_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    assert KEY[:9] not in remove_keys(KEY.replace("+", "\\u002B")[:40] + "\n  and more").replace("\\u002B", "+")


@pytest.mark.parametrize("at", [12, 19, 22, 30])
def test_a_key_is_found_that_is_escaped_in_one_place(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    key = f"{KEY.replace('+', 'p')[:at]}+{KEY.replace('+', 'p')[at:]}"
    monkeypatch.setenv("AZURE_API_KEY", key)
    assert remove_keys(f"({key.replace('+', '&#43;')})") == "([key AZURE_API_KEY])"


@pytest.mark.control
@pytest.mark.parametrize(
    "text", ["a\\nb \\u002B \\x2b &#43; &amp; 100%25 \\\\ \\/", "\\" * 40, "&#9;&#999;\\x7f", "C:\\users\\ada"]
)
def test_escapes_without_a_key_stay(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    assert remove_keys(text) == text
    assert remove_keys(f"{text} {KEY} {text}") == f"{text} [key AZURE_API_KEY] {text}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", ["\\u002" * 200_000, "\\" * 1_000_000, "&amp;" * 200_000, "%25" * 300_000])
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_long_text_of_half_escapes_is_searched(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    assert remove_keys(f"{text}{KEY}").endswith("[key AZURE_API_KEY]")


BROKEN = [
    f"api_key={SECRET}",
    f'api_key="{SECRET}',
    f"api_key='{SECRET}\"",
    f'api_key="a"\napi_key="{SECRET}"',
    f"api_key={{a='{SECRET}'}} x",
    f'tls="{SECRET}"',
    f'tls={{disabled="{SECRET}"}}',
    f'codec="{SECRET}"',
    f'tls="a\\"{SECRET}"',
    f'tls="a`, expected {SECRET}"',
    f'"{SECRET}',
    f"{SECRET}",
    f"api_key='''{SECRET}\n{SECRET}",
]


@pytest.mark.parametrize("line", BROKEN)
def test_no_line_of_a_broken_configuration_is_quoted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(f'[profile.default]\naddress="127.0.0.1:1"\n{line}\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    with pytest.raises(UsageError) as refused:
        connect_config(Connection())
    said = str(refused.value)
    assert SECRET not in said
    assert refused.value.__cause__ is None
    assert re.search(r"line [345], column \d+", said)
    assert str(file) in said


def test_a_number_in_a_broken_configuration_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text("[profile.default]\napi_key=12345678901\n")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    with pytest.raises(UsageError, match="expected a string") as refused:
        connect_config(Connection())
    assert "12345678901" not in str(refused.value)


@pytest.mark.thorough
def test_a_command_does_not_quote_a_broken_configuration(tmp_path: Path) -> None:
    (tmp_path / "temporal.toml").write_text(f'[profile.default]\naddress="127.0.0.1:1"\napi_key={SECRET}\n')
    given = os.environ | {"TEMPORAL_CONFIG_FILE": str(tmp_path / "temporal.toml")}
    done = subprocess.run(
        [COMMAND, "list"], env=given, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert SECRET not in done.stdout + done.stderr
    assert "line 3" in done.stderr


@pytest.mark.parametrize("place", ["flag", "profile", "header"])
def test_the_key_of_a_server_is_known(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "temporal.toml"
    key = f"{place[::-1]}9{place}7Qx2"
    lines = {"profile": f'api_key="{key}"', "header": f'[profile.default.grpc_meta]\nauthorization="Bearer {key}"'}
    file.write_text(f"[profile.default]\n{lines.get(place, '')}\n")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    assert key in remove_keys(f"refused: {key}")
    connect_config(Connection(api_key=key if place == "flag" else None))
    assert key not in remove_keys(f"refused: {key}")


@pytest.mark.parametrize("name", ["ANY_TOKEN", "AZURE_CLIENT_SECRET", "SOME_PASSWORD"])
@pytest.mark.parametrize("value", ["~tilde-key-123456", "~~tilde-key-123456", "~tilde-key/123456"])
def test_a_key_that_begins_with_a_tilde(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert "tilde-key" not in remove_keys(f"the key {value} is wrong")


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("https://hooks.example.com/abcdef1234", "abcdef1234"),
        ("https://hooks.example.com/abcdefgh", "/abcdefgh"),
        ("https://hooks.example.com/x?k=abcdef123456", "abcdef123456"),
        ("https://hooks.example.com/x?a=1&topic=abcdefghij", "abcdefghij"),
        ("https://hooks.example.com/a/b1c2d3e4", "b1c2d3e4"),
    ],
)
@pytest.mark.parametrize("said", ["POST {value} was refused", "no such thing: {secret}"])
def test_an_address_that_is_a_secret(value: str, secret: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_ADDRESS", value)
    know_variable("THE_ADDRESS")
    assert secret not in remove_keys(said.format(value=value, secret=secret))
