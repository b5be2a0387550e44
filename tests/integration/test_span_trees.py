"""Spans of a run that goes on, and the trace made from its histories: the same tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from temporalio.client import Client
from temporalio.contrib.opentelemetry import OpenTelemetryInterceptor
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client.traces import Tracer
from llm_do_temporal.testing import call, scripted
from tests.support.runs.delegation import delegation_to
from tests.support.runs.place import Place, served
from tests.support.servers.collector import kept_spans

SHARED = ("run ", "invoke_agent ", "chat ", "execute_tool ", "approval")
"""How the names of spans begin that both have; activities are told of differently."""
BOTH_TELL = frozenset(
    {
        *("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id", "gen_ai.tool.name"),
        *("gen_ai.tool.type", "gen_ai.tool.call.id", "gen_ai.request.model", "gen_ai.provider.name"),
        *("gen_ai.response.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "error.type"),
        *("llm_do.worker", "llm_do.path", "llm_do.depth", "llm_do.worker.sha256", "llm_do.tool"),
        *("llm_do.approval.decision", "llm_do.approval.door"),
    }
)


def told(span: ReadableSpan) -> Mapping[str, Any]:
    """What both must tell of a span. A history has the kind of an activity's error, and not of a tool's."""
    attributes = {name: value for name, value in (span.attributes or {}).items() if name in BOTH_TELL}
    if "error.type" in attributes:
        attributes["error.type"] = "some"
    return dict(sorted(attributes.items()))


def tree(spans: Iterable[ReadableSpan]) -> list[str]:
    """Each span with those above it, and what both tell of it.

    A history does not say which call a question is about, so a question stands below its invocation in both.
    """
    by_id = {span.context.span_id: span for span in spans if span.context is not None}

    def above(span: ReadableSpan) -> list[str]:
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return [] if parent is None else [*above(parent), parent.name]

    def line(span: ReadableSpan) -> str:
        names = [name for name in above(span) if name.startswith(SHARED)]
        if span.name == "approval" and names[-1].startswith("execute_tool "):
            names.pop()
        return f"{' > '.join([*names, span.name])} {told(span)}"

    return sorted(line(span) for span in by_id.values() if span.name.startswith(SHARED))


async def traced(place: Place, run: str) -> list[ReadableSpan]:
    """The trace that is made from the histories, callers first."""
    tracer = Tracer(run)
    histories = sorted(await place.histories(), key=lambda history: history.workflow_id.count("/"))
    return [span for flow in histories for event in flow.events for span in tracer.take(flow.workflow_id, event)]


async def test_live_spans_and_a_trace_of_the_history_are_the_same_tree(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with a callee, a question, a tool that fails, and several turns."""
    sent = kept_spans(monkeypatch)
    config = server.client.config()
    config["interceptors"] = [OpenTelemetryInterceptor()]
    tracing = cast("WorkflowEnvironment", SimpleNamespace(client=Client(**config)))
    async with served(tracing, tmp_path) as place:
        write = call("write_file", path="/a.txt", content="x")
        place.worker(
            "helper", scripted(call("read_file", path="/none.txt"), write, "Helped."), toolsets={"filesystem": {}}
        )
        place.worker("main", scripted(call("helper", input="go"), "Done."), toolsets=delegation_to("helper"))
        run = await place.start("main")
        for _ in range(2):
            await place.pending(run)
            await place.decide(run)
        assert (await place.client.result(run)).output == "Done."
        live, made = tree(sent.get_finished_spans()), tree(await traced(place, run))
    assert live == made
    assert {line.split(" {")[0].split(" > ")[-1].split()[0] for line in live} == {name.strip() for name in SHARED}
    assert all(line.startswith("run main") for line in live)
