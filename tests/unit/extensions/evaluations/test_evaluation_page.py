"""The page about evaluation files: its example is one, and its table has every evaluator with all of its keys."""

from __future__ import annotations

import re
from pathlib import Path

from llm_do_temporal.extensions.evaluations.files import THEIRS, read_evaluation
from llm_do_temporal.extensions.evaluations.policy.scores import EVALUATORS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "evaluation-file.md"
_NAMES = re.compile(r"`([^`]+)`")


def test_the_example_of_the_page_is_an_evaluation(tmp_path: Path) -> None:
    example = PAGE.read_text("utf-8").split("```yaml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("sandbox: {root: files}\n")
    path = tmp_path.resolve() / "workers" / "greetings.eval.yaml"
    path.write_text(example)
    found = read_evaluation(path, tmp_path.resolve())
    assert [str(problem) for problem in found.problems] == []
    assert found.spec is not None
    assert len(found.spec.cases) == 2


def test_every_evaluator_is_on_the_page_with_its_keys() -> None:
    text = PAGE.read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in text.split("\n") if line.startswith("| `")]
    told = {_NAMES.findall(cells[0])[0]: {*_NAMES.findall(cells[1]), *_NAMES.findall(cells[2])} for cells in rows}
    arguments = {_NAMES.findall(cells[0])[0]: _NAMES.findall(cells[1]) for cells in rows}
    for name, kind in EVALUATORS.items():
        assert told[name] == kind.model_fields.keys() - {"kind", "evaluation_name"}, name
        assert arguments[name] == ([] if kind.argument is None else [kind.argument]), name
    assert all(f"`{name}`" in text for name in THEIRS)
