"""Python functions that evaluate: whatever is wrong with what they return is a failure of the evaluator."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.workshop import Workshop
from llm_do_temporal.extensions.evaluations.activities import (
    _case,  # pyright: ignore[reportPrivateUsage] - what a function is given
    python_score,
)
from llm_do_temporal.extensions.evaluations.files import CaseKeys, load_evaluation
from llm_do_temporal.extensions.evaluations.policy.scores import CaseFacts, EvaluationCase, EvaluationSpec, Python
from llm_do_temporal.extensions.evaluations.start import functions_of


@pytest.mark.parametrize(
    "returned", ["10**400", "{'value': 10**400}", "float('nan')", "{'a': 10**5000}", "deep()", "Odd()"]
)
def test_an_odd_result_is_a_failure_and_no_score(tmp_path: Path, returned: str) -> None:
    (tmp_path / "checks.py").write_text(
        "class Odd(dict):\n    def __iter__(self):\n        raise TypeError('no')\n    keys = __iter__\n"
        "def deep():\n    made = []\n    for _ in range(100_000):\n        made = [made]\n    return made\n"
        f"def score(facts):\n    return {returned}\n"
    )
    case = EvaluationCase(id="ada")
    scores = python_score(Python(function="checks.py:score"), case, CaseFacts(output="Hello!"), tmp_path)
    assert scores.scores == ()
    assert len(scores.failures) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def score(facts):\n    os._exit(3)\n",
        "def score(facts):\n    os.abort()\n",
        "async def score(facts):\n    await asyncio.to_thread(os._exit, 3)\n",
        "os._exit(3)\n",
    ],
)
def test_an_evaluator_that_would_end_the_process_fails_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "checks.py").write_text(f"import asyncio\nimport os\n\n\n{text}")
    scores = python_score(
        Python(function="checks.py:score"), EvaluationCase(id="ada"), CaseFacts(output="Hello!"), tmp_path
    )
    assert "would end the whole process" in scores.failures[0].message


@pytest.mark.parametrize(
    "reference",
    [
        *("subprocess.run", "os.system", "builtins.exec", "run", ".run", "checks..score", "other.score", "json.loads"),
        f"{'é' * 150}.score",
    ],
)
def test_a_function_that_is_not_of_the_workshop_is_refused(tmp_path: Path, reference: str) -> None:
    (tmp_path / "checks.py").write_text("def score(facts):\n    return True\n")
    evaluator = Python(function=reference, arguments={"args": ["touch", str(tmp_path / "made")]})
    scores = python_score(evaluator, EvaluationCase(id="ada"), CaseFacts(output="Hello!"), tmp_path)
    assert scores.scores == ()
    assert "names no function of the workshop" in scores.failures[0].message
    assert str(tmp_path) not in scores.failures[0].message
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("reference", ["checks.score", "package.score", "package.inner.score", "json.score"])
def test_a_module_of_the_workshop_has_functions(tmp_path: Path, reference: str) -> None:
    (tmp_path / "package").mkdir()
    for name in ("checks.py", "json.py", "package/__init__.py", "package/inner.py"):
        (tmp_path / name).write_text("def score(facts):\n    return True\n")
    scores = python_score(Python(function=reference), EvaluationCase(id="ada"), CaseFacts(output="Hello!"), tmp_path)
    assert [score.value for score in scores.scores] == [True], scores.failures


def test_the_case_has_the_keys_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    cases = [
        {"name": "told", "inputs": "Greet Ada.", "expected_output": "Hello, Ada!", "metadata": {"level": 1}},
        {"name": "typed", "inputs": {"who": "Ada"}, "prompt": "Greet.", "expected_output": {"to": ["Ada"]}},
        {"name": "empty", "inputs": 0},
    ]
    file = tmp_path / "greeting.eval.yaml"
    file.write_text(yaml.safe_dump({"worker": "greeter", "cases": cases}))
    (tmp_path / "checks.py").write_text(
        "def score(facts, given):\n"
        "    case = facts['case']\n"
        "    same = [case[key] == value for key, value in given.items()]\n"
        "    ours = case['id'], case['input'] or case['prompt'], case['expected']\n"
        "    theirs = case['name'], case['inputs'] or '', case['expected_output']\n"
        "    return all(same) and ours == theirs\n"
    )
    for given, case in zip(cases, load_evaluation(file, tmp_path).cases, strict=True):
        evaluator = Python(function="checks.py:score", arguments={"given": given})
        scores = python_score(evaluator, case, CaseFacts(output="Hello!"), tmp_path)
        assert [score.value for score in scores.scores] == [True], scores.failures
        assert set(CaseKeys.model_fields) <= set(_case(case))


@pytest.mark.parametrize(
    ("imports", "changed"),
    [
        ("import helper", "helper.py"),
        ("import box.inner as helper", "box/inner.py"),
        ("from box import inner as helper", "box/inner.py"),
        ("from box.outer import helper", "box/inner.py"),
        ("def helper(): ...\nhelper.LIKED = __import__('far').LIKED\nimport far", "helper.py"),
    ],
)
def test_a_module_that_an_evaluator_imports_counts_as_its_code(tmp_path: Path, imports: str, changed: str) -> None:
    (tmp_path / "box").mkdir()
    for name, text in {
        "box/__init__.py": "",
        "box/outer.py": "from . import inner as helper\n",
        "far.py": "from helper import LIKED\n",
        "box/inner.py": "LIKED = True\n",
        "helper.py": "LIKED = True\n",
        "checks.py": f"{imports}\ndef score(facts):\n    return helper.LIKED\n",
    }.items():
        (tmp_path / name).write_text(text)
    evaluator = Python(function="checks.py:score")
    spec = EvaluationSpec(name="s", worker="w", cases=(EvaluationCase(id="ada"),), evaluators=(evaluator,))
    workshop = Workshop(root=tmp_path, config=WorkshopConfig())

    def seen() -> tuple[list[bool | float | str], dict[str, str]]:
        scores = python_score(evaluator, spec.cases[0], CaseFacts(output="x"), tmp_path)
        assert scores.failures == ()
        return [score.value for score in scores.scores], functions_of(workshop, spec)

    before, again = seen(), seen()
    assert before == again
    (tmp_path / changed).write_text("LIKED = False\n")
    after = seen()
    assert (before[0], after[0]) == ([True], [False])
    assert before[1] != after[1]
