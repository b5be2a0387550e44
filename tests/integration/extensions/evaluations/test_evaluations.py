"""Evaluations on a real server: each case and each judgement once, errors apart, and only what is missing run again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from llm_do_temporal.errors import ModelFailed, UsageError
from llm_do_temporal.extensions.evaluations.client import find_experiment, list_experiments, read_listed
from llm_do_temporal.testing import ScriptedModel, call, fails, scripted
from tests.support.extensions.evaluations.begun import evaluated
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
