"""Values of configured keys in what comes back: no error, log, trace, export or history keeps one."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from llm_do_temporal.cli.output import say_error
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import Key, KeyRing
from llm_do_temporal.errors import LlmDoError, ModelFailed
from llm_do_temporal.redaction.configured_keys import (
    guard_logging,
    know_value,
    know_variable,
    remove_keys,
    without_keys,
)
from llm_do_temporal.redaction.failures import clean_failure, keyless
from llm_do_temporal.telemetry.exporter import _Keyless  # pyright: ignore[reportPrivateUsage] - what leaves a process
from tests.support.patience import PATIENCE_SECONDS
from tests.support.workshops.leaked_keys import KEY, PASSWORD, leaks
from worker_service.logs import JsonLines

SPELLINGS: list[Callable[[str], str]] = [
    lambda key: key,
    lambda key: f"Bearer {key}",
    lambda key: f"'{key}'",
    lambda key: f"x{key}x",
    lambda key: quote(key),
    lambda key: quote(key, safe=""),
    lambda key: quote(key, safe="").lower(),
    lambda key: quote(quote(key, safe=""), safe=""),
    lambda key: f"https://api.example.com/v1?key={quote(key, safe='')}&x=1",
    json.dumps,
    lambda key: json.dumps(key, ensure_ascii=False),
    lambda key: json.dumps(json.dumps({"key": key})),
    lambda key: json.dumps(key).replace("/", "\\/"),
    repr,
    html.escape,
    lambda key: html.escape(key).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    lambda key: base64.b64encode(key.encode()).decode(),
    lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    lambda key: base64.b64encode(f"api:{key}".encode()).decode(),
    lambda key: base64.b64encode(f"me:{key}\n".encode()).decode(),
    lambda key: key.encode().hex(),
    lambda key: key.encode().hex().upper(),
    lambda key: key.upper() if key.isascii() else key,
    lambda key: f"{key[:9]}\n{key[9:]}",
    lambda key: f"{key[:9]}\r\n    {key[9:]}",
    lambda key: f"{key[:9]}\\n{key[9:]}",
    lambda key: f"> {key[:9]}\n> {key[9:]}",
    lambda key: "\u200b".join(key),
    lambda key: f"{key[:5]}\u00ad{key[5:]}",
    lambda key: f"{key[:20]}…",
    lambda key: f"…{key[-20:]}",
    lambda key: f"{key} and again {key}",
]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("WAREHOUSE_PASSWORD", PASSWORD)


@pytest.mark.parametrize("secret", [KEY, PASSWORD], ids=["key", "password"])
@pytest.mark.parametrize("spelling", SPELLINGS, ids=range(len(SPELLINGS)))
def test_a_key_is_found_in_every_spelling(spelling: Callable[[str], str], secret: str) -> None:
    shown = remove_keys(f"the provider said: {spelling(secret)}, so there")
    assert not leaks(shown, secret), shown
    assert "[key " in shown
    assert shown.startswith("the provider said: ")
    assert shown.endswith(", so there")


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MY_TOKEN", "tok-1234567890", "tok-1234567890"),
        ("app_secret", "hunter22hunter", "hunter22hunter"),
        ("PGPASSWORD", "correct horse", "correct horse"),
        ("MY_CREDENTIALS", "abcd1234efgh", "abcd1234efgh"),
        ("AUTHORIZATION", "Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("ANY", "sk-ant-api03-AbCdEfGh01234567", "sk-ant-api03-AbCdEfGh01234567"),  # by what it looks like
        ("GH", "ghp_0123456789abcdefghij", "ghp_0123456789abcdefghij"),
        ("SLACK", "xoxb-1234567890-abcdefghij", "xoxb-1234567890-abcdefghij"),
        ("DATABASE_URL", "postgres://app:p%40ss%2Fword9@db/app", "p@ss/word9"),
        ("REDIS", "redis://:longpassword@cache:6379/0", "longpassword"),
        ("BLOBS", "s3://b?endpoint=x&secret_access_key=wJalrXUtnFEMIK7", "wJalrXUtnFEMIK7"),
        ("SAS", "https://a.blob.core.windows.net/c?sig=abcDEF123456789", "abcDEF123456789"),
        ("HOOK", "https://hooks.slack.com/services/T00/B00/XyZ0123456789abcdefghij", "XyZ0123456789abcdefghij"),
        ("CHAT_WEBHOOK", "https://chat.example/hooks/abcdef0123456789ghij", "abcdef0123456789ghij"),
        (
            "LLM_DO_ENCRYPTION_KEYS",
            "2026-11:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
            "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ",
        ),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a,authorization=Bearer%20abcdef0123456789xyz", "abcdef0123456789xyz"),
        (
            "TLS_KEY",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----",
            "MIIEvQIBADANBgkqhkiG9w0BAQ",
        ),
        (
            "GOOGLE_CLIENT_SECRET",
            '{"installed": {"client_secret": "GOCSPX-aaaabbbbcccc1234"}}',
            "GOCSPX-aaaabbbbcccc1234",
        ),
        ("API_KEYS", '["sk-aaaabbbbccccdddd1234", "sk-zzzzbbbbccccdddd9999"]', "sk-zzzzbbbbccccdddd9999"),
        ("API_KEYS", '{"list": {"keys": ["zzzzbbbb-ccccdddd-9999"]}}', "zzzzbbbb-ccccdddd-9999"),
        ("SENTRY_DSN", "https://0123456789abcdef0123456789abcdef@s.io/5", "0123456789abcdef0123456789abcdef"),
        ("GIT_TOKEN_URL", "https://ghp_0123456789abcdefghij@git.example/a", "ghp_0123456789abcdefghij"),
        ("CALLBACK", "https://app.example/in#access_token=abcdef0123456789xyz", "abcdef0123456789xyz"),
    ],
)
def test_every_kind_of_variable_with_a_key_is_known(
    name: str, value: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert remove_keys(f"cannot connect: '{secret}' was refused") == f"cannot connect: '[key {name}]' was refused"


def test_a_variable_that_a_definition_names_is_a_key_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_PLACE_IN_LINE", "abcdefghij-42")
    know_variable("OUR_PLACE_IN_LINE")
    assert remove_keys("not abcdefghij-42!") == "not [key OUR_PLACE_IN_LINE]!"


def test_a_token_from_a_file_is_a_key() -> None:
    know_value("of ada", "ada-token-0123456789")
    assert remove_keys("got ada-token-0123456789") == "got [key of ada]"


def test_keys_in_a_file_are_keys_also_after_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    monkeypatch.setenv("LLM_DO_ENCRYPTION_KEY_FILE", str(file))
    for number, key in enumerate(("q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ", "Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFi")):
        file.write_text(f"k1:{key}\n")
        os.utime(file, ns=(number + 1, number + 1))
        assert key not in remove_keys(f"wrong key {key}")


@pytest.mark.parametrize("ring", [KeyRing.of(), KeyRing.of(Key("k", b"k" * 32))], ids=["open", "encrypted"])
@pytest.mark.parametrize("where", ["message", "details", "cause", "stack", "type of another error"])
def test_no_failure_carries_a_key_into_a_history(where: str, ring: KeyRing) -> None:
    converter = keyless(encrypting(pydantic_data_converter, ring))
    said = {"message": KEY, "next_step": [f"use {PASSWORD}"]}
    try:
        if where == "stack":
            exec(compile(f"raise ValueError({KEY!r})", KEY, "exec"), {})
        if where == "type of another error":
            raise RuntimeError(f"cannot log in with {PASSWORD}")
        try:
            raise LlmDoError(f"{KEY}" if where == "cause" else "no")
        except LlmDoError as error:
            details = said if where == "details" else "no"
            raise ApplicationError(KEY if where == "message" else "no", details) from error
    except Exception as error:
        failure = Failure()
        converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    kept = failure.SerializeToString().decode(errors="replace")
    assert not leaks(kept)
    assert not leaks(kept, PASSWORD)
    assert json.dumps(PASSWORD)[1:-1] not in kept
    again = converter.failure_converter.from_failure(failure, converter.payload_converter)
    assert isinstance(again, ApplicationError)


def test_a_failure_that_was_recorded_before_is_cleaned_where_it_is_read() -> None:
    failure = Failure(message=KEY, cause=Failure(message=f"below: {KEY}"))
    clean_failure(failure)
    assert not leaks(str(failure))


@pytest.mark.parametrize("how", ["message", "argument", "exception", "cause", "json lines"])
def test_no_log_line_has_a_key(how: str, caplog: pytest.LogCaptureFixture) -> None:
    guard_logging()
    log = logging.getLogger("somebody.else")
    if how == "message":
        log.warning("refused " + KEY)
    elif how == "argument":
        log.warning("refused %s", {"headers": KEY})
    else:
        try:
            try:
                raise ValueError(KEY)
            except ValueError as error:
                raise RuntimeError("no" if how == "cause" else KEY) from error
        except RuntimeError:
            log.exception("it failed")
    shown = caplog.text + "".join(JsonLines().format(record) for record in caplog.records)
    assert "[key OPENAI_API_KEY]" in shown
    assert not leaks(shown)


@pytest.mark.parametrize("where", ["name", "attribute", "list", "status"])
def test_no_span_leaves_with_a_key(where: str) -> None:
    kept = InMemorySpanExporter()
    span = ReadableSpan(
        name=KEY if where == "name" else "chat",
        attributes={"said": KEY if where == "attribute" else "", "all": (KEY,) if where == "list" else ()},
        status=Status(StatusCode.ERROR, KEY if where == "status" else "no"),
    )
    assert _Keyless(kept).export([span]) is SpanExportResult.SUCCESS
    (sent,) = kept.get_finished_spans()
    assert not leaks(str((sent.name, dict(sent.attributes or {}), sent.status.description)))


def as_object(text: str) -> str:
    return json.dumps(without_keys({text: [text]}))


@pytest.mark.parametrize("show", [visible_line, remove_keys, as_object], ids=["line", "text", "object"])
def test_nothing_that_is_shown_has_a_key(show: Callable[..., str]) -> None:
    assert not leaks(show(f"refused: {KEY}"))


def test_an_error_on_the_terminal_has_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(ModelFailed(f"refused {KEY}", next_step=f"try {KEY[:24]}"))
    assert not leaks(capsys.readouterr().err)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["Ab" * 500_000, KEY[:11] * 50_000, "\n" * 500_000, "\\n" * 200_000, "sk-" * 300_000])
@pytest.mark.timeout(PATIENCE_SECONDS)
def test_a_long_text_is_searched_within_its_time(text: str) -> None:
    assert not leaks(remove_keys(text + KEY))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("SHORT_TOKEN", "abc", "abc abc abcabc"),  # would be found in the middle of words
        ("LLM_DO_ENCRYPTION_KEY_FILE", "/etc/keys/ours", "see /etc/keys/ours"),
        ("SSH_AUTH_SOCK", "/tmp/agent.1", "no agent at /tmp/agent.1"),
        ("GIT_AUTHOR_NAME", "Ada Lovelace", "by Ada Lovelace"),
        ("MAX_TOKENS", "100000000", "at most 100000000"),
        ("TOKEN_URL", "https://login.example.com/oauth/token", "asked https://login.example.com/oauth/token"),
        ("PROJECT", "a-long-ordinary-value-0", "in a-long-ordinary-value-0"),
    ],
)
@pytest.mark.control
def test_what_is_no_key_stays(name: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert remove_keys(text) == text


@pytest.mark.control
def test_values_without_keys_are_the_same() -> None:
    given: dict[str, Any] = {"a": [1, None, True, "text"], "b": ("x",)}
    assert without_keys(given) == given
