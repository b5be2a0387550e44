"""Problems written for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_do_temporal.cli.reports.problems import problem_lines
from llm_do_temporal.definitions.yaml.problems import Problem

PROBLEMS = [
    Problem("workers/a b.worker", 3, "50% is\nno number, x", next_step="Write: 1"),
    Problem("workshop.yaml", None, "odd", "warning"),
    Problem("pkg:notes.worker", 1, "old", "warning"),
]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shop"


def test_lines_are_as_they_were(shop: Path) -> None:
    assert list(problem_lines(PROBLEMS[1:], "text", shop)) == [
        "workshop.yaml: warning: odd",
        "pkg:notes.worker:1: warning: old",
    ]


def test_json_names_files_from_the_working_directory(shop: Path) -> None:
    first, second, third = json.loads("\n".join(problem_lines(PROBLEMS, "json", shop)))
    assert first == {
        "file": "shop/workers/a b.worker",
        "line": 3,
        "message": "50% is\nno number, x",
        "severity": "error",
        "next_step": "Write: 1",
    }
    assert (second["line"], third["file"]) == (None, "pkg:notes.worker")


def test_an_annotation_is_one_line_whatever_it_says(shop: Path) -> None:
    first, second, _ = problem_lines(PROBLEMS, "github", shop)
    assert first == (
        "::error file=shop/workers/a b.worker,line=3,title=llm-do-temporal check::50%25 is%0Ano number, x (Write: 1)"
    )
    assert second == "::warning file=shop/workshop.yaml,title=llm-do-temporal check::odd"


def test_a_file_cannot_add_to_an_annotation(shop: Path) -> None:
    (line,) = problem_lines([Problem("a,title=x::y%\n", 1, "m")], "github", shop)
    assert line.startswith("::error file=shop/a%2Ctitle=x%3A%3Ay%25%0A,line=1,")


def test_sarif_has_a_result_for_each(shop: Path) -> None:
    (text,) = problem_lines(PROBLEMS, "sarif", shop)
    (run,) = json.loads(text)["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert places[0] == {"artifactLocation": {"uri": "shop/workers/a%20b.worker"}, "region": {"startLine": 3}}
    assert "region" not in places[1]
    assert [one["level"] for one in run["results"]] == ["error", "warning", "warning"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {one["ruleId"] for one in run["results"]}
