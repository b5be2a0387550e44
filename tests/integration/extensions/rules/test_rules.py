"""Rules tried on the histories of real runs, by the command line and on the page."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from llm_do_temporal.cli.options import Location
from llm_do_temporal.extensions.rules.command import try_rules
from tests.support.people.signed_in import signed_in_browser
from tests.support.runs.parked import start_parked, write_call
from tests.support.runs.place import Place


async def past_run(place: Place, notes: str) -> str:
    """A run in which one note was approved, one rejected, and a file beside the notes approved."""
    calls = [write_call(f"{notes}/good.md"), write_call(f"{notes}/bad.md"), write_call(f"{notes}-2/other.md")]
    run, _ = await start_parked(place, calls, "Done.")
    asked = await place.pending(run, len(calls))
    for question in asked:
        is_bad = "bad" in question.request.summary
        decision = {"decision": "reject", "note": "not this one"} if is_bad else {"decision": "approve"}
        await place.decide(run, id=question.id, by="ann", **decision)
    await place.client.result(run)
    return run


async def test_a_new_entry_is_tried_on_real_runs_before_it_holds(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    # Other tests have runs on the same server.
    notes = f"/notes-{uuid4().hex}"
    run, entry = await past_run(place, notes), f"{{tool: write_file, below: {notes}, suffix: .md}}"
    location = Location(workshop=place.folder)

    async def tried(*entries: str) -> tuple[int, dict[str, Any]]:
        code = await try_rules(add=list(entries), since="10m", as_json=True, location=location)
        return code, json.loads(capsys.readouterr().out)

    # The server lists a run a moment after it has begun; each trial reads the runs of other tests, too.
    while not (await place.client.temporal.count_workflows(f"WorkflowId = '{run}'")).count:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    code, trial = await tried(entry)
    assert [(one["run"], one["summary"], one["answer"]) for one in trial["newly_passed"]] == [
        (run, f"write_file {notes}/bad.md (2 bytes)", "rejected"),
        (run, f"write_file {notes}/good.md (2 bytes)", "approved"),
    ]
    assert (code, trial["against"]) == (1, 1)
    code, trial = await tried(f"{{tool: write_file, path: {notes}/good.md}}")
    assert (code, len(trial["newly_passed"])) == (0, 1)
    neighbours = {one["trick"]: one["verdict"] for one in trial["entries"][0]["neighbours"]}
    assert neighbours["a link that leads elsewhere"] == "asks"
    ada = await signed_in_browser(place)
    page = await ada.open(f"/rules?days=7&add={quote(entry)}")
    assert "1 call newly passes though a person rejected" in page.text
    assert "rejected by ann: not this one" in page.text
    assert page.html.count(f"/runs/{run}/approvals/") == 2
