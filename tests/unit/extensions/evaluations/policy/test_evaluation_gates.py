"""Thresholds of an evaluation, and the errors and missing runs that no threshold can hide."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.policy.figures import EvaluationGate, gate
from llm_do_temporal.extensions.evaluations.policy.scores import (
    CaseResult,
    CaseScore,
    CaseScores,
    EvaluatorFailure,
    Threshold,
)
from tests.support.extensions.evaluations.example_records import case_result


def outcome(case: str, **values: Any) -> CaseResult:
    right = CaseScore(name="right", value=case != "d")
    score = CaseScore(name="score", value=float(ord(case)))
    label = CaseScore(name="verdict", value="yes" if case in "ab" else "no")
    given: dict[str, Any] = {
        "scores": CaseScores(scores=(right, score, label)),
        "cost": 0.5,
        "seconds": 2.0,
        "tokens": 10,
        "turns": 3,
    }
    return case_result(case, **{**given, **values})


FOUR = [outcome(case) for case in "abcd"]
BROKEN = CaseScores(failures=(EvaluatorFailure(name="right", message="x"),))


def judged(outcomes: list[CaseResult], *thresholds: Threshold, planned: int | None = None) -> EvaluationGate:
    return gate(thresholds, outcomes, len(outcomes) if planned is None else planned)


@pytest.mark.parametrize(
    ("threshold", "passed", "sentence"),
    [
        (
            Threshold(metric="right", at_least=0.75),
            True,
            "right: 75.0 % over 4 cases; wanted at least 0.75: kept.",
        ),
        (
            Threshold(metric="right", at_least=0.8),
            False,
            "right: 75.0 % over 4 cases; wanted at least 0.8: not kept.",
        ),
        (
            Threshold(metric="score", at_least=90, at_most=98.5),
            True,
            "score: 98.5 over 4 cases; wanted at least 90 and at most 98.5: kept.",
        ),
        (
            Threshold(metric="score", at_most=98),
            False,
            "score: 98.5 over 4 cases; wanted at most 98: not kept.",
        ),
        (
            Threshold(metric="verdict", at_least=0.5, label="yes"),
            True,
            "verdict: 50.0 % over 4 cases; wanted at least 0.5 of label 'yes': kept.",
        ),
        (
            Threshold(metric="verdict", at_least=0.5),
            False,
            "verdict: its scores are labels ('yes', 'no'): give the threshold a `label`; "
            "wanted at least 0.5: not kept.",
        ),
        (
            Threshold(metric="other", at_least=0),
            False,
            "other: no case has this score; wanted at least 0: not kept.",
        ),
        (
            Threshold(metric="cost", at_most=0.5),
            True,
            "cost: 0.5 dollars a run; wanted at most 0.5: kept.",
        ),
        (
            Threshold(metric="turns", at_most=2),
            False,
            "turns: 3 turns a run; wanted at most 2: not kept.",
        ),
        (
            Threshold(metric="errors", at_most=0),
            True,
            "errors: 0 runs of cases ended in an error; wanted at most 0: kept.",
        ),
    ],
)
def test_thresholds(threshold: Threshold, passed: bool, sentence: str) -> None:
    found = judged(FOUR, threshold)
    assert found.passed is passed
    assert [verdict.sentence for verdict in found.verdicts] == [sentence]


def test_errors_failures_and_missing_runs_fail_where_nothing_else_is_said() -> None:
    error = outcome("e", error=True, scores=CaseScores())
    broken = outcome("f", scores=BROKEN)
    kept = Threshold(metric="right", at_least=0.75)
    assert not judged([*FOUR, error], kept).passed
    assert not judged([*FOUR, broken], kept).passed
    assert not judged(FOUR, kept, planned=5).passed
    allowed = [Threshold(metric=name, at_most=1) for name in ("errors", "failures", "missing")]
    found = judged([*FOUR, error, broken], kept, *allowed, planned=7)
    assert found.passed
    assert found.verdicts[0].sentence == (
        "right: 75.0 % over 4 cases, 2 without the score left out; wanted at least 0.75: kept."
    )


def test_without_thresholds_and_errors_it_passes() -> None:
    assert judged(FOUR) == EvaluationGate(passed=True, verdicts=())


def test_an_amount_that_is_not_known_of_all_is_not_kept() -> None:
    found = judged([*FOUR, outcome("e", cost=None)], Threshold(metric="cost", at_most=9))
    assert found.verdicts[0].sentence == "cost: cost is not known of 1 of 5 runs; wanted at most 9: not kept."
    assert found.verdicts[0].value is None
    assert not judged([], Threshold(metric="seconds", at_most=9)).passed


@pytest.mark.parametrize("name", ["errors", "failures", "missing"])
@pytest.mark.parametrize("bounds", [{"at_least": 0}, {"at_least": -1}, {"at_least": 1}])
def test_a_least_number_of_errors_allows_none(name: str, bounds: dict[str, Any]) -> None:
    broken = {"errors": outcome("a", error=True), "failures": outcome("a", scores=BROKEN), "missing": outcome("a")}
    found = judged([broken[name]], Threshold(metric=name, **bounds), planned=2 if name == "missing" else 1)
    assert not found.passed
    assert any("wanted at most 0: not kept" in verdict.sentence for verdict in found.verdicts)


@pytest.mark.parametrize("metric", ["right", "score"])
@pytest.mark.parametrize("bounds", [{"at_most": 0.1}, {"at_least": 0.0}])
def test_a_label_of_scores_that_are_no_labels_is_not_kept(metric: str, bounds: dict[str, Any]) -> None:
    found = judged(FOUR, Threshold(metric=metric, label="fail", **bounds))
    assert not found.passed
    assert "its scores are no labels: give the threshold no `label`" in found.verdicts[0].sentence


def test_programs_are_told_the_scores_of_a_case_and_what_failed() -> None:
    one = outcome("a", scores=CaseScores(scores=(CaseScore(name="right", value=True, reason="it is"),)))
    told = one.told()
    assert (told["case"], told["repeat"], told["error"]) == ("a", one.repeat, None)
    assert (told["scores"], told["reasons"], told["failures"]) == ({"right": True}, {"right": "it is"}, {})
    assert outcome("a", scores=BROKEN).told()["failures"] == {"right": "x"}
    assert (one.name, one.score("right"), one.score("wrong")) == (f"a#{one.repeat}", True, None)
