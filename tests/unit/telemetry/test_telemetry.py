"""Whether a process traces, as the standard variables say."""

from __future__ import annotations

import logging
import threading

import pytest

from llm_do_temporal import telemetry

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        # Named for other signals only.
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        # The exporter's own default is a collector on this machine.
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_spans_are_wanted_where_a_collector_is_named(environment: dict[str, str], wanted: bool) -> None:
    assert telemetry.is_wanted(environment) is wanted


def test_nothing_begins_and_nobody_intercepts_without_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    assert telemetry.begin_telemetry(http=True) is False
    assert telemetry.tracing_interceptors() == []


def test_an_exporter_that_is_not_installed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    with caplog.at_level(logging.WARNING):
        assert telemetry.begin_telemetry() is False
    assert "OTLP over carrier-pigeon is not installed; `pip install '.[otel]'` in the checkout" in caplog.text
    assert telemetry.tracing_interceptors() == []


def test_variables_that_cannot_be_used_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    with caplog.at_level(logging.WARNING):
        assert telemetry.begin_telemetry() is False
    assert "nothing is traced: what the OTEL_* variables say cannot be used: schedule_delay_millis" in caplog.text
    assert telemetry.tracing_interceptors() == []


def test_a_collector_that_takes_nothing_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, never = threading.Event(), threading.Event()

    def send() -> None:
        asked.set()
        never.wait()

    monkeypatch.setattr(telemetry, "_end", send)
    assert telemetry.end_telemetry(0.01) is False
    assert asked.wait(60)
    never.set()
