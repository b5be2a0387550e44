"""Rules learned from the histories of real runs: suggested as a diff, taken by `patch`, and held by the gate."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess

import pytest
import yaml

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.testing import call, scripted
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

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
