"""Conversations as their recorded histories tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.messages.activities import REQUEST_MODEL
from llm_do_temporal.storage.external_storage import KEPT_OUTSIDE, REFERENCE_TYPE
from tests.support.runs.histories import read_history

HISTORIES = Path(__file__).parents[2] / "replay" / "histories"


def events(*names: str) -> list[HistoryEvent]:
    """The events of recorded histories, one after the other."""
    return [event for name in names for event in read_history(HISTORIES / f"0.1.0-{name}.json.gz").events]


def entries(*names: str) -> list[Entry]:
    """What these histories tell."""
    transcriber = Transcriber()
    return [entry for event in events(*names) for entry in transcriber.apply(event)]


def outline(*names: str) -> list[tuple[str, int, Any]]:
    """Kind, turn, and what is said, of each entry."""
    return [(one.kind, one.turn, one.text or one.value or one.name) for one in entries(*names)]


def test_a_conversation_is_told_in_order_with_its_questions() -> None:
    write = {"path": "/a.txt", "content": "hi"}
    assert outline("modify/run-1") == [
        ("instructions", 0, "Do it."),
        ("prompt", 0, "go"),
        ("call", 1, write),
        ("turn", 1, "script"),
        ("question", 1, "write_file /a.txt (2 bytes)"),
        ("decision", 1, "modify"),
        (
            "result",
            1,
            "Wrote /b.txt (6 bytes).\nada changed this call before it ran. It ran with: "
            '{"content":"better","path":"/b.txt"}',
        ),
        ("text", 2, "Done."),
        ("turn", 2, "script"),
        ("end", 2, "completed"),
    ]
    question, decision = (one for one in entries("modify/run-1") if one.kind in ("question", "decision"))
    assert question.details["diff"].startswith("--- /dev/null\n+++ /a.txt")
    assert (decision.name, decision.call, decision.details["id"]) == ("ada", question.call, "a1")
    assert decision.details["args"] == {"path": "/b.txt", "content": "better"}


def test_a_call_and_its_result_share_an_id() -> None:
    told = entries("failed-child/run-1")
    calls = {one.call: one.name for one in told if one.kind == "call"}
    results = {one.call: (one.name, one.failed) for one in told if one.kind == "result"}
    assert calls == {"call_0_1": "broken", "call_0_2": "sage"}
    assert results == {"call_0_1": ("broken", True), "call_0_2": ("sage", False)}


def test_files_are_named_with_their_digests() -> None:
    (prompt,) = (one for one in entries("attachments/run-1.main.sage-1") if one.kind == "prompt")
    assert [(file.name, file.media_type, file.bytes) for file in prompt.files] == [
        ("/one.txt", "text/plain", 1),
        ("/two.txt", "text/plain", 2),
    ]
    assert all(len(file.sha256) == 64 for file in prompt.files)


def test_a_turn_says_what_it_cost() -> None:
    (turn, *_) = (one for one in entries("approval-by-signal/run-1") if one.kind == "turn")
    assert (turn.details["input_tokens"], turn.details["output_tokens"], turn.details["cost_usd"]) == (420, 11, None)
    assert turn.details["finish_reason"] == "tool_call"
    assert turn.details["seconds"] >= 0


def test_a_model_that_fails_is_an_error_and_its_turn_is_that_of_the_next_model() -> None:
    told = outline("fallback-models/run-1")
    assert [kind for kind, _, _ in told] == ["instructions", "prompt", "error", "error", "text", "turn", "end"]
    assert told[2][2].startswith("model 'openai-chat:first' is overloaded")
    assert told[4] == ("text", 1, "Up again.")


def test_a_run_that_failed_or_was_cancelled_says_so() -> None:
    assert outline("refusal-aborts/run-1")[-2:] == [("error", 1, "Rejected by a person"), ("end", 1, "failed")]
    assert outline("cancellation/run-1")[-1] == ("end", 1, "cancelled")


def test_structured_output_is_the_value_at_the_end() -> None:
    assert entries("structured-output/run-1")[-1].value == {"verdict": "go", "score": 4}


def test_a_conversation_in_several_histories_has_every_turn_once() -> None:
    parts = [f"continued/run-1{part}" for part in (".before-3", ".before-2", ".before-1", "")]
    whole = entries(*parts)
    assert [one.turn for one in whole if one.kind == "turn"] == list(range(1, 18))
    calls, results = ([one.call for one in whole if one.kind == kind] for kind in ("call", "result"))
    assert calls == results
    assert len(set(calls)) == 16


def test_a_later_part_alone_knows_its_turns_and_what_comes_before() -> None:
    transcriber = Transcriber()
    told = [entry for event in events("continued/run-1.before-1") for entry in transcriber.apply(event)]
    assert (told[0].kind, told[0].turn, told[-1].turn) == ("call", 10, 15)
    assert transcriber.before
    assert {one.kind for one in told} == {"call", "result", "turn"}


def test_what_is_kept_elsewhere_is_said_to_be() -> None:
    transcriber = Transcriber()
    told: list[Entry] = []
    for event in events("approval-by-signal/run-1"):
        scheduled = event.activity_task_scheduled_event_attributes
        for payload in [
            *(scheduled.input.payloads if scheduled.activity_type.name == REQUEST_MODEL.name else ()),
            *event.activity_task_completed_event_attributes.result.payloads,
        ]:
            payload.metadata["messageType"] = REFERENCE_TYPE
        told += transcriber.apply(event)
    assert [one.kind for one in told if KEPT_OUTSIDE in one.text] == ["text", "result", "text"]
