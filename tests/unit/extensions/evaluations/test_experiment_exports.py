"""Exports of experiments: every result is there once, and an error is no score."""

from __future__ import annotations

import csv
import io
import json

from llm_do_temporal.extensions.evaluations.report import experiment_csv, inspect_log, pydantic_evals_report
from tests.support.extensions.evaluations.example_records import HOSTILE, example_record

RECORD = example_record(errors=("deck-3",))


def test_a_report_has_answers_as_cases_and_errors_as_failures() -> None:
    report = pydantic_evals_report(RECORD)
    assert [case["name"] for case in report["cases"]][:3] == ["deck-1 [1/2]", "deck-1 [2/2]", "deck-2 [1/2]"]
    assert {case["source_case_name"] for case in report["failures"]} == {"deck-3"}
    assert {one["error_message"] for one in report["failures"]} == {"ModelFailed: the provider said no"}
    assert len(report["cases"]) + len(report["failures"]) == 12
    assert json.loads(json.dumps(report)) == report


def test_scores_of_a_report_are_sorted_by_their_kind_with_their_reasons() -> None:
    case = pydantic_evals_report(RECORD)["cases"][0]
    assert (list(case["assertions"]), list(case["scores"]), list(case["labels"])) == (
        ["correct"],
        ["critic.quality"],
        ["tone"],
    )
    assert case["assertions"]["correct"]["reason"] == "the verdict is 'no'"
    assert case["metrics"]["cost"] == 0.0125
    assert case["total_duration"] == case["task_duration"] + 1.5
    assert case["evaluator_failures"][0]["error_message"] == "polite.py cannot be read"


def test_a_case_that_is_not_repeated_has_its_own_name() -> None:
    report = pydantic_evals_report(example_record(repeats=1))
    assert report["cases"][0]["name"] == "deck-1"
    assert report["cases"][0]["source_case_name"] is None


def test_a_log_has_a_sample_for_each_case_and_epoch() -> None:
    log = inspect_log(RECORD)
    assert [(one["id"], one["epoch"]) for one in log["samples"]][:3] == [("deck-1", 1), ("deck-1", 2), ("deck-2", 1)]
    assert len(log["samples"]) == 12
    assert (log["status"], log["results"]["total_samples"], log["results"]["completed_samples"]) == ("success", 12, 10)
    assert json.loads(json.dumps(log)) == log


def test_an_error_of_a_log_has_no_scores() -> None:
    failed = [one for one in inspect_log(RECORD)["samples"] if one["id"] == "deck-3"]
    assert [one["error"]["message"] for one in failed] == ["ModelFailed: the provider said no"] * 2
    assert all("scores" not in one for one in failed)


def test_means_of_a_log_are_those_of_cases_and_say_how_many_are_missing() -> None:
    scores = {one["name"]: one for one in inspect_log(RECORD)["results"]["scores"]}
    assert (scores["correct"]["scored_samples"], scores["correct"]["unscored_samples"]) == (5, 1)
    assert scores["tone"]["metrics"] == {}


def test_a_cost_that_is_not_known_is_left_out() -> None:
    known = RECORD.results[0]
    usage = known.facts.usage.model_copy(update={"cost": None})
    facts = known.facts.model_copy(update={"usage": usage, "seconds": None})
    record = RECORD.model_copy(update={"results": (known.model_copy(update={"facts": facts}),)})
    assert "cost" not in pydantic_evals_report(record)["cases"][0]["metrics"]
    assert "total_cost" not in inspect_log(record)["samples"][0]["model_usage"]["offline/examples"]


def test_logs_of_other_ends_say_so() -> None:
    assert inspect_log(example_record(state="failed"))["error"]["message"] == "the evaluation failed"
    running = inspect_log(example_record(state="running", ended_at=None))
    assert (running["status"], running["stats"]["completed_at"]) == ("started", "")


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows as another program reads them."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_an_experiment_has_a_row_for_each_repeat_with_its_scores() -> None:
    rows = rows_of(experiment_csv(example_record(errors=("deck-3",))))
    assert [(row["case"], row["repeat"]) for row in rows][:3] == [("deck-1", "1"), ("deck-1", "2"), ("deck-2", "1")]
    assert len(rows) == 12
    first, failed = rows[0], rows[4]
    assert (first["status"], first["score.correct"], first["cost_usd"]) == ("completed", "false", "0.0125")
    assert first["output.remark"] == HOSTILE.replace("\x1b", "\\x1b")
    assert first["evaluator_failures"] == "polite: polite.py cannot be read"
    assert (failed["status"], failed["error"]) == ("failed", "ModelFailed: the provider said no")
    assert (failed["score.correct"], failed["output.verdict"], failed["seconds"]) == ("", "", "2.5")
