"""Ids of experiments and of their runs, and what can be told from them."""

from __future__ import annotations

import pytest

from llm_do_temporal.extensions.evaluations.policy.experiment import (
    case_in_id,
    case_run_id,
    experiment_id,
    judge_run_id,
    part_of,
)

EXPERIMENT = "eval-decks-0123456789ab"


def test_ids_are_what_they_were() -> None:
    assert experiment_id("decks of May", "1-0123456789abcdef") == "eval-decks-of-May-0123456789ab"
    assert experiment_id("Ü", "1-0123456789abcdef") == "eval-evaluation-0123456789ab"
    run = case_run_id(EXPERIMENT, "mendly", 2)
    assert run == f"{EXPERIMENT}-mendly-r2"
    assert case_run_id(EXPERIMENT, "a b", 1, round_=3) == f"{EXPERIMENT}-a-b-c8687a08-r1-3"
    assert judge_run_id(run) == f"{run}-judge"
    assert judge_run_id(run, attempt=2, other_order=True) == f"{run}-judge-2-other-order"


@pytest.mark.parametrize("case", ["mendly", "a b", "mendly-r1", "r1-judge-r2", "x-r1-2", "-", "line\nline", "ü" * 60])
@pytest.mark.parametrize("round_", [1, 2])
@pytest.mark.parametrize("repeat", [1, 12])
def test_a_run_tells_its_case(case: str, repeat: int, round_: int) -> None:
    run = case_run_id(EXPERIMENT, case, repeat, round_=round_)
    told = part_of(run, EXPERIMENT)
    assert told is not None
    assert told.facts == {"experiment": EXPERIMENT, "case": case_in_id(case), "repeat": repeat, "is_judge": False}
    for judge in (judge_run_id(run), judge_run_id(run, attempt=2), judge_run_id(run, other_order=True)):
        told = part_of(judge, EXPERIMENT)
        assert told is not None
        assert told.facts == {"experiment": EXPERIMENT, "case": case_in_id(case), "repeat": repeat, "is_judge": True}


@pytest.mark.parametrize(
    ("run", "parent"),
    [
        # no workflow started it
        (f"{EXPERIMENT}-mendly-r1", ""),
        # a workflow of somebody else
        ("mine-mendly-r1", "mine"),
        # started by an experiment, under a name that none has
        ("mendly-r1", EXPERIMENT),
        (f"{EXPERIMENT}-mendly", EXPERIMENT),
        (f"{EXPERIMENT}-mendly-r1-again", EXPERIMENT),
    ],
)
def test_other_runs_are_of_no_case(run: str, parent: str) -> None:
    assert part_of(run, parent) is None


def test_a_part_is_told_in_words() -> None:
    first, again = (part_of(case_run_id(EXPERIMENT, "mendly", repeat), EXPERIMENT) for repeat in (1, 3))
    judge = part_of(judge_run_id(case_run_id(EXPERIMENT, "mendly", 3)), EXPERIMENT)
    assert [one and one.words for one in (first, again, judge)] == [
        "case mendly",
        "case mendly, repeat 3",
        "judge of case mendly, repeat 3",
    ]
