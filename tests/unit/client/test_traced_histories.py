"""Traces made from histories: which spans there are, and which call has started which invocation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from llm_do_temporal.client.traces import OpenCalls, Tracer
from llm_do_temporal.storage.blobs import LocalBlobStore

HISTORIES = Path(__file__).parents[2] / "support" / "histories" / "pitch-decks"
RUN = "recorded"


def events() -> Iterator[tuple[str, HistoryEvent]]:
    """Every event of the recorded run, the parents' first."""
    for path in sorted(HISTORIES.glob("*.json"), key=lambda path: path.name.count(".")):
        workflow_id = path.stem.replace(".", "/")
        for event in WorkflowHistory.from_json(workflow_id, path.read_text()).events:
            yield workflow_id, event


def traced(tracer: Tracer, until: int | None = None) -> list[dict[str, Any]]:
    """The spans as they are written, of the first `until` events."""
    spans = [span for workflow_id, event in list(events())[:until] for span in tracer.take(workflow_id, event)]
    return [json.loads(span.to_json(indent=None)) for span in spans]


@pytest.fixture(scope="module")
def spans() -> list[dict[str, Any]]:
    """The whole trace."""
    return traced(Tracer(RUN))


def named(spans: list[dict[str, Any]], beginning: str) -> list[dict[str, Any]]:
    """The spans whose names begin like this."""
    return [span for span in spans if span["name"].startswith(beginning)]


def test_run_invocations_turns_and_tool_calls_are_all_there(spans: list[dict[str, Any]]) -> None:
    kinds = Counter(span["name"].split()[0] for span in spans)
    assert kinds["run"] == kinds["load_run"] == 1
    assert "record_at_desk" not in kinds
    assert kinds["approval"] == 5
    assert kinds["invoke_agent"] == 6
    assert kinds["chat"] == 9
    assert len(named(spans, "execute_tool pitch_evaluator")) == 5
    assert len(named(spans, "execute_tool list_files")) == 1


def test_a_workflow_task_that_was_never_written_down_hides_no_event(spans: list[dict[str, Any]]) -> None:
    tracer = Tracer(RUN)
    found = list[ReadableSpan]()
    for workflow_id, event in events():
        never = HistoryEvent(event_id=event.event_id, event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
        found += [*tracer.take(workflow_id, never), *tracer.take(workflow_id, event)]
    assert [json.loads(span.to_json(indent=None)) for span in found] == spans


def test_it_is_one_tree_and_every_parent_is_in_it(spans: list[dict[str, Any]]) -> None:
    ids = {span["context"]["span_id"] for span in spans}
    assert len(ids) == len(spans)
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    assert [span["name"] for span in spans if span["parent_id"] is None] == ["run pitch_orchestrator"]
    assert all(span["parent_id"] in ids for span in spans if span["parent_id"] is not None)


def test_the_entry_invocation_hangs_below_its_run_whose_own_effects_are_not_in_it(spans: list[dict[str, Any]]) -> None:
    by_id = {span["context"]["span_id"]: span["name"] for span in spans}
    (entry,) = named(spans, "invoke_agent pitch_orchestrator")
    assert by_id[entry["parent_id"]] == "run pitch_orchestrator"
    around = {name: {by_id[span["parent_id"]] for span in named(spans, name)} for name in ("load_run", "approval")}
    assert around == {"load_run": {"run pitch_orchestrator"}, "approval": {"invoke_agent pitch_orchestrator"}}
    assert spans[spans.index(entry) + 1]["name"] == "run pitch_orchestrator"


def test_a_delegation_hangs_below_the_call_with_the_same_file(spans: list[dict[str, Any]]) -> None:
    by_id = {span["context"]["span_id"]: span for span in spans}
    for span in named(spans, "invoke_agent pitch_evaluator"):
        arguments = json.loads(by_id[span["parent_id"]]["attributes"]["gen_ai.tool.call.arguments"])
        (attached,) = span["events"]
        assert arguments["attachments"] == [attached["attributes"]["llm_do.attachment.name"]]


def test_nothing_begins_before_or_ends_after_what_is_around_it(spans: list[dict[str, Any]]) -> None:
    by_id = {span["context"]["span_id"]: span for span in spans}
    for span in spans:
        around = by_id.get(span["parent_id"], span)
        assert around["start_time"] <= span["start_time"] <= span["end_time"] <= around["end_time"]


def test_a_turn_has_model_tokens_and_what_was_said(spans: list[dict[str, Any]]) -> None:
    first, second, *_ = sorted(
        (span for span in named(spans, "chat") if span["attributes"]["gen_ai.conversation.id"] == RUN),
        key=lambda span: span["start_time"],
    )
    attributes = first["attributes"]
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "examples"
    assert attributes["gen_ai.provider.name"] == "offline"
    assert attributes["gen_ai.usage.input_tokens"] == 896
    assert attributes["gen_ai.usage.output_tokens"] == 21
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "evaluate every deck"}]}
    ]
    (answer,) = json.loads(attributes["gen_ai.output.messages"])
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call"]
    # What was said before is not said again.
    assert [message["role"] for message in json.loads(second["attributes"]["gen_ai.input.messages"])] == ["tool"]


def test_a_tool_call_has_its_arguments_and_its_result(spans: list[dict[str, Any]]) -> None:
    (listing,) = named(spans, "execute_tool list_files")
    assert json.loads(listing["attributes"]["gen_ai.tool.call.arguments"])["path"] == "/pipeline"
    assert "vibeloop.pdf" in listing["attributes"]["gen_ai.tool.call.result"]


def test_an_attachment_is_named_and_not_contained(spans: list[dict[str, Any]]) -> None:
    (attached,) = named(spans, "invoke_agent pitch_evaluator")[0]["events"]
    assert set(attached["attributes"]) == {
        "llm_do.attachment.name",
        "llm_do.attachment.media_type",
        "llm_do.attachment.bytes",
        "llm_do.attachment.sha256",
    }


def test_reading_twice_gives_the_same_trace_and_nothing_twice(spans: list[dict[str, Any]]) -> None:
    tracer = Tracer(RUN)
    assert traced(tracer) == spans
    assert traced(tracer) == []


def test_what_has_not_ended_is_told_as_open() -> None:
    tracer = Tracer(RUN)
    half = len(list(events())) // 2
    ended = traced(tracer, half)
    open_spans = [json.loads(span.to_json(indent=None)) for span in tracer.rest()]
    assert open_spans
    assert ended
    assert all(span["end_time"] is None and span["attributes"]["llm_do.state"] == "open" for span in open_spans)


def test_bytes_that_are_asked_for_and_gone_are_said_to_be_missing(tmp_path: Path) -> None:
    spans = traced(Tracer(RUN, blobs=LocalBlobStore(tmp_path), binary=True))
    (attached,) = named(spans, "invoke_agent pitch_evaluator")[0]["events"]
    assert attached["attributes"]["llm_do.attachment.missing"] is True


def calls(*made: tuple[str, str, Any]) -> OpenCalls:
    """Calls with these keys, tools and arguments."""
    found = OpenCalls()
    for key, tool, arguments in made:
        found.add(key, tool, arguments)
    return found


def test_each_call_starts_one_invocation() -> None:
    made = calls(("a", "reader", {"input": "x"}), ("b", "reader", {"input": "x"}))
    assert [made.take("reader", "x", []) for _ in range(3)] == ["a", "b", None]


def test_what_was_said_and_handed_over_tells_one_call_from_another() -> None:
    made = calls(
        ("other", "writer", {"input": "x", "attachments": ["1.pdf"]}),
        ("said", "reader", {"input": "x"}),
        ("file", "reader", {"input": "y", "attachments": ["1.pdf"]}),
        ("both", "reader", {"input": "x", "attachments": ["1.pdf"]}),
        ("object", "reader", {"input_data": {"a": 1, "b": 2}}),
    )
    assert made.take("reader", "x", ["1.pdf"]) == "both"
    # Of calls that are equally like it, the first.
    assert made.take("reader", "x", ["1.pdf"]) == "said"
    assert made.take("reader", {"b": 2, "a": 1}, []) == "object"
    assert made.take("reader", "neither", ["2.pdf"]) == "file"
    assert made.take("reader", "x", ["1.pdf"]) is None


def test_a_worker_that_the_arguments_name_counts_like_a_tool_of_its_own() -> None:
    made = calls(("a", "worker_call", {"worker_name": "reader", "input": "x"}), ("b", "reader", ["odd"]))
    assert made.take("reader", "x", []) == "a"
    assert made.take("reader", "x", []) == "b"


def test_a_call_that_has_returned_starts_nothing() -> None:
    made = calls(("a", "reader", {"input": "x"}), ("b", "reader", {"input": "x"}), ("c", "reader", {"worker_name": 7}))
    made.remove("a")
    made.remove("unknown")
    assert [made.take("reader", "x", []) for _ in range(3)] == ["b", "c", None]
