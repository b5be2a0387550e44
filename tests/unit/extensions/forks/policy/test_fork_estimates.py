"""Estimates of forks: the low end is what surely runs, the high end all that may depend on it."""

from __future__ import annotations

from decimal import Decimal

from llm_do_temporal.extensions.forks.policy.changes import (
    Cut,
    KeyedInvocation,
    KeyedQuestion,
    KeyedTurn,
    Range,
    RunOutline,
    cut_around,
    cut_at,
    cut_of_decision,
    cut_of_result,
    estimate_fork,
    read_decision,
    read_step,
)
from tests.support.extensions.forks.outlines import tree


def one(*turns: KeyedTurn, ended: bool = True) -> RunOutline:
    return RunOutline(run="run", invocations=(KeyedInvocation(path="main", turns=turns, ended=ended),))


def paid(number: int, cost: str | None, *, cached: int = 0) -> KeyedTurn:
    amount = None if cost is None else Decimal(cost)
    return KeyedTurn(
        number=number, key=f"t{number}", input_tokens=100, output_tokens=10, cached_tokens=cached, cost=amount
    )


def test_without_a_change_nothing_runs() -> None:
    estimate = estimate_fork(tree(), Cut())
    assert estimate.is_free
    assert (estimate.turns, estimate.reused) == (7, Range(low=7, high=7))
    assert (estimate.cost_low, estimate.cost_high) == (0, 0)


def test_a_changed_leaf_surely_runs_and_its_caller_perhaps() -> None:
    estimate = estimate_fork(tree(), cut_at(tree(), read_step("main/reader-1@1")))
    assert estimate.workers == ("main/reader-1",)
    assert estimate.maybe == ("main",)
    assert estimate.new.low == 1
    assert estimate.new.holds(3)
    assert not estimate.new.holds(0)
    assert estimate.reused == Range(low=4, high=6)
    assert estimate.input_tokens == Range(low=50, high=450 + 300)
    assert estimate.questions == Range(high=1)


def test_what_a_changed_turn_had_begun_may_run_too() -> None:
    estimate = estimate_fork(tree(), cut_at(tree(), read_step("main@1")))
    assert estimate.workers == ("main",)
    assert estimate.maybe == ("main/reader-1", "main/reader-2", "main/reader-2/checker-1")
    assert estimate.reused == Range(low=0, high=6)


def test_a_turn_after_the_last_one_takes_nothing_from_what_is_reused() -> None:
    estimate = estimate_fork(one(paid(1, "1"), paid(2, "1"), ended=False), Cut(began={"main": 3}))
    assert estimate.reused == Range(low=2, high=2)
    assert estimate.new.low == 1


def test_what_nobody_calls_any_more_is_neither_reused_nor_asked() -> None:
    _key, cut = cut_of_result(tree(), read_step("main@1#2"))
    estimate = estimate_fork(tree(), cut)
    assert estimate.reused == Range(low=2, high=3)
    assert "main/reader-2" not in (*estimate.workers, *estimate.maybe)


def test_a_call_with_other_arguments_runs_what_it_calls_perhaps() -> None:
    outline = tree().model_copy(
        update={"questions": (KeyedQuestion(id="a9", path="main", tool="reader", content_key="c2"),)}
    )
    rejected = estimate_fork(outline, cut_of_decision(outline, read_decision("a9=reject:no")))
    changed = estimate_fork(outline, cut_of_decision(outline, read_decision("a9=modify:{}")))
    assert rejected.maybe == ()
    assert changed.maybe == ("main/reader-2", "main/reader-2/checker-1")


def test_a_worker_that_is_perhaps_another_has_no_low_end() -> None:
    estimate = estimate_fork(tree(), cut_around(tree(), ["main/reader-2"]))
    assert estimate.new.low == 0
    assert "main/reader-2" in estimate.maybe


def test_another_decision_begins_with_the_turn_after_it() -> None:
    estimate = estimate_fork(tree(), cut_of_decision(tree(), read_decision("a1=reject:no")))
    assert estimate.workers == ("main",)
    assert estimate.reused == Range(low=6, high=6)


def test_files_of_now_may_change_anything() -> None:
    estimate = estimate_fork(tree(), Cut(), then=False)
    assert estimate.new.low == 0
    assert estimate.reused == Range(low=0, high=7)
    silent = RunOutline(run="run", invocations=(KeyedInvocation(path="main"),))
    assert estimate_fork(silent, Cut(), then=False).is_free


def test_the_first_new_turn_pays_for_what_was_cached() -> None:
    outline = one(paid(1, "1", cached=100), paid(2, "1", cached=100))
    estimate = estimate_fork(outline, cut_at(outline, read_step("main@1")))
    assert estimate.cost_low == Decimal("0.5")
    assert estimate.cost_high == (10 + 1 + 10) * Decimal("1.5")


def test_an_unknown_price_stays_unknown() -> None:
    outline = one(paid(1, "1"), paid(2, None))
    assert estimate_fork(outline, cut_at(outline, read_step("main@1"))).cost_high is None
    assert estimate_fork(outline, cut_at(outline, read_step("main@2"))).cost_low is None


def test_the_price_of_another_model_is_unknown() -> None:
    outline = one(paid(1, "1"))
    cut = cut_at(outline, read_step("main@1"))
    assert estimate_fork(outline, cut, other_models=frozenset({"main"})).cost_high is None


def test_an_invocation_that_had_not_ended_goes_on_and_nobody_knows_how_long() -> None:
    estimate = estimate_fork(one(paid(1, "1"), ended=False), Cut())
    assert estimate.unfinished == ("main",)
    assert not estimate.is_free
    assert estimate.reused == Range(low=1, high=1)
    assert not estimate_fork(one(ended=False), Cut()).unfinished


def test_a_turn_is_not_sure_where_an_earlier_one_may_be_another() -> None:
    outline = tree()
    key, cut = cut_of_result(outline, read_step("main/reader-2@1"))
    assert key == "f1"
    assert estimate_fork(outline, cut).workers == ("main/reader-2",)
    later = cut.plus(Cut(began={"main": 3}))
    assert estimate_fork(outline, later).workers == ("main/reader-2",)
    assert "main" in estimate_fork(outline, later).maybe
