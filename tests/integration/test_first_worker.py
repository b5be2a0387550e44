"""The first worker of the README, as it stands there, in a workshop of one's own."""

from __future__ import annotations

import re
from pathlib import Path

from llm_do_temporal.messages.approvals import Decision, DecisionKind
from tests.support.runs.place import Place

README = Path(__file__).parents[2] / "README.md"


def install(place: Place) -> None:
    """Write the two files of the README."""
    worker, workshop, *_ = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    (place.folder / "notes.worker").write_text(worker)
    (place.folder / "workshop.yaml").write_text(workshop)
    (place.folder / "files").mkdir()


async def test_it_keeps_notes_with_no_key(place: Place) -> None:
    install(place)
    await place.run("notes", "buy milk", mode="approve_all")
    run = await place.start("notes", "buy bread")
    (asked,) = await place.pending(run, 1)
    assert (place.folder / "files/notes.md").read_text() == "- buy milk\n"
    await place.client.decide(run, Decision(id=asked.id, decision=DecisionKind.APPROVE))
    assert str((await place.client.result(run)).output).startswith("2 notes in /notes.md.")
    assert (place.folder / "files/notes.md").read_text() == "- buy milk\n- buy bread\n"


async def test_every_tool_of_it_can_be_called_by_hand(place: Place) -> None:
    install(place)
    (place.folder / "files/notes.md").write_text("- buy milk\n")
    calls = 'read_file /notes.md\nwrite_file {"path": "/../x", "content": ""}'
    result = await place.run("notes", calls, model="offline:by-hand")
    assert "- buy milk" in str(result.output)
    assert "write_file: '/../x' contains '..'" in str(result.output)
