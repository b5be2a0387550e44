"""A batch as people start one: every sample deck in one run, with no key and no server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.patience import eventually
from tests.support.people.desk import Desk
from tests.support.ports import unused_port


@pytest.mark.thorough
def test_every_deck_is_an_item_of_one_run(shop: Desk) -> None:
    decks = str(shop.workshop / "files/pipeline" / "*.pdf")
    flags = ("--each", decks, "--concurrency", "2", "-o", "jsonl", "--id", "decks")
    lines = [
        json.loads(line) for line in shop.type("start", "pitch_evaluator", "Evaluate it.", *flags).stdout.splitlines()
    ]
    *events, last = lines
    told = {event["item"]: event["output"] for event in events if event["type"] == "item.completed"}
    assert sorted(told) == [f"{name}.pdf" for name in shop.decks]
    assert len({output["summary"] for output in told.values()}) == len(told) == 5
    assert {item["item"]: item["output"] for item in last["items"]} == told
    assert (last["status"], last["run"], last["usage"]["requests"]) == ("completed", "decks", 5)
    shown = shop.type("result", "decks").stdout.splitlines()
    assert sorted(line.split()[:2] for line in shown) == [["completed", name] for name in sorted(told)]
    assert "all 5 items of run 'decks' have completed" in shop.type("start", "--retry-failed", "decks", code=2).stderr


KEEPER = """\
model: offline:notes
toolsets:
  filesystem: {}
attachment_policy:
  max_attachments: 1
---
You keep notes in /notes.md.
"""


@pytest.mark.thorough
def test_a_batch_tells_what_failed_survives_a_kill_and_takes_mended_files(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    monkeypatch.chdir(inputs)
    (desk.workshop / "keeper.worker").write_text(KEEPER)
    settings = desk.workshop / "workshop.yaml"
    settings.write_text(f"{settings.read_text()}on_refusal: abort\n")
    for name, text in {"a.txt": "one", "b.txt": "two", "c.txt": ""}.items():
        (inputs / name).write_text(text)
    each = ("keeper", "note", "--each", "*.txt", "--concurrency", "1", "--id", "keep")

    served = desk.begin("dev", "--no-page", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    assert desk.host
    told = desk.type("start", *each, "--detach").stderr
    assert "1 of 3 files cannot be used" in told
    desk.pending("keep", 1)
    desk.kill_group(served)

    desk.begin("dev", "--no-page", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    assert desk.host
    # What was asked right before the kill may be listed a moment after the server is back.
    eventually(lambda: "main/item-1 (a.txt)" in desk.type("approvals").stdout, "the question is listed")
    desk.type("approve", "keep", "a1")
    desk.asked("keep", "a2")
    desk.type("reject", "keep", "a2", "--reason", "not this one")
    summary = desk.type("watch", "keep", code=9).stderr.partition("ITEM ")[2]
    rows = [line.split()[:2] for line in summary.splitlines()[1:4]]
    assert rows == [["a.txt", "completed"], ["b.txt", "failed"], ["c.txt", "failed"]]
    assert "completed, 2 of 3 failed: b.txt, c.txt" in summary

    (inputs / "b.txt").write_text("two, mended")
    (inputs / "c.txt").write_text("three")
    told = desk.type("start", "--retry-failed", "keep", "--approve-all", "--id", "again").stderr
    assert "b.txt: has changed since then, and is taken as it is now (3 bytes then, 11 now)" in told
    assert "c.txt: could not be used then, and is taken now" in told
    # The server lists a moment late how a run has ended.
    ends = ("completed, 2 of 3 failed", "completed, 2 of 2 done")
    eventually(lambda: all(end in desk.type("list").stdout for end in ends), "both runs are listed as they ended")
