"""What is told of a run: numbered events, its log, its cost and its record to keep."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.people.desk import Desk

JOB = ("start", "pitch_orchestrator", "evaluate every deck", "--approve-all", "--id", "job", "-o", "jsonl")


def test_a_run_is_told_the_same_way_whenever_it_is_asked_for(desk: Desk, tmp_path: Path) -> None:
    live = desk.type(*JOB).stdout.splitlines()
    assert desk.type("watch", "job", "-o", "jsonl").stdout.splitlines() == live
    assert [json.loads(line)["seq"] for line in live[:-1]] == list(range(1, len(live)))
    assert desk.type("watch", "job", "-o", "jsonl", "--from-seq", "9").stdout.splitlines() == live[8:]

    log = desk.type("logs", "job").stdout
    assert desk.type("logs", "job", "--follow").stdout == log
    only = desk.type("logs", "job", "--path", "main/pitch_evaluator-1").stdout.splitlines()
    assert set(only) < set(log.splitlines())
    assert "turn 1 answered" in "\n".join(only)
    assert "has no invocation 'main/nobody'" in desk.type("logs", "job", "--path", "main/nobody", code=2).stderr

    cost = desk.type("show", "job", "--cost").stdout
    assert "main/pitch_evaluator-1" in cost
    assert "offline:examples" in cost

    assert desk.type("export", "job").stdout.startswith("# Run `job`\n")
    kept = tmp_path / "job.html"
    done = desk.type("export", "job", "-o", str(kept))
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("", f"wrote {kept}")
    assert "main/pitch_evaluator-1" in kept.read_text()
    told = json.loads(desk.type("export", "job", "--format", "json").stdout)
    assert len(told["invocations"]) == 1 + len(desk.decks)
    assert all(one["transcript"][-1]["kind"] == "end" for one in told["invocations"])
    assert (
        "is a folder; only an ordinary file is replaced"
        in desk.type("export", "job", "-o", str(tmp_path), code=2).stderr
    )
    assert "there is no run 'nobody'" in desk.type("export", "nobody", "-o", str(tmp_path / "x.md"), code=2).stderr
    assert not (tmp_path / "x.md").exists()
