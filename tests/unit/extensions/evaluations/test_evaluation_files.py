"""Evaluation files: read into evaluations, every mistake with its line and what to do, and their schema."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.workers.places import SHIPPED, known_names
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.extensions.evaluations.files import (
    ParsedEvaluation,
    evaluation_files,
    evaluation_schema,
    load_evaluation,
    read_evaluation,
)
from llm_do_temporal.extensions.evaluations.policy.scores import DecideEntry, EvaluationSpec, Threshold

SHORTEST = "worker: greeter\ncases:\n- {name: ada, inputs: Greet Ada.}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workshop.yaml").write_text("sandbox: {root: files}\n")
    (tmp_path / "workers").mkdir()
    (tmp_path / "files").mkdir()
    return tmp_path.resolve()


def parsed(root: Path, text: str, name: str = "workers/greetings.eval.yaml") -> ParsedEvaluation:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return read_evaluation(path, root)


def spec(root: Path, text: str) -> EvaluationSpec:
    found = parsed(root, text)
    assert [str(problem) for problem in found.problems] == []
    assert found.spec is not None
    return found.spec


def mistakes(root: Path, text: str) -> list[str]:
    """Return the problems of a file, each as its line, its message and the next step."""
    found = parsed(root, text)
    assert found.spec is None
    return [f"{one.line}: {one.message} {one.next_step or ''}".strip() for one in found.problems]


def test_a_worker_and_a_case_are_enough(root: Path) -> None:
    read = spec(root, SHORTEST)
    assert (read.name, read.worker, read.repeats, read.concurrency) == ("greetings", "greeter", 1, 4)
    assert [(case.id, case.prompt, case.input) for case in read.cases] == [("ada", "Greet Ada.", None)]


def test_a_file_of_pydantic_evals_is_read_as_it_is(root: Path) -> None:
    read = spec(
        root,
        "# yaml-language-server: $schema=./greetings_schema.json\n"
        "name: greetings\nworker: greeter\ncases:\n"
        "- name: ada\n  inputs: {name: Ada}\n  expected_output: Hello, Ada!\n  metadata: {difficulty: easy}\n"
        "  evaluators:\n  - Contains: Ada\n"
        "evaluators:\n- EqualsExpected\n- MaxDuration: {seconds: 2.0}\n- MaxModelRequests: 3\n"
        "- IsInstance: str\n- TrajectoryMatch: {expected_trajectory: [search, answer], order: any_order}\n",
    )
    assert [one.metric for one in read.evaluators_of(read.cases[0])] == [
        "EqualsExpected",
        "MaxSeconds",
        "MaxTurns",
        "IsInstance",
        "TrajectoryMatch",
        "Contains",
    ]
    assert read.cases[0].input == {"name": "Ada"}
    assert read.cases[0].expected == "Hello, Ada!"
    assert read.cases[0].metadata == {"difficulty": "easy"}


def test_the_three_spellings_of_an_evaluator_mean_the_same(root: Path) -> None:
    read = spec(root, f"{SHORTEST}evaluators:\n- Contains: Ada\n- Contains: {{value: Ada, evaluation_name: again}}\n")
    first, second = read.evaluators
    assert first == second.model_copy(update={"evaluation_name": None})
    assert [one.kind for one in spec(root, f"{SHORTEST}evaluators: [EqualsExpected]\n").evaluators] == [
        "EqualsExpected"
    ]


def test_what_stands_above_holds_for_cases_that_say_nothing_else(root: Path) -> None:
    read = spec(
        root,
        "worker: greeter\nprompt: Greet them.\ndecide: [{tool: write_file, decision: approve}]\ncases:\n"
        "- {name: ada, inputs: {who: Ada}}\n"
        "- {name: bob, prompt: Greet Bob., decide: [{decision: reject, note: never, times: 1}]}\n"
        "- {name: eve, inputs: Greet Eve., decide: []}\n",
    )
    assert [case.prompt for case in read.cases] == ["Greet them.", "Greet Bob.", "Greet Eve."]
    assert [case.decide for case in read.cases] == [
        (DecideEntry(tool="write_file", decision="approve"),),
        (DecideEntry(decision="reject", note="never", times=1),),
        (),
    ]


def test_judge_and_thresholds_have_short_spellings(root: Path) -> None:
    read = spec(
        root,
        f"{SHORTEST}judge: politeness\nevaluators: [EqualsExpected]\n"
        "thresholds:\n  EqualsExpected: 0.9\n  politeness.score: {at_least: 3}\n  errors: 0\n"
        "  cost: 0.05\n  missing: -1\n",
    )
    assert read.judge is not None
    assert read.judge.worker == "politeness"
    assert read.thresholds == (
        Threshold(metric="EqualsExpected", at_least=0.9),
        Threshold(metric="politeness.score", at_least=3),
        Threshold(metric="errors", at_most=0),
        Threshold(metric="cost", at_most=0.05),
        Threshold(metric="missing", at_most=-1),
    )


def test_a_case_without_a_name_keeps_its_own_wherever_it_stands(root: Path) -> None:
    one = spec(root, "worker: greeter\ncases: [{inputs: a}, {inputs: b}]\n")
    other = spec(root, "worker: greeter\ncases: [{inputs: c}, {inputs: b}, {inputs: a}]\n")
    assert {case.id for case in one.cases} < {case.id for case in other.cases}
    assert all(case.id.startswith("case-") for case in other.cases)


def test_paths_of_attachments_begin_at_the_file(root: Path) -> None:
    (root / "files" / "deck.pdf").write_bytes(b"%PDF")
    (root / "workers" / "own.txt").write_text("own")
    text = "worker: greeter\ncases: [{name: a, attachments: [../files/deck.pdf, ./own.txt]}]\n"
    assert spec(root, text).cases[0].attachments == ("files/deck.pdf", "workers/own.txt")


def test_an_attachment_outside_of_the_workshop_or_that_is_not_there_is_refused(root: Path) -> None:
    (root / "files" / "link").symlink_to("/etc/hostname")
    names = ("../../etc/hostname", "/etc/hostname", "../files/link", "../files/none.txt", "..")
    for name in names:
        (line,) = mistakes(root, f"worker: greeter\ncases:\n- name: a\n  attachments:\n  - {name}\n")
        assert line.startswith("5: ")
        assert "Paths begin at" in line


def test_every_mistake_is_told_with_its_line(root: Path) -> None:
    told = mistakes(
        root,
        "repeats: 0\ncases:\n- name: ada\n  inputs: x\n- name: ada\n  inputs: y\n- name: none\n"
        "- {name: both, inputs: x, prompt: y}\nevaluators:\n- EqualExpected\n- Contains: {value: 1, sensitive: true}\n"
        "- LLMJudge: polite\n- HasMatchingSpan: {}\n- MyOwn\n- MaxTurns: many\n- FileEquals: {path: a}\n- 3\n"
        '- FitsSchema: []\n- Matches: "(a)\\\\1"\n- FitsSchema: {json_schema: {type: text}}\n',
    )
    assert [line.partition(":")[0] for line in told] == [
        "1", "1", "5", "7", "8", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    ]  # fmt: skip
    whole = "\n".join(told)
    for words in (
        "'worker' is missing",
        "'repeats' should be greater than or equal to 1",
        "two cases are called 'ada'; the other one stands in line 3",
        "the case gives the worker nothing",
        "'inputs' is a text, and 'prompt' is given, too",
        "Did you mean 'EqualsExpected'?",
        "Contains: unknown key 'sensitive'; allowed: as_strings, case_sensitive, evaluation_name, value",
        "here a judge is a worker",
        "evaluators look at calls, not at spans",
        "`Python: FILE.py:NAME`",
        "MaxTurns: 'turns' should be a whole number, not 'many'",
        "FileEquals: give either 'text' or 'sha256'",
        "'evaluators.7' is no evaluator",
        "'FitsSchema' takes keys",
        "linear time",
        "'json_schema':",
    ):
        assert words in whole


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("evaluators: Equals\n", "4: 'evaluators' should be a list of evaluators"),
        ("evaluators: [EqualsExpected, EqualsExpected]\n", "4: two evaluators are called 'EqualsExpected'"),
        (
            "thresholds: {EqualExpected: 1}\nevaluators: [EqualsExpected]\n",
            "4: no evaluator gives the metric 'EqualExp",
        ),
        ("thresholds: {errors: {}}\n", "4: the threshold 'errors' has no bound"),
        ("thresholds: {errors: many}\n", "4: 'thresholds.errors' should be keys and values, not 'many'"),
        ("thresholds: {errors: {at_most: 1, label: x}}\n", "4: 'errors' is a number and has no labels"),
        ("thresholds: {seconds: {at_least: 0, label: x}}\n", "4: 'seconds' is a number and has no labels"),
        *[
            (f"evaluators: [{written}]\n", f"4: an evaluator is called '{name}', which is a figure of every run")
            for name, written in (
                ("tokens", "{Python: 'e.py:tokens'}"),
                ("errors", "{Python: 'e.py:errors'}"),
                ("cost", "{Contains: {value: a, evaluation_name: cost}}"),
                ("missing", "{EqualsExpected: {evaluation_name: missing}}"),
            )
        ],
        (
            "evaluators: [{Python: 'e.py:f'}, {Contains: {value: a, evaluation_name: f.a}}]\n",
            "4: two evaluators are called 'f.a', or give scores of that name",
        ),
        (
            "judge: tone\nevaluators: [{Contains: {value: a, evaluation_name: tone.score}}]\n",
            "5: two evaluators are called 'tone.score', or give scores of that name",
        ),
        ("judge: tone\nevaluators: [{Python: 'e.py:tone'}]\n", "5: two evaluators are called 'tone'"),
        ("judge: {shows: [output]}\n", "4: 'judge.worker' is missing"),
        ("worke: x\n", "4: unknown key 'worke'; allowed: cases"),
    ],
)
def test_other_mistakes(root: Path, more: str, words: str) -> None:
    assert any(line.startswith(words) for line in mistakes(root, SHORTEST + more))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("- a\n- b\n", "this is not a list of keys and values"),
        ("worker: greeter\n", "there are no cases"),
        ("worker: [\n", "not valid YAML"),
        ("worker: greeter\ncases: many\n", "'cases' should be a list, not 'many'"),
        ("worker: greeter\ncases: [3]\n", "'cases.0' should be keys and values, not '3'"),
    ],
)
def test_a_file_that_is_none(root: Path, text: str, words: str) -> None:
    assert any(words in line for line in mistakes(root, text))


@pytest.mark.parametrize("place", ["all", "case"])
def test_an_expected_null_is_told_to_be_no_expectation(root: Path, place: str) -> None:
    own, common = (
        ("\n    evaluators: [EqualsExpected]", "") if place == "case" else ("", "evaluators: [EqualsExpected]\n")
    )
    text = f"worker: w\n{common}cases:\n  - name: a\n    inputs: x\n    expected_output: null{own}\n"
    found = parsed(root, text)
    assert found.spec is not None
    (problem,) = found.problems
    assert (problem.severity, problem.line) == ("warning", 6 if common else 5)
    assert "EqualsExpected gives the case no score" in problem.message
    mended = parsed(
        root, text.replace("expected_output: null", "metadata: {}").replace("EqualsExpected", "Equals: {value: null}")
    )
    assert not mended.problems
    assert not parsed(root, text.replace("EqualsExpected", "Matches: x")).problems


def test_report_evaluators_are_ignored_and_told(root: Path) -> None:
    found = parsed(root, f"{SHORTEST}report_evaluators: [ConfusionMatrixEvaluator]\n")
    assert found.spec is not None
    assert [(one.line, one.severity) for one in found.problems] == [(4, "warning")]


def test_an_evaluation_that_a_worker_could_write_is_refused(root: Path) -> None:
    # Its `decide:` would be answers to questions that the worker itself wrote.
    found = parsed(root, SHORTEST, "files/own.eval.yaml")
    assert found.spec is None
    assert "is not used as an evaluation" in found.problems[0].message


def test_the_first_mistake_is_raised_and_another_worker_can_be_named(root: Path) -> None:
    path = root / "workers" / "one.eval.yaml"
    path.write_text("worker: greeter\n")
    with pytest.raises(DefinitionError, match="there are no cases"):
        load_evaluation(path, root)
    path.write_text(SHORTEST)
    assert load_evaluation(path, root, worker="greeter_2").worker == "greeter_2"


def test_evaluations_stand_beside_workers_and_are_none(root: Path) -> None:
    for name in ("workers/greetings.eval.yaml", "top.eval.yaml", "workers/team/inner.eval.yaml"):
        parsed(root, SHORTEST, name)
    names = [path.relative_to(root).as_posix() for path in evaluation_files(root)]
    assert names == ["top.eval.yaml", "workers/greetings.eval.yaml", "workers/team/inner.eval.yaml"]
    assert not [name for name in known_names(root=root, shipped=SHIPPED) if "eval" in name]


def test_check_finds_mistakes_of_evaluations_and_workers_that_are_not_there(root: Path) -> None:
    (root / "workers" / "greeter.worker").write_text("description: x\n---\nGreet.\n")
    parsed(root, f"{SHORTEST}judge: greetr\n")
    parsed(root, SHORTEST.replace("greeter", "nobody"), "top.eval.yaml")
    parsed(root, "worker: greeter\n", "workers/bad.eval.yaml")
    told = [str(problem) for problem in check_workshop(root)]
    assert told == [
        "top.eval.yaml:1: there is no worker 'nobody'",
        "workers/bad.eval.yaml:1: there are no cases",
        "workers/greetings.eval.yaml:4: there is no worker 'greetr'",
    ]


CASES = [{"name": "ada", "inputs": "Greet Ada."}]


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(evaluation_schema())


def is_valid(**keys: Any) -> bool:
    return validator().is_valid({"worker": "greeter", "cases": CASES, **keys})


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"$schema": "x.json", "name": "n", "repeats": 3, "turns": "batch", "limits": {"turns": 5}},
        {"evaluators": ["EqualsExpected", {"Contains": "Ada"}, {"Contains": {"value": {"a": 1}}}]},
        {"evaluators": [{"MaxTurns": 3}, {"MaxModelRequests": {"max_requests": 3}}, {"MaxDuration": {"seconds": 2}}]},
        {"evaluators": [{"CallOrder": ["a", "b"]}, {"Called": {"tool": "a", "at_most": 1}}]},
        {"judge": "politeness", "thresholds": {"Equals": 0.5, "errors": {"at_most": 0}}},
        {"judge": {"worker": "politeness", "shows": ["output"]}},
        {"cases": [{"inputs": {"a": 1}, "decide": [{"decision": "approve"}], "evaluators": [{"Equals": "x"}]}]},
    ],
)
def test_what_the_reader_accepts_is_valid(keys: dict[str, Any]) -> None:
    assert is_valid(**keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"repeats": 0},
        {"worke": "x"},
        {"cases": [{"input": 3}]},
        {"evaluators": ["Contains"]},
        {"evaluators": [{"Contain": "x"}]},
        {"evaluators": [{"Contains": {"value": "x", "sensitive": True}}]},
        {"evaluators": [{"MaxTurns": "many"}]},
        {"thresholds": {"Equals": "much"}},
        {"judge": 3},
    ],
)
def test_mistakes_are_found(keys: dict[str, Any]) -> None:
    assert not is_valid(**keys)
