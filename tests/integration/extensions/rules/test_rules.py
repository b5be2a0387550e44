"""Rules tried on the histories of real runs, by the command line and on the page."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import yaml

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.cli.options import Location
from llm_do_temporal.client.history.events import read_chain
from llm_do_temporal.extensions.rules.command import try_rules
from llm_do_temporal.extensions.rules.trial import CallAnswer, past_calls_of
from llm_do_temporal.testing import call, scripted
from tests.support.people.signed_in import signed_in_browser
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
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


BEFORE = """\
# who may do what
name: test
sandbox: {root: files}   # the workers' own
approvals:
  # for now
  mode: interactive

max_depth: 3
"""


async def decided_run(place: Place, worker: str, *paths: str, refuse: str = "") -> None:
    """Run a worker that writes these files; all are approved, but one."""
    place.worker(worker, scripted([write_call(path) for path in paths], "Done."), toolsets=FILESYSTEM)
    run = await place.start(worker)
    for one in await place.pending(run, len(paths)):
        refused = one.args["path"] == refuse
        await place.decide(run, "reject" if refused else "approve", id=one.id, by="ada", note="no" if refused else "")
    await place.client.result(run)


async def test_what_people_approved_in_several_runs_needs_nobody_once_the_diff_is_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)
    file = place.write("workshop.yaml", BEFORE)
    (place.folder / "files").mkdir()
    for number in range(4):
        await decided_run(place, "keeper", f"/notes/{number}.md", f"/drafts/{number}.md")
    await decided_run(place, "keeper", "/drafts/final.md", refuse="/drafts/final.md")
    await decided_run(place, "other", "/notes/x.md")

    async def typed(*words: str) -> tuple[str, str]:
        assert await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)]) == 0
        return capsys.readouterr()

    assert (await typed("rules", "suggest"))[0] == ""  # all of it was on one day
    while (told := json.loads((await typed("rules", "suggest", "--min-days", "1", "--json"))[0]))["runs"] < 6:
        pass  # the server lists a run a moment after it has begun
    (entry,) = (one["entry"] for one in told["entries"])
    assert (told["asked"], told["left"], told["wrong"], told["runs"]) == (10, 6, 0, 6)
    assert entry["folder"] == "/notes"

    diff, said = await typed("rules", "suggest", "--min-days", "1")
    assert diff == told["diff"]
    assert said.strip() == (
        "asked 10 times in 30 days; this rule leaves 6; it newly passes none that was rejected or changed"
    )
    # Both programs take it, and make the same of it.
    patched = place.folder.parent / "patched"
    patched.mkdir()
    shutil.copy(file, patched)
    for program, folder in ((["patch", "-s", "-p1"], patched), (["git", "apply"], place.folder)):
        await asyncio.to_thread(subprocess.run, program, input=diff, text=True, check=True, cwd=folder)
    assert file.read_text("utf-8") == (patched / "workshop.yaml").read_text("utf-8")
    assert [line for line in file.read_text("utf-8").splitlines() if line in BEFORE.splitlines()] == BEFORE.splitlines()
    (allowed,) = yaml.safe_load(file.read_text("utf-8"))["approvals"]["allow"]
    assert allowed == entry
    assert "no problems" in (await typed("check"))[1]
    assert "write_file of .md files in /notes, by keeper" in (await typed("rules"))[0]

    place.worker(
        "keeper", scripted([write_call("/notes/new.md"), write_call("/drafts/new.md")], "Done."), toolsets=FILESYSTEM
    )
    place.worker("other", scripted([call("write_file", path="/notes/y.md", content="y")], "Done."), toolsets=FILESYSTEM)
    run, others = await place.start("keeper"), await place.start("other")
    (left,) = await place.pending(run)
    assert left.args["path"] == "/drafts/new.md"
    assert [one.args["path"] for one in await place.pending(others)] == ["/notes/y.md"]
    await place.decide(run, id=left.id)
    await place.decide(others)
    await place.client.result(run)
    await place.client.result(others)
    assert (place.folder / "files/notes/new.md").read_text("utf-8") == "hi"
    # What the entry answered teaches nothing, and is asked no more.
    again = json.loads((await typed("rules", "suggest", "--min-days", "1", "--json"))[0])
    assert (again["entries"], again["diff"]) == ([], "")


@pytest.mark.parametrize("is_changed", [False, True], ids=["approved", "modified"])
async def test_an_approval_whose_call_was_not_carried_out_teaches_nothing(place: Place, *, is_changed: bool) -> None:
    place.write("b.txt", "b\n")
    run, _ = await start_parked(place, write_call("/a.txt"), "Done.", toolsets=FILESYSTEM)
    if is_changed:
        args = {"path": "/b.txt", "content": "hi"}
        await place.decide(run, "modify", id="a1", by="ann", args=args)
    else:
        place.write("a.txt", "somebody else's")
        await place.decide(run, id="a1", by="ann")
    await place.pending(run, 1)
    await place.decide(run, id="a2", by="ann")
    await place.client.result(run)
    past = await past_calls_of(run, read_chain(place.client.temporal, run, None, wait=False))
    first = CallAnswer.MODIFIED if is_changed else CallAnswer.NONE
    assert [one.answer for one in past] == [first, CallAnswer.APPROVED]
