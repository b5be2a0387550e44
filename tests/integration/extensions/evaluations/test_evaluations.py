"""Evaluations on a real server: each case and each judgement once, errors apart, and only what is missing run again."""

from __future__ import annotations

import asyncio
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_ai.messages import ModelMessage
from temporalio.client import WorkflowFailureError, WorkflowHandle

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.client.history.events import activity_of
from llm_do_temporal.doors.http.app import build_api
from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import ModelFailed, UsageError
from llm_do_temporal.extensions.evaluations.client import (
    find_experiment,
    list_experiments,
    read_experiment,
    read_listed,
    read_progress,
)
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.messages import JUDGE_CASE
from llm_do_temporal.extensions.evaluations.policy.scores import Threshold
from llm_do_temporal.extensions.evaluations.start import begin_experiment, draft_evaluation
from llm_do_temporal.remote import ExperimentStart, RemoteClient
from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from llm_do_temporal.storage.snapshots import snapshot_host_files
from llm_do_temporal.testing import ScriptedModel, call, fails, scripted
from llm_do_temporal.ui.http_server import AppServer, listen
from tests.support.doors.http_client import Program, person, program
from tests.support.extensions.evaluations.begun import begun, evaluated
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place

JUDGE_SCHEMA = {
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["good", "reason"],
}


def judged(place: Place) -> ScriptedModel:
    """A judge that finds every answer good."""
    judge = scripted({"good": True, "reason": "it greets"})
    place.worker("judge", judge, output_schema=JUDGE_SCHEMA)
    return judge


async def test_a_file_that_cannot_be_attached_is_named_with_its_case_and_no_path_of_the_host(place: Place) -> None:
    place.worker("main", scripted("Hello!"))
    place.write("empty.csv", "")
    with pytest.raises(UsageError) as raised:
        await evaluated(place, cases=[{"name": "ada", "inputs": "x", "attachments": ["empty.csv"]}])
    assert raised.value.message == "case 'ada': the file 'empty.csv' is empty; attach one with content"


async def test_cases_and_judgements_run_once_and_what_is_added_runs_alone(place: Place) -> None:
    model, judge = scripted(write_call("/out.txt", "hello"), "Hello!"), judged(place)
    place.worker("main", model, toolsets={"filesystem": {}})
    cases = [{"name": name, "inputs": f"greet {name}", "expected_output": "Hello!"} for name in ("ada", "bob")]
    keys: dict[str, Any] = {
        "repeats": 2,
        "judge": "judge",
        "evaluators": ["EqualsExpected", {"FileEquals": {"path": "/out.txt", "text": "hello"}}],
        "thresholds": {"EqualsExpected": 1},
    }
    begun, record = await evaluated(place, cases=cases, **keys)

    assert (begun.how, record.state, len(record.results)) == ("started", "completed", 4)
    assert (len(model.requests), len(judge.requests)) == (8, 4)
    assert record.gate.passed, record.gate
    one = record.results[0]
    assert (one.case, one.repeat, one.facts.output, one.facts.error) == ("ada", 1, "Hello!", None)
    assert {score.name: score.value for score in one.scores.scores} == {
        "EqualsExpected": True,
        "FileEquals /out.txt": True,
        "judge.good": True,
    }
    assert one.facts.files["/out.txt"].text == "hello"
    assert [call.tool for call in one.facts.calls] == ["write_file"]
    assert not (place.folder / "out.txt").exists()
    listed = find_experiment(await list_experiments(place.client.temporal), begun.experiment)
    behind = replace(listed, state="running", ended_at=None, facts=listed.facts.model_copy(update={"record": ""}))
    assert (await read_listed(place.client.temporal, behind)).record == record

    again, _ = await evaluated(place, cases=cases, **keys)
    assert again.how == "finished"
    more, record = await evaluated(place, cases=[*cases, {**cases[0], "name": "cleo", "inputs": "greet cleo"}], **keys)
    assert (more.how, more.taken, len(record.results)) == ("started", 4, 6)
    assert any("cleo" in words for words in more.differs)
    assert (len(model.requests), len(judge.requests)) == (12, 6)
    assert {result.origin for result in record.results if result.case != "cleo"} == {begun.experiment}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("call_", "toolsets"),
    [
        (write_call("/out.txt", "hello"), {"filesystem": {}}),
        (call("edit_file", path="/old.txt", old_text="a", new_text="b"), {"filesystem": {}}),
        (
            call("shell", command="touch made.txt"),
            {"shell": {"rules": [{"pattern": "touch", "approval_required": True}]}},
        ),
    ],
    ids=["write", "edit", "command"],
)
async def test_a_change_in_the_layer_of_a_case_asks_no_question(
    place: Place, call_: Any, toolsets: dict[str, Any]
) -> None:
    place.write("old.txt", "a")
    place.worker("main", scripted(call_, "Done."), toolsets=toolsets)
    cases = [{"name": "ada", "inputs": "go", "decide": [{"decision": "reject", "note": "no"}]}]
    _, record = await evaluated(place, cases=cases, evaluators=[{"AskedFirst": {"tool": call_.tool}}])
    (result,) = record.results
    assert [(one.ran, one.decision) for one in result.facts.calls] == [(True, None)]
    assert [score.value for score in result.scores.scores] == [False]


async def test_an_error_is_no_score_and_a_retried_case_keeps_its_first_attempt(place: Place) -> None:
    model = scripted(fails(ModelFailed("the provider says no"), then="Hello!"))
    place.worker("main", model)
    keys: dict[str, Any] = {"cases": [{"name": "ada", "inputs": "hi"}], "evaluators": [{"Contains": "Hello"}]}
    begun, record = await evaluated(place, **keys)
    (result,) = record.results
    assert (result.facts.output, result.scores.scores) == (None, ())
    assert result.facts.error is not None
    assert "the provider says no" in result.facts.error.message
    assert not record.gate.passed

    shown, _ = await evaluated(place, **keys)
    assert shown.how == "finished"
    again, record = await evaluated(place, retry_errors=True, **keys)
    assert (again.experiment, again.how, record.round) == (begun.experiment, "resumed", 2)
    (result,) = record.results
    assert (result.facts.output, [one.facts.output for one in result.earlier]) == ("Hello!", [None])
    assert result.run != result.earlier[0].run
    assert record.gate.passed


async def test_a_worker_that_changes_while_it_is_evaluated_ends_the_experiment(place: Place) -> None:
    def change(_messages: object) -> str:
        place.worker("main", model, instructions="Do something else.")
        return "Hello!"

    model = scripted(change)
    place.worker("main", model)
    cases = [{"name": name, "inputs": name} for name in ("ada", "bob")]
    with pytest.raises(WorkflowFailureError) as failed:
        await evaluated(place, cases=cases, concurrency=1)
    assert "'workers/main.worker' was changed while the experiment ran" in str(failed.value.cause)


@pytest.mark.thorough
async def test_an_experiment_goes_on_in_new_histories_with_what_it_has(hasty: Place) -> None:
    model = scripted("Hello!")
    hasty.worker("main", model)
    cases = [{"name": f"case-{number}", "inputs": f"greet {number}"} for number in range(6)]
    begun, record = await evaluated(hasty, cases=cases, concurrency=2, evaluators=[{"Contains": "Hello"}])
    assert len(await hasty.chain(begun.experiment)) > 1
    assert ([result.case for result in record.results], len(model.requests)) == ([case["name"] for case in cases], 6)
    assert record.gate.passed


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("thresholds", "passed"),
    [
        ({"EqualsExpected": 0.9}, False),
        ({"EqualsExpected": {"at_least": 0.4, "at_most": 0.45}}, False),
        ({"EqualsExpected": 0.4, "tokens": {"at_most": 0}}, False),
        ({"turns": {"at_most": 1}}, True),
        ({}, True),
    ],
)
async def test_thresholds_are_judged_on_what_is_kept_as_the_file_says_now(
    place: Place, thresholds: dict[str, Any], passed: bool
) -> None:
    model, judge = scripted("Hello!"), judged(place)
    place.worker("main", model)
    cases = [{"name": name, "inputs": "hi", "expected_output": name} for name in ("Hello!", "Bye!")]
    keys: dict[str, Any] = {"cases": cases, "judge": "judge", "evaluators": ["EqualsExpected"]}
    begun, before = await evaluated(place, **keys, thresholds={"EqualsExpected": 0.4, "failures": 0})
    assert before.gate.passed
    asked = (len(model.requests), len(judge.requests))

    again, record = await evaluated(place, **keys, thresholds=thresholds)

    assert (again.experiment, again.how, again.taken) == (begun.experiment, "resumed", 2)
    assert record.gate.passed is passed
    assert (record.results, record.ended_at) == (before.results, before.ended_at)
    assert (len(model.requests), len(judge.requests)) == asked
    listed = find_experiment(await list_experiments(place.client.temporal), begun.experiment)
    assert (listed.facts.passed, listed.facts.done, listed.facts.metrics["EqualsExpected"].mean) == (passed, 2, 0.5)
    same, _ = await evaluated(place, **keys, thresholds=thresholds)
    assert same.how == "finished"


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


async def judged_once(handle: WorkflowHandle[Any, Any]) -> None:
    """Wait until an experiment has its first judgement."""
    judging = set[int]()
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.activity_task_scheduled_event_attributes.activity_type.name == JUDGE_CASE.name:
            judging.add(event.event_id)
        if event.HasField("activity_task_completed_event_attributes") and activity_of(event) in judging:
            return
    raise AssertionError("the experiment ended without a judgement")


async def interrupt(handle: WorkflowHandle[Any, Any], how: str) -> None:
    """Cancel or terminate an experiment, and wait for its end."""
    await (handle.cancel() if how == "cancelled" else handle.terminate("the machine is needed"))
    async for _ in handle.fetch_history_events(wait_new_event=True):
        pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["cancelled", "terminated"])
async def test_an_interrupted_experiment_goes_on_with_all_that_it_had(place: Place, how: str) -> None:
    free = asyncio.Event()

    async def greet(messages: list[ModelMessage]) -> str:
        if "bob" in str(messages[-1]):
            await free.wait()
        return "Hello!"

    model, judge = scripted(greet), scripted({"good": True})
    place.worker("main", model)
    schema = {"type": "object", "properties": {"good": {"type": "boolean"}}, "required": ["good"]}
    place.worker("judge", judge, output_schema=schema)
    cases = [{"name": name, "inputs": f"greet {name}"} for name in ("ada", "bob")]
    keys: dict[str, Any] = {"cases": cases, "judge": "judge"}
    first = await begun(place, **keys)
    handle = place.client.temporal.get_workflow_handle(first.experiment)
    for rounds in (2, 3):
        # The second interruption comes before anything is new: what the first start had is not forgotten.
        if rounds == 2:
            await judged_once(handle)
        await interrupt(handle, how)
        assert (await read_progress(place.client.temporal, first.experiment))[0] == how
        if how == "cancelled":
            found = await read_experiment(place.client.temporal, first.experiment)
            assert not found.record.judged_by((Threshold(metric="missing", at_most=9),)).gate.passed
        if rounds == 3:
            free.set()
        again = await begun(place, **keys)
        assert (again.experiment, again.how, again.taken) == (first.experiment, "resumed", 1)
    _, record = await evaluated(place, **keys)
    assert (record.state, record.round, [one.case for one in record.results]) == ("completed", 3, ["ada", "bob"])
    assert [one.score("judge.good") for one in record.results] == [True, True]
    asked = [str(request.messages[-1]) for request in model.requests]
    assert (sum("ada" in text for text in asked), len(judge.requests)) == (1, 2)


def greeting(place: Place, answer: str, instructions: str = "Greet.", **more: Any) -> None:
    """Write an evaluation, and a worker that answers this."""
    keys = {"worker": "main", "cases": CASES, "evaluators": ["EqualsExpected"], **more}
    place.write("greeting.eval.yaml", yaml.safe_dump(keys))
    place.worker("main", scripted(answer), instructions=instructions)


async def evaluated_over_http(place: Place, who: Program, **more: Any) -> str:
    """Run the evaluation, and return its id once it has ended."""
    begun = await who.ask("POST", "/experiments", json={"evaluation": "greeting", **more})
    assert begun.status == 202, begun.body
    name = begun.body["experiment"]
    assert begun.headers["location"] == f"/api/v1/experiments/{name}"
    place.started.append(name)
    while True:
        now = (await who.ask("GET", f"/experiments/{name}")).body
        if now["state"] != "running":
            assert now["state"] == "completed", now
            return name


@pytest.mark.thorough
async def test_a_person_evaluates_reads_and_compares(place: Place) -> None:
    greeting(place, "Hello!")
    ada = person(place)
    assert (await ada.ask("GET", "/evaluations")).body == ["greeting"]
    good = await evaluated_over_http(place, ada)
    facts = (await ada.ask("GET", f"/experiments/{good}")).body
    assert (facts["evaluation"], facts["worker"], facts["done"], facts["total"]) == ("greeting", "main", 6, 6)
    assert facts["has_results"]
    again = await ada.ask("POST", "/experiments", json={"evaluation": "greeting"})
    assert (again.body["experiment"], again.body["how"]) == (good, "finished")
    first = (await ada.ask("GET", f"/experiments/{good}/results", params={"limit": 4})).body
    rest = (await ada.ask("GET", f"/experiments/{good}/results", params={"after": first["following"]})).body
    results = [*first["results"], *rest["results"]]
    assert [one["case"] for one in results] == [f"case-{number}" for number in range(6)]
    assert {(one["output"], one["scores"]["EqualsExpected"]) for one in results} == {("Hello!", True)}
    case = {"begins": results[0]["run"]}
    while not (listed := (await ada.ask("GET", "/runs", params={**case, "evaluations": True})).body["runs"]):
        pass
    assert [one["run"] for one in listed] == [results[0]["run"]]
    assert (await ada.ask("GET", "/runs", params=case)).body["runs"] == []
    greeting(place, "Go away!", "Be rude.")
    bad = await evaluated_over_http(place, ada)
    assert bad != good
    compared = (await ada.ask("GET", "/comparison", params={"one": good, "other": bad})).body
    assert compared["is_worse"]
    (metric,) = compared["comparison"]["metrics"]
    assert (metric["losses"], metric["one"], metric["other"]) == (6, 1.0, 0.0)
    same = await ada.ask("GET", "/comparison", params={"one": good, "other": good})
    assert (same.status, same.body["code"]) == (422, "UsageError")
    part = await evaluated_over_http(place, ada, cases=["case-2"], repeats=2)
    assert (await ada.ask("GET", f"/experiments/{part}")).body["total"] == 2


async def test_what_cannot_be_evaluated_is_said_and_nothing_begins(place: Place) -> None:
    greeting(place, "Hello!")
    place.write("other/hidden.eval.yaml", "worker: main\ncases: [{name: a, inputs: b}]\n")
    place.write("broken.eval.yaml", "worker: 3\n")
    ada = person(place)
    for name in ("nothing", "../greeting", "greeting.eval.yaml", "other/hidden", "hidden", "/etc/passwd", "a\0b", "*"):
        refused = await ada.ask("POST", "/experiments", json={"evaluation": name})
        assert (refused.status, refused.body["code"]) == (404, "UnknownHere"), name
    for wrong in (
        {"evaluation": "broken"},
        {"evaluation": "greeting", "repeats": 0},
        {"evaluation": "greeting", "cases": ["case-9"]},
        {"evaluation": "greeting", "worker": "nobody"},
        {"evaluation": "greeting", "file": "x"},
        {"evaluation": ""},
    ):
        refused = await ada.ask("POST", "/experiments", json=wrong)
        assert refused.status in (404, 422), (wrong, refused.body)
    for path in ("/experiments/nothing", "/experiments/nothing/results"):
        assert (await ada.ask("GET", path)).status == 404


@pytest.mark.thorough
async def test_no_program_evaluates_or_reads_what_came_of_it(place: Place) -> None:
    greeting(place, "Hello!")
    place.worker("main", scripted("Hello!"), export=True)
    ada = person(place)
    name = await evaluated_over_http(place, ada)
    for who in (program(place), program(place, "reader", frozenset({TokenScope.READ}))):
        for method, path in (
            ("GET", "/evaluations"),
            ("POST", "/experiments"),
            ("GET", "/experiments"),
            ("GET", f"/experiments/{name}"),
            ("GET", f"/experiments/{name}/results"),
            ("GET", f"/comparison?one={name}&other={name}"),
        ):
            sent = {"json": {"evaluation": "greeting"}} if method == "POST" else {}
            refused = await who.ask(method, path, **sent)
            assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), path


async def test_a_program_without_temporal_evaluates_reads_and_compares(place: Place) -> None:
    greeting(place, "Hello!", cases=CASES[:1])
    tokens = TokenFile.of_workshop(place.folder)
    token = tokens.create("ada", frozenset(TokenScope), is_person=True)
    server = AppServer(listen("127.0.0.1", 0, what="the HTTP API"))
    serving = asyncio.create_task(server.serve(build_api(DoorService(place.client, place.folder), tokens)))
    try:
        async with RemoteClient(f"http://127.0.0.1:{server.port}", token) as runs:
            assert await runs.evaluations() == ["greeting"]
            begun = await runs.evaluate(ExperimentStart(evaluation="greeting"))
            place.started.append(begun.experiment)
            while (now := await runs.experiment(begun.experiment)).state == "running":
                pass
            assert now.done == 1
            assert begun.experiment in [one.experiment for one in await runs.experiments()]
            assert [one.output for one in (await runs.results(begun.experiment)).results] == ["Hello!"]
            with pytest.raises(UsageError, match="are the same experiment"):
                await runs.compare(begun.experiment, begun.experiment)
    finally:
        server.stop()
        await serving
