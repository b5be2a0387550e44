"""Reports and exports of experiments: verdicts in words, every result once, and an error is no score."""

from __future__ import annotations

import csv
import io
import json
import re
from xml.etree import ElementTree as Xml

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.evaluations.client import ComparedExperiments, compare_records
from llm_do_temporal.extensions.evaluations.commands import Format, written
from llm_do_temporal.extensions.evaluations.policy.scores import CaseScore, CaseScores, EvaluationSpec, Threshold
from llm_do_temporal.extensions.evaluations.report import (
    code,
    comparison_lines,
    comparison_markdown,
    experiment_csv,
    experiment_json,
    experiment_lines,
    gate_markdown,
    inspect_log,
    junit_xml,
    pydantic_evals_report,
)
from tests.support.extensions.evaluations.example_records import HOSTILE, example_record

OLD = example_record(cases=12)
NEW = example_record(cases=12, digest="e" * 64, shift=-0.2, errors=("deck-3",), worker_version="f" * 64)


def compared() -> ComparedExperiments:
    return compare_records(OLD, NEW)


def test_verdicts_stand_in_words_with_what_differs_and_the_worst_cases_first() -> None:
    lines = comparison_lines(compared(), None, worst=2)
    text = "\n".join(lines)
    assert "differs: the definition 'evaluator.worker': bbbbbbbb, then ffffffff" in text
    assert re.search(r"critic\.quality +worse +", text)
    assert "critic.quality: B is worse: A" in text
    assert "0 runs of A and 2 runs of B ended in an error" in text
    assert "beside, and no part of the verdicts:" in text
    worst = lines[lines.index("cases that got worse:") :]
    assert re.match(r"deck-\d+ +correct +\d+\.0 % +0\.0 % +-\d+\.0 pt", worst[2])
    assert worst[-1].endswith("more; --worst N shows more of each metric, --json all")


def test_too_few_cases_are_said_to_be_too_few() -> None:
    one = example_record(cases=3, repeats=1)
    pair = compare_records(one, example_record(cases=3, repeats=1, digest="e" * 64, shift=-0.2))
    text = "\n".join(comparison_lines(pair, None, worst=5))
    assert "too few cases to tell" in text
    assert not pair.is_worse


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, comparison_lines(compared(), width, worst=5))) <= width


def test_a_narrow_table_goes_without_what_the_sentences_have() -> None:
    heads = [
        next(line for line in comparison_lines(compared(), width, worst=5) if "METRIC" in line) for width in (120, 80)
    ]
    assert [("95 %" in head, "W/T/L" in head) for head in heads] == [(True, True), (False, True)]


def test_without_losses_nothing_got_worse() -> None:
    same = compare_records(OLD, example_record(cases=12, digest="e" * 64))
    assert comparison_lines(same, None, worst=5)[-1] == "no case got worse"
    assert "No score got worse." in comparison_markdown(same)


def test_an_experiment_is_not_compared_with_itself_or_with_other_cases() -> None:
    with pytest.raises(UsageError, match="are the same experiment"):
        compare_records(OLD, OLD)
    spec = OLD.spec.model_dump() | {"cases": [{"id": f"deck-{n}", "prompt": "other"} for n in range(1, 13)]}
    other = EvaluationSpec.model_validate(spec)
    changed = NEW.model_copy(
        update={"identity": NEW.identity.model_copy(update={"cases": {case.id: "0" for case in other.cases}})}
    )
    with pytest.raises(UsageError, match=r"cannot be compared: cases 'deck-1', 'deck-10'.* given something else"):
        compare_records(OLD, changed)


def test_the_whole_comparison_is_json() -> None:
    value = compared().as_json()
    assert (value["a"]["experiment"], value["b"]["worker_version"]) == (OLD.workflow, "f" * 64)
    assert [metric["metric"] for metric in value["metrics"]] == ["correct", "critic.quality", "tone", "no error"]
    assert len(value["metrics"][1]["deltas"]) == 11


def test_thresholds_are_what_fails_in_junit_and_an_error_is_an_error() -> None:
    root = Xml.fromstring(junit_xml(NEW))
    thresholds, cases = root
    assert [(test.get("name"), len(test)) for test in thresholds] == [("correct", 1), ("errors", 1), ("failures", 1)]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("15", "3", "2")
    third = next(test for test in cases if test.get("name") == "deck-3")
    error = third.find("error")
    assert error is not None
    assert (error.get("message") or "").endswith("ModelFailed: the provider said no")
    assert cases.findall(".//failure") == []


def test_without_thresholds_cases_fail_that_did_not_pass() -> None:
    spec = OLD.spec.model_copy(update={"thresholds": ()})
    root = Xml.fromstring(junit_xml(OLD.model_copy(update={"spec": spec})))
    cases = root[-1]
    assert int(cases.get("failures") or 0) == len(cases.findall(".//failure")) > 0
    failure = cases.find(".//failure")
    assert failure is not None
    assert "correct did not pass: the verdict is 'no'" in (failure.get("message") or "")


def test_cases_that_were_not_run_are_errors() -> None:
    root = Xml.fromstring(junit_xml(OLD.model_copy(update={"results": OLD.results[:2]})))
    assert root[-1].get("errors") == "12"  # deck-1 has an evaluator that failed
    assert root[0].findall(".//failure[@message]") != []


def test_hostile_words_are_inert_in_junit() -> None:
    text = junit_xml(OLD)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_markdown_has_the_gate_first_then_what_got_worse() -> None:
    text = gate_markdown(NEW, OLD)
    assert text.startswith("## Evaluation `pitches`: gate failed\n\n- ❌ `correct: ")
    assert text.index("scores got worse") < text.index("| `critic.quality` | worse |")
    assert "2 runs ended in an error, which is no wrong answer:" in text
    assert "more." in text


def test_markdown_of_an_experiment_that_cannot_be_compared_says_why() -> None:
    assert "Not compared with `aaaaaaaaaaaa`: `" in gate_markdown(OLD, OLD)


def test_markdown_of_an_experiment_that_goes_on_says_how_far_it_is() -> None:
    text = gate_markdown(OLD.model_copy(update={"state": "cancelled", "results": OLD.results[:3]}))
    assert "- ❌ `the experiment is cancelled: 3 of 24 runs are done`" in text


@pytest.mark.parametrize("state", ["running", "cancelled", "failed"])
def test_an_experiment_that_is_not_completed_has_passed_in_no_report(state: str) -> None:
    everything = [Threshold(metric=name, at_most=99) for name in ("errors", "failures", "missing")]
    record = example_record(errors=(), spec=OLD.spec.model_copy(update={"thresholds": tuple(everything)}))
    assert (record.gate.passed, experiment_json(record)["passed"]) == (True, True)
    record = record.model_copy(update={"state": state, "results": record.results[:1]})
    says = f"the experiment is {state}: 1 of 24 runs are done"
    told = experiment_json(record)
    assert (told["passed"], told["thresholds"][-1]["sentence"]) == (False, says)
    assert gate_markdown(record).startswith("## Evaluation `pitches`: gate failed\n")
    assert experiment_lines(record, None)[-2:] == [f"broken  {says}", "failed"]
    thresholds = Xml.fromstring(junit_xml(record))[0]
    failure = thresholds.find("testcase[@name='experiment']/failure")
    assert failure is not None
    assert (thresholds.get("failures"), failure.get("message")) == ("1", says)


def test_labels_and_names_of_models_are_code_in_markdown() -> None:
    record = example_record(cases=1, repeats=1)
    (result,) = record.results
    hostile = CaseScores(scores=(CaseScore(name="tone", value="@team | ![x](http://evil)"),))
    text = gate_markdown(record.model_copy(update={"results": (result.model_copy(update={"scores": hostile}),)}))
    assert "`@team ¦ ![x](http://evil)` 1" in text


@pytest.mark.parametrize(
    ("words", "span"),
    [
        ("plain", "`plain`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("a``b`", "``` a``b` ```"),
        ("a|b\nc", r"`a¦b\nc`"),
        ("", "`  `"),
    ],
)
def test_a_code_span_holds_whatever_is_in_it(words: str, span: str) -> None:
    assert code(words) == span


@pytest.mark.parametrize("form", ["json", "pydantic-evals", "inspect", "junit", "markdown"])
def test_every_format_is_a_text_that_ends_with_a_line(form: Format) -> None:
    text = written(NEW, form, None)
    assert text.endswith("\n")
    assert "\x1b" not in text


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
