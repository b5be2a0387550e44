"""Comparison of two versions: paired by case, repeats averaged, errors apart, and told in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.policy.figures import (
    Comparison,
    MetricComparison,
    compare_cases,
    figures,
    known_sum,
)
from llm_do_temporal.extensions.evaluations.policy.scores import CaseResult, CaseScore, CaseScores
from tests.support.extensions.evaluations.example_records import case_result


def outcome(case: str, repeat: int = 1, *, error: bool = False, **scores: Any) -> CaseResult:
    found = tuple(CaseScore(name=name, value=value) for name, value in scores.items())
    return case_result(case, repeat, error=error, scores=CaseScores(scores=found))


def runs(values: Iterable[Any], metric: str = "right") -> list[CaseResult]:
    return [outcome(f"c{number:03}", **{metric: value}) for number, value in enumerate(values)]


def metric(found: Comparison, name: str = "right") -> MetricComparison:
    return next(one for one in found.metrics if one.metric == name)


def test_pass_and_fail_are_counted_and_tested() -> None:
    found = metric(compare_cases(runs([True] * 10 + [False] * 10), runs([True] * 20)))
    assert (found.kind, found.wins, found.ties, found.losses) == ("passes", 10, 10, 0)
    assert (found.one, found.other, found.delta) == (0.5, 1.0, 0.5)
    assert found.p == pytest.approx(2 / 2**10)
    assert found.verdict == "better"
    assert found.sentence.startswith("B is better: A 50.0 %, B 100.0 %, difference +50.0 points (95 %: ")
    assert found.sentence.endswith("20 cases, p = 0.002.")


def test_a_worse_version_is_called_so_with_its_worst_cases_first() -> None:
    scores = [float(number) for number in range(1, 11)]
    found = metric(compare_cases(runs(scores), runs([0.0] * 10)))
    assert (found.kind, found.verdict, found.losses) == ("scores", "worse", 10)
    assert [delta.case for delta in found.deltas][:2] == ["c009", "c008"]
    assert found.sentence.startswith("B is worse: A 5.5, B 0, difference -5.5 (95 %: ")


def test_few_cases_are_too_few_however_large_the_difference() -> None:
    found = metric(compare_cases(runs([False] * 5), runs([True] * 5)))
    assert (found.verdict, found.adjusted_p) == ("too_few", None)
    assert found.sentence == (
        "too few cases to tell: A 0.0 %, B 100.0 %, difference +100.0 points, 5 cases; "
        "it takes 6 to show any difference."
    )
    assert metric(compare_cases(runs([False] * 6), runs([True] * 6))).verdict == "better"


def test_more_metrics_need_more_cases() -> None:
    one = [outcome(f"c{n}", a=False, b=False, c=False) for n in range(6)]
    other = [outcome(f"c{n}", a=True, b=True, c=True) for n in range(6)]
    found = compare_cases(one, other)
    assert {one.verdict for one in found.metrics} == {"too_few"}
    assert all("it takes 7 to show any difference" in one.sentence for one in found.metrics)


def test_a_metric_of_few_cases_costs_the_others_nothing() -> None:
    own = CaseScores(scores=(CaseScore(name="right", value=True), CaseScore(name="own", value=True)))
    one, other = runs([False] * 7), runs([True] * 7)
    one[0] = one[0].model_copy(update={"scores": own})
    other[0] = other[0].model_copy(update={"scores": own})
    found = compare_cases(one, other)
    assert metric(found).adjusted_p == metric(found).p == 2 / 2**6
    assert metric(found).verdict == "better"
    assert metric(found, "own").verdict == "too_few"


def test_repeats_are_averaged_and_are_no_cases() -> None:
    one = [outcome(f"c{n}", repeat, right=False) for n in range(5) for repeat in (1, 2, 3)]
    other = [outcome(f"c{n}", repeat, right=repeat > 1) for n in range(5) for repeat in (1, 2, 3)]
    found = metric(compare_cases(one, other))
    assert (found.wins, len(found.deltas)) == (5, 5)
    assert found.other == pytest.approx(2 / 3)
    # Fifteen wins would be a difference; five cases are too few.
    assert found.verdict == "too_few"


def test_equal_versions_show_no_difference() -> None:
    found = metric(compare_cases(runs([True, False] * 10), runs([True, False] * 10)))
    assert (found.verdict, found.p, found.low) == ("no_difference_shown", 1.0, None)
    assert found.sentence == ("no difference shown: A 50.0 %, B 50.0 %, difference +0.0 points, 20 cases, p = 1.000.")


def test_an_error_is_a_metric_of_its_own_and_no_wrong_answer() -> None:
    one = runs([True] * 12)
    other = [*runs([True] * 4), *(outcome(f"c{n:03}", error=True) for n in range(4, 12))]
    found = compare_cases(one, other)
    assert found.errors == (0, 8)
    right, ended = metric(found), metric(found, "no error")
    assert (right.one, right.other, right.ties, right.missing) == (1.0, 1.0, 4, 8)
    assert "(8 without the score left out)" in right.sentence
    assert (ended.verdict, ended.losses) == ("worse", 8)
    assert found.sentences == (
        "0 runs of A and 8 runs of B ended in an error: an error is no wrong answer and has no scores, "
        "so other metrics compare the runs that are left.",
    )


def test_cases_are_paired_by_id_and_others_left_out() -> None:
    one = [outcome("a", right=True), outcome("b", right=False), outcome("x", right=True)]
    other = [outcome("b", right=True), outcome("new", right=False), outcome("a", right=True), outcome("y", right=True)]
    found = compare_cases(one, other)
    assert (found.cases, found.only_one, found.only_other) == (2, ("x",), ("new", "y"))
    assert [(delta.case, delta.delta) for delta in metric(found).deltas] == [("a", 0.0), ("b", 1.0)]
    assert found.sentences == ("left out: 1 case only A has and 2 cases only B has.",)


def test_a_metric_that_one_version_lacks_is_told() -> None:
    found = metric(compare_cases(runs([True] * 9), runs([True] * 9, "other")))
    assert (found.verdict, found.one, found.missing) == ("too_few", None, 9)
    assert found.sentence == "no case has this score in both versions (9 without the score left out)."


def test_labels_are_not_tested() -> None:
    found = metric(compare_cases(runs(["a", "b", "c"]), runs(["a", "c", "c"])))
    assert (found.kind, found.verdict, found.losses, found.p) == ("labels", "not_compared", 1, None)
    assert found.deltas[0].case == "c001"
    assert found.sentence == "labels changed in 1 of 3 cases; labels have no order and are not tested."


def test_amounts_stand_beside_and_decide_nothing() -> None:
    def spending(cost: float | None, seconds: float) -> list[CaseResult]:
        return [
            case_result(one.case, scores=one.scores, cost=cost, seconds=seconds, tokens=100) for one in runs([True] * 8)
        ]

    found = compare_cases(spending(0.5, 2.0), spending(0.25, 0.0))
    assert [one.verdict for one in found.metrics] == ["no_difference_shown"]
    assert [one.sentence for one in found.amounts] == [
        "A $0.5000, B $0.2500 a case, -50 %.",
        "A 2.0 s, B 0.0 s a case, -100 %.",
        "A 100 tokens, B 100 tokens a case, +0 %.",
    ]
    unknown = compare_cases(spending(None, 0.0), spending(0.25, 1.0))
    assert [one.sentence for one in unknown.amounts][:2] == [
        "cost is not known of both versions.",
        "A 0.0 s, B 1.0 s a case.",
    ]


def test_amounts_that_differ_have_an_interval() -> None:
    one = [case_result(str(n), cost=0.01 * n) for n in range(8)]
    other = [case_result(str(n), cost=0.02 * n) for n in range(8)]
    cost = compare_cases(one, other).amounts[0]
    assert cost.low is not None
    assert "(95 % of the difference: $0.0" in cost.sentence


def test_intervals_may_be_left_out_where_only_verdicts_count() -> None:
    one, other = runs([True] * 10 + [False] * 10), runs([True] * 20)
    with_them, without = metric(compare_cases(one, other)), metric(compare_cases(one, other, intervals=False))
    assert (without.low, without.high) == (None, None)
    assert (with_them.low is not None, with_them.p, with_them.verdict) == (True, without.p, without.verdict)


def test_figures_of_one_version() -> None:
    several = [
        outcome("a", 1, right=True, score=1.0, verdict="x"),
        outcome("a", 2, right=False, score=2.0, verdict="y"),
        outcome("b", 1, right=True, score=True),
        outcome("c", 1, error=True),
    ]
    found = figures(several)
    assert (found["right"].kind, found["right"].mean, found["right"].missing) == ("passes", 0.75, 1)
    assert (found["score"].kind, found["score"].mean, found["score"].low) == ("scores", 1.25, None)
    assert (found["verdict"].mean, found["verdict"].labels, found["verdict"].cases) == (None, {"x": 1, "y": 1}, 1)
    many = figures(runs([True] * 9 + [False]))["right"]
    assert (many.low, many.high) == pytest.approx((0.596, 0.982), abs=1e-3)
    assert figures([]) == {}


def test_a_sum_is_of_the_amounts_that_are_known() -> None:
    assert known_sum([0.5, None, 0.25]) == 0.75
    assert known_sum([None]) is None


def test_very_small_p_values_are_told_as_such() -> None:
    assert metric(compare_cases(runs([False] * 40), runs([True] * 40))).sentence.endswith("40 cases, p < 0.001.")
