"""A batch as people start one: every sample deck in one run, with no key and no server."""

from __future__ import annotations

import json

from tests.support.people.desk import Desk


def test_every_deck_is_an_item_of_one_run(desk: Desk) -> None:
    decks = str(desk.workshop / "files/pipeline" / "*.pdf")
    flags = ("--each", decks, "--concurrency", "2", "-o", "jsonl", "--id", "decks")
    lines = [
        json.loads(line) for line in desk.type("start", "pitch_evaluator", "Evaluate it.", *flags).stdout.splitlines()
    ]
    *events, last = lines
    told = {event["item"]: event["output"] for event in events if event["type"] == "item.completed"}
    assert sorted(told) == [f"{name}.pdf" for name in desk.decks]
    assert len({output["summary"] for output in told.values()}) == len(told) == 5
    assert {item["item"]: item["output"] for item in last["items"]} == told
    assert (last["status"], last["run"], last["usage"]["requests"]) == ("completed", "decks", 5)
    shown = desk.type("result", "decks").stdout.splitlines()
    assert sorted(line.split()[:2] for line in shown) == [["completed", name] for name in sorted(told)]
    assert "all 5 items of run 'decks' have completed" in desk.type("start", "--retry-failed", "decks", code=2).stderr
