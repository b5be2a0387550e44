"""Spans of a process: their content, and where they go."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai.exceptions import ToolFailed
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from llm_do_temporal import telemetry
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.telemetry.spans import outside_workflow_span, span
from tests.support.servers.collector import kept_spans

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class GoesOn(workflow.ContinueAsNewError):
    """What the SDK raises where a workflow goes on as new; it has no public way to be made."""

    def __init__(self) -> None:
        BaseException.__init__(self)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the spans of this test go."""
    monkeypatch.delenv(CONTENT, raising=False)
    return kept_spans(monkeypatch)


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (one,) = exporter.get_finished_spans()
    return one


def test_attributes_that_are_none_are_left_out(told: InMemorySpanExporter) -> None:
    with span("turn", {"llm_do.run": "job", "gen_ai.tool.call.id": None}):
        pass
    assert dict(only(told).attributes or {}) == {"llm_do.run": "job"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EffectFailed("no file '/secret'"), "EffectFailed"),
        # What a model is told stands for the error behind it.
        (caused(ToolFailed("no file '/secret'"), EffectFailed("no file '/secret'")), "EffectFailed"),
        (caused(RuntimeError("activity failed"), ApplicationError("/secret", type="ModelFailed")), "ModelFailed"),
        (KeyError("/secret"), "KeyError"),
        (asyncio.CancelledError("/secret"), "CancelledError"),
    ],
    ids=str,
)
def test_an_error_is_told_by_its_kind_and_by_its_words_only_where_content_is_wanted(
    error: BaseException, kind: str, told: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(type(error)), span("tool", {}):
        raise error
    one = only(told)
    assert (one.attributes or {})["error.type"] == kind
    assert not one.status.is_ok
    assert "secret" not in one.to_json()

    told.clear()
    monkeypatch.setenv(CONTENT, "true")
    with pytest.raises(type(error)), span("tool", {}):
        raise error
    assert "secret" in only(told).to_json()


def test_an_attempt_that_is_left_to_go_on_as_new_is_not_told_of(told: InMemorySpanExporter) -> None:
    with pytest.raises(GoesOn), span("invocation", {}, workflow_wide=True), span("turn", {}):
        raise GoesOn
    assert only(told).name == "invocation"


def test_a_run_that_goes_on_as_new_ends_with_its_entry_invocation(told: InMemorySpanExporter) -> None:
    with (
        pytest.raises(GoesOn),
        span("run", {}, workflow_wide=True),
        span("invocation", {}, workflow_wide=True),
        span("turn", {}),
    ):
        raise GoesOn
    assert [one.name for one in told.get_finished_spans()] == ["invocation", "run"]


def test_a_run_that_goes_on_as_new_from_its_entry_invocation_stands_beside_itself(told: InMemorySpanExporter) -> None:
    with span("caller", {}), span("run", {}, workflow_wide=True):
        with span("invocation", {}, workflow_wide=True), outside_workflow_span(), span("next run", {}):
            pass
        with span("second invocation", {}, workflow_wide=True):
            pass
    ended = {one.name: one for one in told.get_finished_spans()}
    ids = {one.context.span_id: name for name, one in ended.items() if one.context}
    parents = {name: ids[one.parent.span_id] for name, one in ended.items() if one.parent}
    assert parents == {"run": "caller", "invocation": "run", "next run": "caller", "second invocation": "run"}


def test_what_goes_on_as_new_stands_beside_the_span_it_leaves(told: InMemorySpanExporter) -> None:
    with span("run", {}):
        with span("invocation", {}, workflow_wide=True), span("turn", {}), outside_workflow_span(), span("next", {}):
            pass
        with span("after", {}):
            pass
    ended = {one.name: one for one in told.get_finished_spans()}
    run = ended["run"].context
    parents = {name: one.parent.span_id if one.parent else None for name, one in ended.items()}
    assert run is not None
    assert parents["next"] == parents["invocation"] == parents["after"] == run.span_id
    assert parents["run"] is None


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
