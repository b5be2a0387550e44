from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from llm_do_temporal.cli.output import EventLines, RunOutcome, dump_json, failure, report
from llm_do_temporal.client.views.run_view import RunView, ViewEvent
from llm_do_temporal.errors import BudgetExceeded, DefinitionError, LlmDoError, ModelFailed, RunCancelled
from llm_do_temporal.messages.budget import Usage
from tests.support.workflow.moments import START, after

KEYS = [
    "type",
    "status",
    "is_error",
    "output",
    "run",
    "usage",
    "cost_usd",
    "unpriced_models",
    "duration_ms",
    "pending_approvals",
    "error",
]


def test_the_object_of_a_completed_run() -> None:
    spent: dict[str, Any] = {"requests": 2, "tool_calls": 1, "input_tokens": 30, "output_tokens": 4}
    usage = Usage(**spent, cost_usd=Decimal("0.0125"), unpriced=("x:y",))
    outcome = RunOutcome("r1", "completed", output={"score": 4}, usage=usage, duration_ms=1234)
    assert outcome.as_json() == {
        "type": "run.completed",
        "status": "completed",
        "is_error": False,
        "output": {"score": 4},
        "run": "r1",
        "usage": spent,
        "cost_usd": 0.0125,
        "unpriced_models": ["x:y"],
        "duration_ms": 1234,
        "pending_approvals": [],
        "error": None,
    }


def test_a_failed_run_says_why_and_what_it_spent(view: RunView) -> None:
    view.ended_at = after(90)
    outcome = failure(ModelFailed("no key", next_step="Set one."), run="run-1", view=view)
    shown = outcome.as_json()
    assert shown["type"] == "run.failed"
    assert shown["is_error"] is True
    assert shown["error"] == {"code": "ModelFailed", "message": "no key", "next": "Set one."}
    assert shown["usage"]["requests"] == 3
    assert shown["cost_usd"] == 0.0125
    assert shown["unpriced_models"] == ["test"]
    assert shown["duration_ms"] == 90_000


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ModelFailed("x"), "failed", 1),
        (RunCancelled("x"), "cancelled", 5),
        (BudgetExceeded("x"), "failed", 7),
        (DefinitionError("x"), "failed", 8),
    ],
)
def test_the_error_decides_status_and_exit_code(error: LlmDoError, status: str, code: int) -> None:
    outcome = failure(error)
    assert (outcome.status, outcome.exit_code) == (status, code)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "waiting", "running"])
def test_every_outcome_has_the_same_keys(status: str) -> None:
    assert list(RunOutcome("r", status).as_json()) == KEYS  # pyright: ignore[reportArgumentType]


def test_text_output_is_printed_as_it_is_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(RunOutcome("r", "completed", output="raw \x1b[1m text"), "text") == 0
    assert capsys.readouterr().out == "raw \x1b[1m text\n"


def test_structured_output_is_printed_as_indented_json(capsys: pytest.CaptureFixture[str]) -> None:
    report(RunOutcome("r", "completed", output={"name": "Grün"}), "text")
    assert capsys.readouterr().out == '{\n  "name": "Grün"\n}\n'


def test_a_failure_prints_nothing_on_stdout_and_the_reason_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(failure(ModelFailed("bad \x1b[1m", next_step="Do this.")), "text") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "llm-do-temporal: bad \\x1b[1m\n  Do this.\n"


def test_as_json_a_failure_is_one_line_on_stdout_too(capsys: pytest.CaptureFixture[str]) -> None:
    report(failure(ModelFailed("bad")), "json")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out)["error"]["message"] == "bad"


def test_json_text_is_the_same_value_and_holds_nothing_a_terminal_obeys() -> None:
    value = {"a": "\x1b[2J \u202e \x9b \udc80 Grün 你\u2028\n"}
    text = dump_json(value, pretty=False)
    assert json.loads(text) == value
    assert all(char.isprintable() for char in text)


def event(kind: str, seconds: float = 0, path: str = "main", **data: object) -> ViewEvent:
    return ViewEvent(kind, after(seconds), path, dict(data))


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_events_are_numbered_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = EventLines(enabled=True)
    lines.tell(event("turn.started", turn=1))
    lines.tell(event("turn.completed", 1.5, turn=1, type="no", seq=9))
    assert printed(capsys) == [
        {"v": 1, "seq": 1, "ts": "2026-01-02T03:04:05.000Z", "type": "turn.started", "path": "main", "turn": 1},
        {"v": 1, "seq": 2, "ts": "2026-01-02T03:04:06.500Z", "type": "turn.completed", "path": "main", "turn": 1},
    ]


def test_the_end_of_the_run_is_left_to_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = EventLines(enabled=True)
    for status in ("completed", "failed", "cancelled", "terminated", "timed_out"):
        lines.tell(event(f"run.{status}", path=""))
    assert printed(capsys) == []


def test_events_read_again_are_not_printed_again_but_equal_ones_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = EventLines(enabled=True)
    for _ in range(2):  # two calls of one turn, scheduled in the same instant
        lines.tell(event("activity.started", what="load"))
    lines.begin_reading()
    for _ in range(3):
        lines.tell(event("activity.started", what="load"))
    assert [line["seq"] for line in printed(capsys)] == [1, 2, 3]


def test_lines_can_begin_later_and_keep_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    lines = EventLines(enabled=True, from_seq=3)
    for turn in range(4):
        lines.tell(event("turn.started", turn=turn))
    assert [(line["seq"], line["turn"]) for line in printed(capsys)] == [(3, 2), (4, 3)]


def test_nothing_is_printed_unless_lines_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    EventLines(enabled=False).tell(event("turn.started"))
    assert capsys.readouterr().out == ""


def test_an_open_run_lasts_until_now() -> None:
    outcome = failure(ModelFailed("x"), view=RunView("r", started_at=START))
    assert outcome.duration_ms is not None
    assert outcome.duration_ms > 0
