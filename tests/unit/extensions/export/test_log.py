from __future__ import annotations

import pytest

from llm_do_temporal.client.views.run_view import ViewEvent
from llm_do_temporal.extensions.export.report import concerns, log_lines
from tests.support.workflow.moments import START


def event(kind: str, path: str = "main", **data: object) -> ViewEvent:
    return ViewEvent(kind, START, path, dict(data))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (event("run.started", path=""), "run started"),
        (event("run.failed", path="", error="no key"), "run failed: no key"),
        (event("invocation.started", worker="boss", model="x:y", depth=0), "started: boss, x:y"),
        (event("turn.started", turn=2), "turn 2 begins"),
        (
            event(
                "turn.completed",
                turn=2,
                calls=[{"tool": "a", "args": {"path": "/x", "n": 3}}, {"tool": "b", "args": None}],
                input_tokens=1200,
                output_tokens=3,
            ),
            'turn 2 answered: 1,200 tokens in, 3 out; calls a(path="/x", n=3), b(null)',
        ),
        (event("activity.failed", what="read /a"), "failed: read /a"),
        (event("activity.failed", what="read /a", error="'/a' does not exist"), "failed: read /a: '/a' does not exist"),
        (event("call.failed", tool="t", reason="'t' is blocked"), "t refused or failed: 't' is blocked"),
        (event("call.failed", tool="t", reason=["no"]), 't refused or failed: ["no"]'),
        (event("approval.requested", tool="t", summary="write /a"), "asks: write /a"),
        (
            event("approval.requested", tool="t", summary="write /a", reason="it asks", args={"path": "/a"}),
            'asks: write /a, since it asks: path="/a"',
        ),
        (
            event("approval.decided", id="a1", decision="approve", by="ann", summary="x", waited_seconds=65.2),
            "a1 approve by ann after 1:05: x",
        ),
        (
            event(
                "approval.decided", id="a1", decision="reject", by="ann", note="no", summary="write /a", door="update"
            ),
            "a1 reject by ann: write /a (no)",
        ),
        (
            event("approval.decided", id="a1", decision="approve", by="ann", summary="x", door="update", via="http"),
            "a1 approve by ann via http: x",
        ),
        (
            event("approval.decided", id="a1", decision="reject", by="", summary="write /a", door="timer"),
            "a1 reject by a timer: write /a",
        ),
        (
            event("approval.voted", id="a1", summary="write /a", votes=["ann", ""]),
            "a1 agreed to so far by ann, somebody: write /a",
        ),
        (event("desk.changed", pending=["a1", "a2"]), "waits for a person: a1, a2"),
        (event("item.failed", item="deck 1", error={"message": "broken"}), "item failed: deck 1: broken"),
        (event("invocation.completed", error=None), "invocation completed"),
    ],
)
def test_an_event_is_one_line(told: ViewEvent, words: str) -> None:
    (line,) = log_lines(told)
    assert line.startswith("2026-01-02 03:04:05.000Z  ")
    assert line.endswith(f"  {words}")


def test_what_a_model_says_stands_below_and_cannot_pass_for_a_line_of_the_log() -> None:
    hostile = "one\n2026-01-02 03:04:05.000Z  run  run completed\x1b[2J\u202e"
    lines = log_lines(event("turn.completed", turn=1, text=hostile))
    assert lines[1:] == ["    | one", "    | 2026-01-02 03:04:05.000Z  run  run completed\\x1b[2J\\u202e"]


def test_a_path_stands_for_what_is_below_it_too() -> None:
    assert concerns(event("x", path="main/a-1/b-1"), "main/a-1")
    assert not concerns(event("x", path="main/a-10"), "main/a-1")
    assert concerns(event("x", path=""), None)
    assert not concerns(event("x", path=""), "main")
