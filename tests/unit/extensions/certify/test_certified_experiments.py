"""Evidence of experiments: what must be the same, and what may differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.certify.evidence import Evidence, Histories, compare
from llm_do_temporal.extensions.certify.plan import EXPERIMENT_PATH, gather_experiment
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.messages import JUDGE_CASE, SCORE_CASE, ExperimentRecord
from llm_do_temporal.extensions.evaluations.policy.scores import CaseResult, CaseScore, CaseScores, MaxSeconds
from llm_do_temporal.extensions.evaluations.proof import check_evaluation
from llm_do_temporal.messages.activities import RECORD_AT_DESK, REQUEST_MODEL, DeskRecord
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.values import REPEAT, CapabilityUse
from tests.support.extensions.evaluations.example_records import example_record
from tests.support.runs.histories import marker

EXAM = Path(__file__).parents[3] / "support" / "exam"
Events = list[tuple[str, HistoryEvent]]


def scheduled(path: str, activity: str, asked: str = "") -> tuple[str, HistoryEvent]:
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
    event.activity_task_scheduled_event_attributes.activity_type.name = activity
    event.activity_task_scheduled_event_attributes.input.payloads.add(data=asked.encode())
    return path, event


def asks_whether_to_repeat(path: str) -> tuple[str, HistoryEvent]:
    """A question, at the desk of a case, about what may have happened."""
    request = RequestApprovalInput(
        invocation="run/main",
        key="1",
        worker="main",
        path="main",
        tool="shell",
        args={},
        capabilities=(CapabilityUse(name=REPEAT),),
        summary="sh note.sh",
    )
    return path, marker(RECORD_AT_DESK.name, DeskRecord(asked=request))


def started(child: str) -> tuple[str, HistoryEvent]:
    event = HistoryEvent()
    event.start_child_workflow_execution_initiated_event_attributes.workflow_id = child
    return EXPERIMENT_PATH, event


def recorded(name: str = "certify-1", **changes: object) -> ExperimentRecord:
    """The record of an experiment of two cases; ids of its runs are as the product makes them."""
    plain = example_record(name=name, cases=2, repeats=1)
    results = tuple(
        one.model_copy(
            update={
                "run": f"{plain.workflow}-{one.case}-r1",
                "judges": tuple(
                    judge.model_copy(update={"run": f"{plain.workflow}-{one.case}-r1-judge"}) for judge in one.judges
                ),
            }
        )
        for one in plain.results
    )
    return plain.model_copy(update={"results": results, **changes})


def events_of(record: ExperimentRecord) -> Events:
    """What the histories of an undisturbed experiment have."""
    found: Events = []
    for result in record.results:
        case = result.run.removeprefix(f"{record.workflow}-")
        found += [
            started(result.run),
            scheduled(case, REQUEST_MODEL.name, "first"),
            scheduled(f"{case}/main/helper-1", REQUEST_MODEL.name, "first"),
            scheduled(EXPERIMENT_PATH, SCORE_CASE.name, result.run),
            started(f"{result.run}-judge"),
            scheduled(f"{case}-judge", REQUEST_MODEL.name, "first"),
            scheduled(EXPERIMENT_PATH, JUDGE_CASE.name, result.run),
        ]
    return found


def evidence(record: ExperimentRecord, events: Events | None = None) -> Evidence:
    return gather_experiment(record, "", {"note.sh": "n"}, Histories(events_of(record) if events is None else events))


def changed(record: ExperimentRecord, change: Callable[[CaseResult], CaseResult]) -> ExperimentRecord:
    """The record with its first result changed."""
    first, *others = record.results
    return record.model_copy(update={"results": (change(first), *others)})


def scored(value: bool) -> Callable[[CaseResult], CaseResult]:
    return lambda one: one.model_copy(update={"scores": CaseScores(scores=(CaseScore(name="correct", value=value),))})


def problems(struck: Evidence, *, exact: bool = True) -> str:
    return "; ".join(compare(evidence(recorded()), struck, {"note.sh": "n"}, exact=exact))


def test_another_name_and_other_times_are_no_difference() -> None:
    later = recorded("certify-2", started_at=recorded().started_at.replace(hour=23))
    slower = changed(
        later, lambda one: one.model_copy(update={"facts": one.facts.model_copy(update={"seconds": 99.0})})
    )
    assert problems(evidence(slower)) == ""


def test_turns_of_a_case_and_of_its_judge_are_those_of_the_case() -> None:
    parts = evidence(recorded()).parts
    assert set(parts) == {"deck-1#1", "deck-2#1"}
    assert set(parts["deck-1#1"].turns) == {"deck-1-r1", "deck-1-r1/main/helper-1", "deck-1-r1-judge"}


def test_every_difference_is_told_with_its_case() -> None:
    struck = recorded("certify-2")
    events = events_of(struck)
    case = struck.results[0].run.removeprefix(f"{struck.workflow}-")
    cases = [
        (evidence(changed(struck, scored(value=False))), "deck-1#1: the result differs"),
        (evidence(struck.model_copy(update={"results": struck.results[1:]})), "deck-1#1 is missing"),
        (evidence(struck.model_copy(update={"state": "failed"})), "the result differs"),
        (
            evidence(struck, [*events, scheduled(f"{case}-judge", REQUEST_MODEL.name, "first")]),
            "a turn was asked twice",
        ),
        (evidence(struck, [*events, started(struck.results[0].run)]), "deck-1-r1 was started twice"),
        (evidence(struck, [*events, scheduled(EXPERIMENT_PATH, SCORE_CASE.name)]), "the result differs"),
        (gather_experiment(None, "boom", {}, Histories(events)), "ended without a result: boom"),
    ]
    for found, said in cases:
        assert said in problems(found)


def test_more_cases_than_were_recorded_are_a_difference() -> None:
    fewer = recorded().model_copy(update={"results": recorded().results[1:]})
    found = compare(evidence(fewer), evidence(recorded("certify-2")), {}, exact=True)
    assert "deck-1#1 is not in the recorded experiment" in found


def test_answers_of_paid_models_may_differ_but_nothing_is_asked_or_started_twice() -> None:
    struck = changed(recorded("certify-2"), scored(value=False))
    assert problems(evidence(struck), exact=False) == ""
    again = [*events_of(struck), started(struck.results[0].run)]
    assert "was started twice" in problems(evidence(struck, again), exact=False)


def test_only_the_case_in_which_something_may_have_happened_may_differ() -> None:
    struck = changed(recorded("certify-2"), scored(value=False))
    in_doubt = [*events_of(struck), asks_whether_to_repeat("deck-1-r1")]
    assert evidence(struck, in_doubt).all_doubts == 1
    assert problems(evidence(struck, in_doubt)) == ""
    elsewhere = [*events_of(struck), asks_whether_to_repeat("deck-2-r1")]
    assert problems(evidence(struck, elsewhere)).startswith("deck-1#1: the result differs")


def test_how_long_a_case_took_is_no_score_to_compare() -> None:
    spec = recorded().spec.model_copy(update={"evaluators": (MaxSeconds(seconds=5),)})

    def timed(name: str, *, value: bool) -> Evidence:
        score = CaseScore(name="MaxSeconds", value=value)
        record = recorded(name, spec=spec)
        return evidence(changed(record, lambda one: one.model_copy(update={"scores": CaseScores(scores=(score,))})))

    assert compare(timed("certify-1", value=True), timed("certify-2", value=False), {}, exact=True) == []


def test_models_of_workers_and_of_the_judge_are_known_before_anything_runs() -> None:
    spec = load_evaluation(EXAM / "workers" / "pupil.eval.yaml", EXAM)
    assert check_evaluation(spec, EXAM) == (["offline:by-hand"], {})
    assert spec.judge is not None
    paid = spec.model_copy(update={"judge": spec.judge.model_copy(update={"model": "openai:gpt-5"})})
    assert check_evaluation(paid, EXAM)[0] == ["offline:by-hand", "openai:gpt-5"]


def test_a_judge_that_needs_another_experiment_is_refused() -> None:
    spec = load_evaluation(EXAM / "workers" / "pupil.eval.yaml", EXAM)
    assert spec.judge is not None
    pairs = spec.model_copy(update={"judge": spec.judge.model_copy(update={"against": "pupil@-1"})})
    with pytest.raises(UsageError, match="compares with experiment 'pupil@-1'"):
        check_evaluation(pairs, EXAM)
