"""Somebody runs a worker on more than Temporal carries, and cleans up when the run is no longer kept."""

from __future__ import annotations

import json

import pytest

from tests.support.patience import eventually
from tests.support.people.desk import Desk
from tests.support.ports import unused_port

LARGE = "x" * 3_000_000


@pytest.mark.thorough
@pytest.mark.extension("maintenance")
def test_a_large_input_comes_back_whole_and_is_removed_with_its_run(desk: Desk) -> None:
    desk.begin("dev", "--port", str(unused_port()), "--ui-port", str(unused_port()))
    assert desk.host.kind == "dev"
    (desk.workshop / "echo.worker").write_text("model: offline:echo\n---\nSay it again.\n")
    (desk.workshop / "deck.txt").write_text("Attached.")
    (desk.workshop / "input.json").write_text(json.dumps({"text": LARGE}))
    given = ("--input", f"@{desk.workshop / 'input.json'}", "-a", str(desk.workshop / "deck.txt"), "--id", "large")
    assert LARGE in json.loads(desk.type("start", "echo", *given, "-o", "json").stdout)["output"]
    plain = desk.temporal("workflow", "result", "-w", "large", "-o", "json")
    assert LARGE not in plain
    assert "llmdo-blobs" in plain

    # The server lists a run a moment after it has begun, and what no listed run needs is removed.
    eventually(lambda: "large" in desk.type("list").stdout, "the run is listed")
    # A result that the workflow's task handed on may be kept a second time, as nobody needs it.
    collected(desk)
    kept = collected(desk)
    assert kept["removed"] == {"blobs": 0, "bytes": 0}
    assert kept["left"]["blobs"] >= 3
    desk.temporal("workflow", "delete", "-w", "large", "--yes")
    eventually(lambda: collected(desk, "--dry-run")["removed"] == kept["left"], "nothing needs the blobs any more")
    said = desk.type("gc", "--older-than", "0s").stdout
    assert said.startswith(f"removed {kept['left']['blobs']} blobs ({kept['left']['bytes']} bytes), left 0 blobs")
    assert [path for path in (desk.workshop / ".llm-do" / "blobs").rglob("*") if path.is_file()] == []


def collected(desk: Desk, *flags: str) -> dict[str, dict[str, int]]:
    """What `gc` says it did."""
    found: dict[str, dict[str, int]] = json.loads(desk.type("gc", "--older-than", "0s", "--json", *flags).stdout)
    return found
