"""The trace of a run, as a collector gets it from several processes, one of which is killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.client.embedded.host import temporal_binary
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.desk import Desk, use_provider
from tests.support.providers.answers import Answer, Call, Text, ToolCalls, Usage, tool_call
from tests.support.providers.provider import FakeProvider
from tests.support.servers.collector import Collected, Collector

CHIEF = """\
toolsets:
  delegation: {helper: {}}
  custom: {note: {}, publish: {}}
---
Divide the secret-instruction work.
"""
TOOLS = """\
def note(text: str) -> str:
    return "secret-result " + text

def publish(text: str) -> str:
    return "shown-result " + text
"""
RULES = """\
name: shop
sandbox: {root: "."}
approvals: {rules: {worker.call: pre_approved}}
"""
SPENT = Usage(prompt_tokens=10, completion_tokens=3)
WHOLE = """\
start chief
  run chief
    invoke_agent chief
      chat m
        model_request
          POST
      chat m
        model_request
          POST
      chat m
        model_request
          POST
      execute_tool helper
        invoke_agent helper
          chat m
            model_request
              POST
        load_worker
      execute_tool helper
        invoke_agent helper
          chat m
            model_request
              POST
        load_worker
      execute_tool note
        approval
        call_python_tool
      execute_tool publish
        approval
        call_python_tool
    load_run
"""
TOLD_BY_THE_FIRST = {
    "POST": 4,
    "model_request": 4,
    "chat m": 4,
    "invoke_agent helper": 2,
    "load_worker": 2,
    "execute_tool helper": 2,
    "approval": 1,
    "call_python_tool": 1,
    "execute_tool note": 1,
    "load_run": 1,
}
"""Spans that have ended when the second question is asked."""


def answer(request: dict[str, Any], _number: int) -> Answer:
    """Two helpers and a tool, then another tool, then the end."""
    if not request.get("tools"):
        return Text("secret-answer", usage=SPENT)
    turn = sum(message["role"] == "assistant" for message in request["messages"])
    if turn == 0:
        helpers = [Call("helper", {"input": f"secret-{part}"}) for part in ("left", "right")]
        return ToolCalls((*helpers, Call("note", {"text": "secret-argument"})), usage=SPENT)
    return tool_call("publish", text="shown-argument") if turn == 1 else Text("shown-answer", usage=SPENT)


def workshop(desk: Desk) -> None:
    """A chief with a helper and two tools that ask."""
    (desk.workshop / "workshop.yaml").write_text(RULES)
    folder = desk.workshop / "workers" / "chief"
    folder.mkdir(parents=True)
    (folder.parent / "helper.worker").write_text("description: Helps.\n---\nHelp.\n")
    (folder / "worker.worker").write_text(CHIEF)
    (folder / "tools.py").write_text(TOOLS)


def approve(address: str, approval: str) -> None:
    """Decide with the plain `temporal` CLI."""
    decision = json.dumps({"id": approval, "decision": "approve", "by": "ada"})
    command = [temporal_binary(), "workflow", "signal", "--address", address, "-w", "job"]
    subprocess.run(
        [*command, "--name", "decide", "--input", decision], check=True, capture_output=True, timeout=PATIENCE_SECONDS
    )


def outline(spans: list[Collected], parent: Collected, indent: str = "") -> str:
    """A span and all below it, a line each; those beside each other in order of their names."""
    below = sorted(outline(spans, one, f"{indent}  ") for one in spans if one.parent == parent.id)
    return f"{indent}{parent.name}\n{''.join(below)}"


@pytest.mark.thorough
def test_a_run_is_one_tree_of_spans_whatever_is_replayed_or_killed(desk: Desk, address: str, tmp_path: Path) -> None:
    workshop(desk)
    with FakeProvider(answer) as provider, Collector() as collector:
        use_provider(desk, provider)
        desk.environment |= {
            "TEMPORAL_ADDRESS": address,
            "LLM_DO_MAX_CACHED_WORKFLOWS": "0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        desk.environment["OTEL_SERVICE_NAME"] = "first"
        first = desk.begin("worker")
        del desk.environment["OTEL_SERVICE_NAME"]
        desk.type("start", "chief", "secret-prompt", "--id", "job", "--model", "openai-chat:m", "--detach")
        desk.pending("job", 1)
        approve(address, "a1")
        desk.asked("job", "a2")
        # What a service has not told when it is killed is never told.
        for name, count in TOLD_BY_THE_FIRST.items():
            collector.wait_for(name, count)
        first.kill()
        first.wait()

        desk.environment |= {
            "OTEL_SERVICE_NAME": "second",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        }
        second = desk.begin("worker")
        approve(address, "a2")
        assert desk.type("result", "job").stdout == "shown-answer\n"
        second.send_signal(signal.SIGTERM)
        assert "Traceback" not in second.communicate(timeout=PATIENCE_SECONDS)[1]
        assert second.returncode == 0

        spans = collector.spans
        (root,) = [one for one in spans if not one.parent]
        assert root.service == "llm-do-temporal"
        assert outline(spans, root) == WHOLE
        assert {one.trace for one in spans} == {root.trace}
        assert Counter(one.id for one in spans).most_common(1)[0][1] == 1
        check_conventions(spans)
        check_content(spans, str(tmp_path))
        assert not any("traceparent" in request.headers for request in provider.requests)


def check_conventions(spans: list[Collected]) -> None:
    """Names of attributes are those of the GenAI and HTTP conventions."""
    (agent,) = [one.attributes for one in spans if one.name == "invoke_agent chief"]
    assert agent["gen_ai.agent.name"] == "chief"
    assert agent["gen_ai.request.model"] == "m"
    assert agent["gen_ai.usage.input_tokens"] == sum(
        one.attributes["gen_ai.usage.input_tokens"] for one in spans if one.name == "chat m"
    )
    for one in spans:
        if one.name == "chat m":
            assert one.attributes["gen_ai.operation.name"] == "chat"
            assert one.attributes["gen_ai.provider.name"] == "openai"
        if one.name.startswith("execute_tool"):
            assert one.attributes["gen_ai.tool.name"] == one.name.removeprefix("execute_tool ")
            assert one.attributes["gen_ai.tool.call.id"]
        if one.name == "POST":
            assert one.attributes["http.response.status_code"] == 200
            assert one.attributes["url.full"] == f"http://127.0.0.1:{one.attributes['server.port']}/"


def check_content(spans: list[Collected], folder: str) -> None:
    """What was said is told where that was asked for, and nowhere else; where files lie, and keys, never."""
    for one in spans:
        assert folder not in one.whole
        assert "sk-test" not in one.whole
        if one.service != "second":
            assert "secret" not in one.whole, one
            assert "ada" not in one.attributes.values()
    told = {one.name: one.attributes for one in spans if one.service == "second"}
    assert told["invoke_agent chief"]["llm_do.prompt"] == "secret-prompt"
    assert told["execute_tool publish"]["gen_ai.tool.call.arguments"] == '{"text": "shown-argument"}'
    assert told["execute_tool publish"]["gen_ai.tool.call.result"] == "shown-result shown-argument"
    assert "shown-result" in told["chat m"]["gen_ai.input.messages"]
    assert "shown-answer" in told["chat m"]["gen_ai.output.messages"]
    assert told["approval"]["llm_do.approval.by"] == "ada"
