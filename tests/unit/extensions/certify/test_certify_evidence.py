"""A crash proof: what is compared, what is struck after, and mistakes that end it before it costs anything."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.certify.command import Blows
from llm_do_temporal.extensions.certify.evidence import Evidence, Histories, compare, gather
from llm_do_temporal.extensions.certify.plan import digests, is_free
from llm_do_temporal.messages.base import ENTRY_PATH
from tests.support.people.forked_program import run_forked

STORED = Path(__file__).parents[3] / "support" / "histories" / "pitch-decks"
BEFORE = {"notes.txt": "n"}
RECORDED = Evidence(
    result={"output": "done"},
    files={"notes.txt": "n", "report.md": "r"},
    turns={"main": Counter({"first": 1, "second": 1})},
    writes=Counter({"main: write_file r": 1}),
    once=Counter({"main: run_command c": 1}),
)
TWICE = Counter({"first": 2, "second": 1})
CASES = [
    # what a struck run left, what is wrong with it (a part of it), what is wrong when answers may differ
    (RECORDED, "", ""),
    (replace(RECORDED, error="boom"), "ended without a result: boom", "ended without a result: boom"),
    (replace(RECORDED, result={"output": "other"}), "the result differs", ""),
    (replace(RECORDED, turns={"main": TWICE}), "main: a turn was asked twice", "main: a turn was asked twice"),
    (replace(RECORDED, turns={"main": Counter({"first": 1})}), "more or fewer turns", ""),
    (replace(RECORDED, files={"notes.txt": "n"}), "the file report.md is missing", ""),
    (replace(RECORDED, files={"notes.txt": "x", "report.md": "r"}), "the file notes.txt differs", ""),
    (replace(RECORDED, writes=Counter({"main: write_file r": 2})), "written more often", ""),
    (replace(RECORDED, writes=Counter()), "never written: main: write_file r", ""),
    (replace(RECORDED, once=Counter({"main: run_command c": 2})), "run more often", ""),
    (replace(RECORDED, children=Counter({"main/helper-1": 2})), "main/helper-1 was started twice", "was started twice"),
    # a person skipped what may have happened: its result and its files may be missing, but nothing may be there twice
    (replace(RECORDED, doubts=1, result={"output": "unknown"}, files={"notes.txt": "n"}), "", ""),
    (replace(RECORDED, doubts=1, files={"notes.txt": "n", "report.md": "rr"}), "the file report.md differs", ""),
    (replace(RECORDED, doubts=1, once=Counter({"main: run_command c": 2})), "run more often", ""),
]


@pytest.mark.parametrize(("struck", "wrong", "wrong_for_any_answers"), CASES)
def test_what_a_struck_run_may_not_leave(struck: Evidence, wrong: str, wrong_for_any_answers: str) -> None:
    for expected, exact in ((wrong, True), (wrong_for_any_answers, False)):
        found = compare(RECORDED, struck, BEFORE, exact=exact)
        assert expected in "; ".join(found)
        assert bool(found) == bool(expected)


@pytest.fixture(scope="module")
def histories() -> Histories:
    """Those of a run that was recorded."""
    found = Histories()
    for path in STORED.glob("*.json"):
        where = path.stem.partition(".")[2].replace(".", "/") or ENTRY_PATH
        found.events += [(where, event) for event in WorkflowHistory.from_json(where, path.read_text()).events]
    return found


def test_every_event_gets_a_number_in_the_order_of_writing(histories: Histories) -> None:
    points = histories.points()
    assert [point.number for point in points] == list(range(1, len(histories.events) + 1))
    assert (points[0].path, points[0].event_id, points[0].what) == (ENTRY_PATH, 1, "workflow execution started")
    assert (points[-1].path, points[-1].what) == (ENTRY_PATH, "workflow execution completed")
    own = [point.event_id for point in points if point.path == "main"]
    assert own == sorted(own)
    assert "activity task completed snapshot_attachments" in {point.what for point in points}


def test_turns_and_writes_are_counted_apart(histories: Histories) -> None:
    evidence = gather({}, "", {}, 0, histories)
    assert evidence.turns["main"].total() == 4
    assert set(evidence.turns["main"].values()) == {1}
    assert evidence.writes.total() == 5
    assert not evidence.once


def test_commits_are_counted_whatever_their_run_is_called() -> None:
    def committed(*keys: str) -> Counter[str]:
        histories = Histories()
        for key in keys:
            event = HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
            event.activity_task_scheduled_event_attributes.activity_type.name = "commit_changes"
            event.activity_task_scheduled_event_attributes.input.payloads.add(data=key.encode())
            histories.events.append(("main", event))
        return gather({}, "", {}, 0, histories).writes

    assert committed("certify-1") == committed("certify-2") == Counter({"main: commit_changes": 1})
    assert committed("certify-1", "certify-1")["main: commit_changes"] == 2


def test_the_run_goes_on_with_what_somebody_else_takes_up(histories: Histories) -> None:
    taken = [
        (event.event_time.ToNanoseconds() / 1e9, event.activity_task_started_event_attributes.identity)
        for _, event in histories.events
        if event.activity_task_started_event_attributes.identity
    ]
    first, last = min(taken), max(taken)
    assert histories.resumed(first[0] - 1, None) is not None
    assert histories.resumed(first[0] - 1, int(first[1].partition("@")[0])) is None
    assert histories.resumed(last[0] + 1e6, None) is None


def test_what_a_killed_process_left_half_written_is_no_file(tmp_path: Path) -> None:
    (tmp_path / ".llm-do").mkdir()
    for name in (".llm-do/temporal.db", ".llm-do-0123456789abcdef.tmp", "kept.txt"):
        (tmp_path / name).write_text("x")
    assert list(digests(tmp_path)) == ["kept.txt"]


@pytest.mark.parametrize(
    ("model", "free"),
    [
        ("offline:by-hand", True),
        ("openai:gpt-5", False),
        ("cheap", True),
        ("dear", False),
        ("offline:echo,openai:gpt-5", False),
    ],
)
def test_only_scripts_are_free(model: str, free: bool) -> None:
    assert is_free({"cheap": "offline:echo", "dear": "openai:gpt-5"}, model) is free


REQUEST = StartRequest(worker="editor", read_prompt=lambda: "", read_input=lambda: None)


def test_a_fork_is_rehearsed_only_where_a_turn_of_it_is_named() -> None:
    assert Blows().plan(Path(), REQUEST).fork_at is None
    assert Blows(fork_at=("main@2",)).plan(Path(), REQUEST).fork_at == ("main@2",)


@pytest.mark.parametrize("blows", [Blows(every=0), Blows(jobs=0)])
def test_numbers_below_one_are_refused(blows: Blows) -> None:
    with pytest.raises(UsageError, match="is not a number above zero"):
        blows.plan(Path(), REQUEST)


USAGE = [
    (["greeter", "--every", "0"], "--every 0 is not a number above zero"),
    (["greeter", "--kill", "cat"], 'Invalid value "cat" for --kill'),
    (["greeter.eval.yaml", "hi"], "PROMPT says nothing beside the evaluation 'greeter.eval.yaml'"),
    (["greeter.eval.yaml", "--fork-at", "main@1"], "--fork-at says nothing beside the evaluation"),
    (["gone.eval.yaml"], "there is no evaluation file 'gone.eval.yaml'"),
    (["greeter", "--address", "h:1"], "leaves 'h:1' alone"),
    (["greeter", "--model", "openai:gpt-5"], "'openai:gpt-5' may charge for each time"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("arguments", "said"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_a_mistake_is_one_message_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("model: offline:echo\n")
    (tmp_path / "workers" / "greeter.worker").write_text("description: Greets.\n---\nSay hello.\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "LLM_DO_"))}
    done = run_forked(["certify", *arguments], folder=tmp_path, environment=kept | {"HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("llm-do-temporal: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
