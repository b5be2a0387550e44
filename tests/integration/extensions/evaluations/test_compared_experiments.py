"""Evaluations on a real server, from the command line: compared, exported, and their runs made cases."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path

import pytest
import yaml

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.start import begin_experiment, draft_evaluation
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.testing import scripted
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

CASES = [{"name": f"case-{number}", "inputs": f"greet {number}", "expected_output": "Hello!"} for number in range(6)]


async def evaluate(place: Place, file: Path) -> str:
    """Evaluate the file, and return the id of the experiment once it has ended."""
    spec = load_evaluation(file, place.folder)
    draft = await draft_evaluation(place.client, spec, place.folder, environment_model=None, started_by="ada")
    begun = await begin_experiment(place.client, draft, retry_errors=False)
    await place.client.temporal.get_workflow_handle(begun.experiment).result()
    place.started.append(begun.experiment)
    return begun.experiment


async def test_two_versions_are_compared_and_a_run_becomes_a_case(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)

    async def say(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)])
        told = capsys.readouterr()
        return code, told.out + told.err

    keys = {"worker": "main", "cases": CASES, "evaluators": ["EqualsExpected"]}
    file = place.write("greeting.eval.yaml", "# Greetings.\n" + yaml.safe_dump(keys))
    place.worker("main", scripted("Hello!"))
    before = await evaluate(place, file)
    place.worker("main", scripted("Go away!"), instructions="Be rude.")
    now = await evaluate(place, file)

    code, text = await say("eval", "compare", before, now, "--fail-if-worse")
    assert (code, "EqualsExpected: B is worse: A 100.0 %, B 0.0 %" in text) == (1, True), text
    code, text = await say("eval", "compare", now, before, "--json")
    compared = json.loads(text)
    assert (code, compared["b"]["experiment"], compared["metrics"][0]["wins"]) == (0, before, 6), text
    code, text = await say("eval", "export", now, "--format", "markdown", "--against", before)
    assert (code, "6 scores got worse:" in text) == (0, True), text
    file_of_scores = place.folder / "scores.csv"
    code, text = await say("eval", "export", now, "-o", str(file_of_scores))
    with file_of_scores.open(encoding="utf-8-sig", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert (code, [row["case"] for row in rows]) == (0, [f"case-{number}" for number in range(6)]), text
    assert {(row["output"], row["score.EqualsExpected"], row["expected"]) for row in rows} == {
        ("Go away!", "false", "Hello!")
    }
    # The runs of cases are in lists, a moment late, only where they are asked for, and say whose they are.
    text = ""
    while f"{now}-case-1-r1" not in text:
        code, text = await say("list", "--evaluations", "--limit", "1000")
        assert code == 0, text
    code, text = await say("list", "--limit", "1000")
    assert (code, f"{now}-case-1-r1" in text, " of evaluations; `list --evaluations` has them" in text) == (
        0,
        False,
        True,
    )
    code, text = await say("show", f"{now}-case-1-r1")
    assert (code, f" · case case-1 of experiment {now} · " in text) == (0, True), text

    place.worker("main", scripted(write_call("/out.txt", "hello"), "Hello!"), toolsets={"filesystem": {}})
    run = await place.start("main", prompt="greet cleo")
    await place.pending(run)
    await place.decide(run)
    await place.client.result(run)
    code, text = await say("eval", "add", run, "--to", str(file), "--id", "cleo")
    assert (code, "added case 'cleo' to greeting.eval.yaml, with 1 decision" in text) == (0, True), text
    case = load_evaluation(file, place.folder).cases[-1]
    assert (case.id, case.prompt, case.expected) == ("cleo", "greet cleo", "Hello!")
    assert [(entry.tool, entry.decision) for entry in case.decide] == [("write_file", "approve")]
    assert file.read_text().startswith("# Greetings.\n")


async def test_a_raised_threshold_fails_the_gate_in_every_report(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)

    async def say(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run_command, [*words, "--workshop", str(place.folder)])
        return code, capsys.readouterr().out

    model = scripted("Hello!")
    place.worker("main", model)
    cases = [{**CASES[0]}, {**CASES[1], "expected_output": "Bye!"}]
    keys = {"worker": "main", "cases": cases, "evaluators": ["EqualsExpected"], "thresholds": {"EqualsExpected": 0.4}}
    file = place.write("greeting.eval.yaml", yaml.safe_dump(keys))
    code, text = await say("eval", str(file), "--json")
    place.started.append(json.loads(text)["experiment"])
    assert (code, json.loads(text)["passed"]) == (0, True), text

    place.write("greeting.eval.yaml", yaml.safe_dump({**keys, "thresholds": {"EqualsExpected": 0.9}}))
    junit = tmp_path / "junit.xml"
    code, text = await say("eval", str(file), "--json", "--junit", str(junit))

    assert (code, json.loads(text)["passed"]) == (1, False), text
    assert "EqualsExpected: 50.0 % over 2 cases; wanted at least 0.9: not kept." in text
    assert "wanted at least 0.9: not kept." in junit.read_text()
    code, text = await say("eval", "export", "greeting", "--format", "junit")
    assert "wanted at least 0.9: not kept." in text
    code, text = await say("eval", "show", "greeting", "--json")
    assert json.loads(text)["passed"] is False
    assert len(model.requests) == 2


async def test_a_case_of_a_run_tells_its_worker_the_names_that_the_run_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**place.variables, "LLM_DO_TASK_QUEUE": place.queue}.items():
        monkeypatch.setenv(name, value)
    model = scripted("27 November", "27 November")
    place.worker("main", model)
    names = ["2026.11.27 bill v1.2.tar.txt", "evil.worker", ".plan"]
    for name in names:
        place.write(f"given/{name}", "sum")
    attached = snapshot_host_files(
        [place.folder / "given" / name for name in names], LocalBlobStore(blob_folder(place.folder)), 1_000
    )
    run = await place.start("main", prompt="when?", attachments=[one.model_dump() for one in attached])
    await place.client.result(run)
    file = place.folder / "bills.eval.yaml"
    words = ["eval", "add", run, "--to", str(file), "--workshop", str(place.folder)]
    assert await asyncio.to_thread(run_command, words) == 0
    told = capsys.readouterr().err
    assert f"added case '{run}' to bills.eval.yaml, with 3 files" in told
    assert "the copy of 'evil.worker' is called 'evil-worker.txt', and the worker of the case is told that name" in told
    assert "the copy of '.plan' is called 'plan'" in told
    assert "bill" not in told.replace("bills.eval.yaml", "")
    await evaluate(place, file)
    assert [name in model.requests[-1].prompt for name in (names[0], "evil-worker.txt", "plan")] == [True] * 3
