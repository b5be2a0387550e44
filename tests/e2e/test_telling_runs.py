"""What is told of a run: numbered events, its log, its cost and its record to keep."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.people.desk import Desk, use_provider
from tests.support.providers.answers import Gate, Gated, Text
from tests.support.providers.provider import FakeProvider, fixed

JOB = ("start", "pitch_orchestrator", "evaluate every deck", "--approve-all", "--id", "told", "-o", "jsonl")


@pytest.mark.extension("export")
def test_a_run_is_told_the_same_way_whenever_it_is_asked_for(shop: Desk, tmp_path: Path) -> None:
    live = shop.type(*JOB).stdout.splitlines()
    assert shop.type("watch", "told", "-o", "jsonl").stdout.splitlines() == live
    assert [json.loads(line)["seq"] for line in live[:-1]] == list(range(1, len(live)))
    assert shop.type("watch", "told", "-o", "jsonl", "--from-seq", "9").stdout.splitlines() == live[8:]

    log = shop.type("logs", "told").stdout
    assert shop.type("logs", "told", "--follow").stdout == log
    only = shop.type("logs", "told", "--path", "main/pitch_evaluator-1").stdout.splitlines()
    assert set(only) < set(log.splitlines())
    assert "turn 1 answered" in "\n".join(only)
    assert "has no invocation 'main/nobody'" in shop.type("logs", "told", "--path", "main/nobody", code=2).stderr

    cost = shop.type("show", "told", "--cost").stdout
    assert "main/pitch_evaluator-1" in cost
    assert "offline:plays.py:examples" in cost

    assert shop.type("export", "told").stdout.startswith("# Run `told`\n")
    kept = tmp_path / "job.html"
    done = shop.type("export", "told", "-o", str(kept))
    assert done.stdout == ""
    assert f"wrote {kept}" in done.stderr.splitlines()
    assert "main/pitch_evaluator-1" in kept.read_text()
    told = json.loads(shop.type("export", "told", "--format", "json").stdout)
    assert len(told["invocations"]) == 1 + len(shop.decks)
    assert all(one["transcript"][-1]["kind"] == "end" for one in told["invocations"])
    assert (
        "is a folder; only an ordinary file is replaced"
        in shop.type("export", "told", "-o", str(tmp_path), code=2).stderr
    )
    assert "there is no run 'nobody'" in shop.type("export", "nobody", "-o", str(tmp_path / "x.md"), code=2).stderr
    assert not (tmp_path / "x.md").exists()


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["start", "watch"])
def test_a_pipe_is_told_of_the_work_while_it_is_done(desk: Desk, command: str) -> None:
    (desk.workshop / "slow.worker").write_text("---\nname: slow\n---\nSay hi.\n")
    gate = Gate()
    with FakeProvider(fixed(Gated(gate, Text("Hi.")))) as provider:
        use_provider(desk, provider)
        start = ("start", "slow", "hi", "--model", "openai-chat:gpt-test", "--id", "slow")
        if command == "watch":
            desk.type(*start, "--detach")
        process = desk.begin(*(start if command == "start" else ("watch", "slow")))
        assert process.stderr is not None
        assert any(line == "main: turn 1, request model: openai-chat:gpt-test\n" for line in process.stderr)
        gate.open()
        out, err = process.communicate()
    assert (process.returncode, out, err.count("main: turn")) == (0, "Hi.\n", 0)


@pytest.mark.thorough
def test_a_program_that_reads_json_gets_no_lines_about_the_work(shop: Desk) -> None:
    done = shop.type(*JOB[:4], "--id", "told-as-json", "-o", "json")
    assert json.loads(done.stdout)["status"] == "completed"
    assert "turn 1" not in done.stderr


EVERY_DECK = ("start", "pitch_orchestrator", "evaluate every deck")


def trace(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("*.jsonl")
    assert path.stat().st_mode & 0o077 == 0
    return [json.loads(line) for line in path.read_text().splitlines()]


def events_of(stderr: str) -> list[dict[str, Any]]:
    """The events among the lines of stderr."""
    return [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]


def of_kind(spans: list[dict[str, Any]], operation: str) -> list[dict[str, Any]]:
    return [span for span in spans if span["attributes"].get("gen_ai.operation.name") == operation]


def test_events_are_lines_on_stderr_and_the_result_is_alone_on_stdout(shop: Desk) -> None:
    prompt = f"evaluate {shop.decks[0]}.pdf"
    asked = shop.type("start", "pitch_orchestrator", prompt, "--id", "logged", "--log-events", code=3)
    assert [event["tool"] for event in events_of(asked.stderr) if event["type"] == "approval.requested"] == [
        "write_file"
    ]
    shop.type("approve", "logged", "a1")
    done = shop.type("watch", "logged", "--log-events")
    assert done.stdout.startswith("Evaluated 1 of 1 decks")
    events = events_of(done.stderr)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run.started"
    assert {"invocation.started", "turn.started", "turn.completed", "invocation.completed"} <= set(kinds)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    # A tool that the model called, and what a person decided about another.
    assert next(event["what"] for event in events if event.get("activity") == "list_files") == "list /pipeline"
    (decided,) = [event for event in events if event["type"] == "approval.decided"]
    assert (decided["id"], decided["decision"]) == ("a1", "approve")


def test_a_trace_has_every_turn_and_call_and_no_bytes_and_no_host_path(shop: Desk, tmp_path: Path) -> None:
    done = shop.type(*EVERY_DECK, "--approve-all", "--id", "traced", "--trace-dir", str(tmp_path / "traces"))
    spans = trace(tmp_path / "traces")
    (file,) = (tmp_path / "traces").iterdir()
    assert re.fullmatch(r"traced-\d{8}T\d{6}Z\.jsonl", file.name)
    assert f"trace {tmp_path}" in done.stderr
    turns = of_kind(spans, "chat")
    usage = json.loads(shop.type("result", "traced", "-o", "json").stdout)["usage"]
    assert len(turns) == usage["requests"]
    assert sum(span["attributes"]["gen_ai.usage.input_tokens"] for span in turns) == usage["input_tokens"]
    assert len(of_kind(spans, "execute_tool")) == usage["tool_calls"]
    assert len(of_kind(spans, "invoke_agent")) == 1 + len(shop.decks)
    assert all(span["end_time"] for span in spans)
    assert str(shop.workshop.parent) not in json.dumps(spans)
    assert "attachment.data" not in json.dumps(spans)


def test_the_bytes_of_attachments_are_there_when_they_are_asked_for(shop: Desk, tmp_path: Path) -> None:
    shop.type(*EVERY_DECK, "--approve-all", "--trace-dir", str(tmp_path / "traces"), "--trace-binary")
    attached = [event["attributes"] for span in trace(tmp_path / "traces") for event in span["events"]]
    assert len(attached) == len(shop.decks)
    for one in attached:
        file = shop.workshop / "files" / str(one["llm_do.attachment.name"]).lstrip("/")
        assert base64.b64decode(one["llm_do.attachment.data"]) == file.read_bytes()


def test_a_run_that_fails_is_traced_to_its_end(shop: Desk, tmp_path: Path) -> None:
    recorded = ("--trace-dir", str(tmp_path / "traces"))
    done = shop.type("start", "greeter", "hi", "--force-model", "foo:bar", *recorded, code=1)
    assert "unknown provider 'foo'" in done.stderr
    spans = trace(tmp_path / "traces")
    (root,) = [span for span in spans if span["parent_id"] is None]
    assert root["status"]["status_code"] == "ERROR"
    assert "unknown provider 'foo'" in root["status"]["description"]
    assert all(span["end_time"] for span in spans)


@pytest.mark.thorough
@pytest.mark.parametrize("leave", [(), ("--detach",)])
def test_a_run_that_is_left_is_traced_so_far_and_completed_by_watch(
    shop: Desk, tmp_path: Path, leave: tuple[str, ...]
) -> None:
    run = f"left{len(leave)}"
    here = str(tmp_path / "traces")
    done = shop.type(*EVERY_DECK, "--id", run, "--trace-dir", here, *leave, code=0 if leave else 3)
    assert "holds what was seen so far" in done.stderr
    assert f"watch {run} --trace-dir {here}" in done.stderr
    root = next(span for span in trace(tmp_path / "traces") if span["parent_id"] is None)
    assert (root["end_time"], root["attributes"]["llm_do.state"]) == (None, "open")
    for approval in shop.pending(run, len(shop.decks)):
        shop.type("approve", run, approval["id"])
    shop.type("watch", run, "--trace-dir", str(tmp_path / "whole"))
    whole = trace(tmp_path / "whole")
    assert all(span["end_time"] for span in whole)
    assert len([span for span in whole if span["name"] == "approval"]) == len(shop.decks)
    assert root["context"] in [span["context"] for span in whole]


def test_what_cannot_be_recorded_is_said_before_there_is_a_run(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = desk.type("start", "greeter", "hi", "--trace-dir", str(tmp_path / "file"), code=2)
    assert "for traces cannot be made" in done.stderr
    assert "--trace-dir" in desk.type("start", "greeter", "hi", "--trace-binary", code=2).stderr
    assert not (desk.workshop / ".llm-do").exists()


@pytest.mark.thorough
def test_an_imported_worker_can_be_started(desk: Desk, tmp_path: Path) -> None:
    agents = tmp_path / "project" / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "Echo Agent.md").write_text("---\nname: Echo Agent\ndescription: d\ntools: Read\n---\nSay it again.\n")
    desk.workshop = tmp_path / "made"
    imported = desk.command("import", str(tmp_path / "project"), "--into", str(desk.workshop))[:-2]
    done = subprocess.run(imported, env=desk.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == "echo_agent  .claude/agents/Echo Agent.md\n"
    assert "renamed from 'Echo Agent'" in done.stderr
    desk.type("check", code=0)
    assert desk.type("start", "echo_agent", "hello", "--model", "offline:echo").stdout == "hello\n"


@pytest.mark.thorough
def test_a_run_that_reaches_a_limit_exits_7_with_what_it_cost(shop: Desk) -> None:
    done = shop.type(*EVERY_DECK, "--approve-all", "--max-turns", "2", "-o", "json", code=7)
    told = json.loads(done.stdout)
    assert told["error"]["code"] == "BudgetExceeded"
    assert "the run has spent 2 turns, its limit is 2 turns" in told["error"]["message"]
    assert "--max-turns" in told["error"]["next"]
    assert told["usage"]["requests"] == 2
    assert (told["cost_usd"], told["unpriced_models"]) == (0, [])
    assert " · free · " in shop.type("show", told["run"]).stdout
