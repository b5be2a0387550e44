"""Identity of an experiment: what belongs to it, what differs in words, results that are taken over, ids of runs."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations.policy.experiment import (
    ExperimentIdentity,
    case_in_id,
    case_key,
    case_run_id,
    comparison_address,
    differences,
    experiment_id,
    experiment_identity,
    judge_run_id,
    judgement_key,
    part_of,
    refusals,
)
from llm_do_temporal.extensions.evaluations.policy.scores import (
    Contains,
    DecideEntry,
    EqualsExpected,
    EvaluationCase,
    EvaluationSettings,
    EvaluationSpec,
    JudgeSpec,
    Python,
)

ADA = EvaluationCase(id="ada", prompt="Greet Ada.", expected="Hello, Ada!", attachments=("files/a.txt",))
BOB = EvaluationCase(id="bob", input={"who": "Bob"}, decide=(DecideEntry(decision="approve"),))
SPEC = EvaluationSpec(name="greetings", worker="greeter", cases=(ADA, BOB), evaluators=(EqualsExpected(),))
JUDGE = JudgeSpec(worker="politeness")


def identity(spec: EvaluationSpec = SPEC, **given: Any) -> ExperimentIdentity:
    facts: dict[str, Any] = {
        "definitions": {"workers/greeter.worker": "a" * 64},
        "models": {"greeter": "offline:echo"},
        "attachments": {"files/a.txt": "b" * 64},
        "judge_definitions": {"workers/politeness.worker": "c" * 64},
        "judge_models": {"politeness": "offline:judge"},
        **given,
    }
    return experiment_identity(spec, **facts)


def changed(**values: Any) -> EvaluationSpec:
    return SPEC.model_copy(update=values)


def with_ada(**values: Any) -> EvaluationSpec:
    return changed(cases=(ADA.model_copy(update=values), BOB))


def test_digests_and_keys_are_what_they_were() -> None:
    # A wire contract: results are found by them. Whoever changes one makes another version.
    judged = identity(changed(judge=JUDGE))
    assert identity().digest == "1-1e237847f15a48a715777389e51b5bb82b2e8067d785f63b0ecf0ae9259c3964"
    assert judged.digest == "1-2357fed80920d2562ec6efe59088de5b1f60de2f060d29ff51c0197da2ae4b0a"
    assert case_key(judged, "ada", 1) == "1-90525a8a95406c9b8d74c17db667d23ac4b29db24be2095468dd5bac7dd55b27"
    assert (
        judgement_key(judged, "1-key", {"output": "x"})
        == "1-a5a37711a22c2d5bd9b90a3ba55b777e1d1ab6060e8c026dd69dab9eeefc380e"
    )


def test_what_says_nothing_about_results_is_no_part_of_the_identity() -> None:
    same = changed(name="other", concurrency=20, thresholds=())
    assert identity(same) == identity()
    assert differences(identity(), identity(same)) == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (identity(changed(worker="g2")), "the worker: 'greeter', then 'g2'"),
        (
            identity(definitions={"workers/greeter.worker": "d" * 64}),
            "the definition 'workers/greeter.worker': aaaaaaaa, then dddddddd",
        ),
        (identity(definitions={}), "the definition 'workers/greeter.worker': aaaaaaaa, then none"),
        (identity(models={"greeter": "openai:x"}), "the model of 'greeter': 'offline:echo', then 'openai:x'"),
        (identity(settings={"mode": "strict"}), "the setting 'mode': none, then 'strict'"),
        (
            identity(changed(settings=EvaluationSettings(turns="batch"))),
            "the setting 'turns': none, then 'batch'",
        ),
        (identity(with_ada(prompt="Hi.")), "what is given to the worker in case 'ada'"),
        (identity(attachments={"files/a.txt": "e" * 64}), "what is given to the worker in case 'ada'"),
        (identity(with_ada(decide=BOB.decide)), "what is given to the worker in case 'ada'"),
        (identity(with_ada(id="eve")), "new: case 'eve'"),
        (identity(with_ada(id="eve")), "gone: case 'ada'"),
        (
            identity(with_ada(expected="Hi")),
            "the evaluators, the expected answer or the metadata of case 'ada'",
        ),
        (
            identity(changed(evaluators=(Contains(value="x"),))),
            "the evaluators, the expected answer or the metadata of cases 'ada', 'bob'",
        ),
        (identity(changed(repeats=3)), "repeats: 1, then 3"),
        (identity(changed(judge=JUDGE)), "the judge: none, then 'politeness'"),
        (identity().model_copy(update={"version": 2}), "versions of the identity: 1, then 2"),
    ],
)
def test_what_differs_is_said_in_words(other: ExperimentIdentity, words: str) -> None:
    assert words in differences(identity(), other)
    assert other.digest != identity().digest


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (identity(changed(judge=JudgeSpec(worker="rudeness"))), "the judge: 'politeness', then 'rudeness'"),
        (
            identity(changed(judge=JUDGE), judge_definitions={"workers/politeness.worker": "f" * 64}),
            "the judge's definition 'workers/politeness.worker': cccccccc, then ffffffff",
        ),
        (
            identity(changed(judge=JUDGE), judge_models={"politeness": "openai:x"}),
            "the judge's model of 'politeness': 'offline:judge', then 'openai:x'",
        ),
        (
            identity(changed(judge=JudgeSpec(worker="politeness", shows=("output",)))),
            "what the judge is shown, or its scores",
        ),
    ],
)
def test_another_judge_makes_another_experiment_that_is_not_compared(other: ExperimentIdentity, words: str) -> None:
    judged = identity(changed(judge=JUDGE))
    assert words in differences(judged, other)
    (reason,) = refusals(judged, other)
    assert reason == f"their judges differ ({words}); judge one of them again"
    assert judgement_key(judged, "k", {}) != judgement_key(other, "k", {})


def test_two_versions_over_the_same_cases_are_compared() -> None:
    other = identity(
        changed(cases=(BOB, ADA, BOB.model_copy(update={"id": "new"})), repeats=3, judge=JUDGE),
        definitions={"workers/greeter.worker": "d" * 64},
        models={"greeter": "openai:x"},
    )
    assert refusals(identity(), other) == ()


def test_other_cases_are_not_compared() -> None:
    assert refusals(identity(), identity(with_ada(prompt="Hi."))) == (
        "case 'ada': the worker was given something else; run one of them again with these cases",
    )
    assert refusals(identity(), identity(with_ada(expected="Hi"))) == (
        "case 'ada': the evaluators, the expected answer or the metadata are others",
    )
    none = tuple(case.model_copy(update={"id": f"{case.id}2"}) for case in SPEC.cases)
    assert refusals(identity(), identity(changed(cases=none))) == ("they have no case in common",)
    later = identity().model_copy(update={"version": 2})
    assert refusals(identity(), later) == ("their identities are of versions 1 and 2; run the older one again",)


def test_many_cases_are_named_by_the_first_ones() -> None:
    many = changed(cases=tuple(ADA.model_copy(update={"id": f"c{n}"}) for n in range(9)))
    words = differences(identity(changed(cases=())), identity(many))
    assert words == ("new: cases 'c0', 'c1', 'c2', 'c3', 'c4' and 4 more",)


def test_a_key_says_what_one_run_depends_on_and_no_more() -> None:
    key = case_key(identity(), "ada", 1)
    more = changed(cases=(BOB, BOB.model_copy(update={"id": "new"}), ADA), repeats=5, judge=JUDGE)
    assert case_key(identity(more), "ada", 1) == key
    assert case_key(identity(with_ada(expected="Hi", evaluators=(Contains(value="x"),))), "ada", 1) == key
    others = [
        case_key(identity(), "ada", 2),
        case_key(identity(), "bob", 1),
        case_key(identity(with_ada(prompt="Hi.")), "ada", 1),
        case_key(identity(models={"greeter": "openai:x"}), "ada", 1),
        case_key(identity(settings={"mode": "strict"}), "ada", 1),
    ]
    assert len({key, *others}) == 6


def test_a_judgement_depends_on_the_run_and_what_is_shown() -> None:
    judged, alone = identity(changed(judge=JUDGE)), identity()
    keys = {
        judgement_key(judged, "k", {"output": "x"}),
        judgement_key(judged, "k", {"output": "y"}),
        judgement_key(judged, "other", {"output": "x"}),
        judgement_key(alone, "k", {"output": "x"}),
    }
    assert len(keys) == 4


def test_an_edited_function_scores_again_and_runs_nothing_again() -> None:
    spec = changed(cases=(ADA.model_copy(update={"evaluators": (Python(function="own.py:polite"),)}), BOB))
    before, now = (identity(spec, functions={"own.py:polite": digest * 64}) for digest in "ab")
    words = ("the evaluators, the expected answer or the metadata of case 'ada'",)
    assert differences(before, now) == differences(identity(spec), now) == words
    assert case_key(before, "ada", 1) == case_key(now, "ada", 1)


def test_the_address_of_a_comparison_escapes_both_names() -> None:
    assert comparison_address("a/b", "c?d") == "/evaluations/a%2Fb/compare/c%3Fd"


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
