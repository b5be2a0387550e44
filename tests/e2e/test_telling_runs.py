"""What is told of a run: numbered events, its log, its cost and its record to keep."""

from __future__ import annotations

import json
from pathlib import Path

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
