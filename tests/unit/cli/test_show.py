from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from rich.console import Console

from llm_do_temporal.cli.reports.show import record_json, render_record
from llm_do_temporal.client.history.invocations import ReusedStep
from llm_do_temporal.client.record.facts import RunFacts, Story, TakenBack
from llm_do_temporal.client.views.run_list import RunSummary
from llm_do_temporal.client.views.run_view import RunView, ViewEvent
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.runs import PendingApprovalMemo
from llm_do_temporal.policy.files.attachments import Attachment
from tests.support.workflow.moments import START, after

SUMMARY = RunSummary("run-1", "boss", "waiting", 1, START.replace(tzinfo=UTC), None)
DECIDED = ViewEvent(
    "approval.decided",
    after(9),
    "main",
    {
        "id": "a1",
        "summary": "write /b",
        "decision": "reject",
        "by": "ann",
        "note": "no \x1b[1m",
        "door": "update",
        "waited_seconds": 65.4,
    },
)
PENDING = PendingApprovalMemo(
    id="a2",
    invocation="run-1/main",
    key="k",
    worker="boss",
    path="main",
    tool="write_file",
    summary="write /c",
    asked_at=datetime(2026, 1, 2, tzinfo=UTC),
)


def test_a_record_tells_who_decided_what_when_and_what_still_waits(view: RunView) -> None:
    view.pending = [PENDING]
    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [DECIDED], after(75)))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines[0] == "run-1 · boss · waiting · started 2026-01-02 03:04:05 UTC"
    assert lines[-3:] == [
        "approvals",
        "  a1  reject  ann, 2026-01-02 03:04:14 UTC, by update, after 1:05  main: write /b (no \\x1b[1m)",
        "  a2  pending  main: write /c",
    ]


def story() -> Story:
    """A run with a prompt of two lines, a file, and a result that would colour a terminal."""
    told = Story("run-1")
    attachment = Attachment(path="/deck.pdf", sha256="0" * 64, bytes=8_854, media_type="application/pdf")
    output = "\n".join(["Done \x1b[1m.", *(f"line {number}" for number in range(2, 60))])
    told.facts = RunFacts("Sell the boat\nfor 3 coins", None, (attachment,), has_result=True, output=output)
    return told


def test_a_record_tells_what_was_taken_back(view: RunView) -> None:
    told = story()
    told.taken_back.append(TakenBack("a1", "approve", "ann\x1b[1m", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [DECIDED], after(75), told))
    assert "  a1  approve of ann\\x1b[1m, taken back 2026-01-02 03:04:05 UTC" in capture.get().splitlines()
    (kept,) = record_json(SUMMARY, view, [DECIDED], told)["taken_back"]
    assert (kept["id"], kept["decision"], kept["at"]) == ("a1", "approve", "2026-01-02T03:04:05+00:00")


def test_a_record_begins_with_the_task_and_has_prompt_result_and_files(view: RunView) -> None:
    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [], after(75), story()))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines[0] == "Sell the boat"
    assert lines[1].startswith("run-1 · boss · waiting")
    assert lines[2:5] == ["prompt", "  | Sell the boat", "  | for 3 coins"]
    begin = lines.index("result")
    assert lines[begin + 1] == "  | Done \\x1b[1m."
    assert lines[begin + 41] == "  … 19 more lines; --json has all of it"
    assert lines[lines.index("files") + 1] == "  given    /deck.pdf  8,854 bytes"


@pytest.mark.parametrize("width", [40, 150])
def test_no_line_of_a_prompt_or_a_result_looks_like_a_field(view: RunView, width: int) -> None:
    forged = "fine\n  a1  approve  ann\nfiles\n  made  /b.txt" + " long" * 30 + " files"
    told = story()
    told.facts = replace(told.facts, prompt=forged, output=forged)
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [], after(75), told))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines.count("files") == 1
    assert "  | files" in lines
    assert not [line for line in lines if line.startswith(("  a1  approve", "  made", "long"))]


def test_the_record_as_json_has_the_whole_story(view: RunView) -> None:
    shown = record_json(SUMMARY, view, [], story())
    assert (shown["task"], shown["prompt"]) == ("Sell the boat", "Sell the boat\nfor 3 coins")
    assert len(shown["output"].splitlines()) == 59
    assert [one["path"] for one in shown["files"]["given"]] == ["/deck.pdf"]
    assert shown["files"]["written"] == []


def test_a_question_that_several_must_decide_in_time_says_so(view: RunView) -> None:
    until = datetime(2026, 1, 2, 4, tzinfo=UTC)
    view.pending = [PENDING.model_copy(update={"votes": 1, "quorum": 2, "deadline": until})]
    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [], after(75)))
    waiting = "  a2  pending, 1 of 2 have agreed, until 2026-01-02 04:00:00 UTC  main: write /c"
    assert capture.get().splitlines()[-1].rstrip() == waiting
    (shown,) = record_json(SUMMARY, view, [])["approvals"]
    assert (shown["votes"], shown["quorum"], shown["deadline"]) == (1, 2, "2026-01-02T04:00:00Z")


def test_the_door_that_a_decision_came_through_is_told(view: RunView) -> None:
    through = ViewEvent(DECIDED.type, DECIDED.at, DECIDED.path, {**DECIDED.data, "via": "http"})
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(SUMMARY, view, [through, DECIDED], after(75)))
    assert "  a1  reject  ann via http, 2026" in capture.get()
    assert "  a1  reject  ann, 2026" in capture.get()
    shown = record_json(SUMMARY, view, [through, DECIDED])["approvals"]
    assert [one.get("via") for one in shown] == ["http", None]


def test_the_record_as_json(view: RunView) -> None:
    view.pending = [PENDING]
    view.trouble = "nobody has asked for work"
    shown = record_json(SUMMARY, view, [DECIDED])
    assert shown["trouble"] == "nobody has asked for work"
    assert shown["usage"]["requests"] == 3
    assert [(one["path"], one["status"]) for one in shown["invocations"]] == [
        ("main", "running"),
        ("main/scout-1", "completed"),
        ("main/scout-2", "waiting"),
        ("main/scout-3", "running"),
    ]
    assert [(one["id"], one["decision"]) for one in shown["approvals"]] == [("a1", "reject"), ("a2", None)]
    assert shown["approvals"][0]["at"] == "2026-01-02T03:04:14+00:00"


def test_a_record_of_a_fork_tells_what_was_reused_and_from_where(view: RunView) -> None:
    main = view.nodes["r"]
    main.reused_turns = 2
    main.usage = main.usage.plus(Usage(saved=Saved(requests=3, input_tokens=900, cost_usd=Decimal("0.5"))))
    places = (("turn 1", 1), ("write_file", 1), ("turn 2", 2))
    main.reused = [ReusedStep(what, f"old\x1b[1m main turn {turn}") for what, turn in places]
    summary = replace(SUMMARY, fork_of="old")
    console = Console(width=150, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(render_record(summary, view, [], after(75)))
    shown = capture.get()
    assert "run-1 · fork of old · boss" in shown
    assert "turn 4, 2 reused" in shown
    assert "reused 3 turns of $0.5000" in shown
    assert "  main  turn 1, write_file  from old\\x1b[1m main turn 1" in shown
    found = record_json(summary, view, [])
    assert found["fork_of"] == "old"
    assert found["saved"] == {"requests": 3, "input_tokens": 900, "output_tokens": 0, "cost_usd": 0.5}
    (first, *_) = found["invocations"]
    assert (first["turns"], first["reused"][2]["what"]) == (4, "turn 2")
