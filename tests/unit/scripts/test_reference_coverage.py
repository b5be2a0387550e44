"""The page that says which test shows what the reference asks for names tests that exist, ran and passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_reference

ROOT = Path(__file__).parents[3]
TESTS = """\
import pytest

def test_one(): ...

async def test_two(): ...

class TestAll:
    def test_three(self): ...

def helper(): ...
"""
PAGE = """\
# What the reference asks for

## A document (document 1)

| what it says | code | test |
|---|---|---|
{rows}

{others}
"""
OTHERS = "\n".join(
    f"## Another (document {number})\n\n| what it says | code | test |\n|---|---|---|\n| all | — | — not ours |\n"
    for number in range(2, 6)
)
GOOD = (
    "| one and two | `policy/models.py` | `tests/test_a.py::test_one`, `tests/test_a.py::test_two` |",
    "| `a \\| b` | `policy/models.py`, `worker_service` | `tests/test_a.py::TestAll::test_three` |",
    "| why | — | — motivation |",
)


def project(root: Path, *rows: str) -> Path:
    """A project with one module, three tests and a page with these rows."""
    for folder in ("tests", "llm_do_temporal/policy", "worker_service"):
        (root / folder).mkdir(parents=True)
    (root / "llm_do_temporal/policy/models.py").touch()
    (root / "tests/test_a.py").write_text(TESTS)
    text = PAGE.format(rows="\n".join(rows), others=OTHERS)
    (root / check_reference.PAGE).write_text(text, encoding="utf-8")
    return root


def results(root: Path, *cases: str) -> Path:
    file = root / "results.xml"
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return file


def case(name: str, outcome: str = "", classname: str = "tests.test_a") -> str:
    return f'<testcase classname="{classname}" name="{name}">{outcome and f"<{outcome} />"}</testcase>'


ALL = (case("test_one[1]"), case("test_one[2]"), case("test_two"), case("test_three", classname="tests.test_a.TestAll"))


def test_the_projects_own_page_names_tests_and_files_that_exist() -> None:
    assert check_reference.check(ROOT, []) == []
    assert len(check_reference.named_tests(ROOT)) > 100


def test_a_good_page_whose_tests_all_passed_has_no_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(tmp_path, *GOOD)
    assert check_reference.main([], root) == 0
    assert check_reference.main([str(results(tmp_path, *ALL))], root) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{check_reference.PAGE}: 7 rows, 3 tests named, all passed"


def test_a_missing_page_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_reference.main([], tmp_path) == 1
    assert capsys.readouterr().out == "tests/reference-coverage.md: there is no such page\n"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| a | — | `tests/test_a.py::test_four` |", "there is no test tests/test_a.py::test_four"),
        ("| a | — | `tests/test_b.py::test_one` |", "there is no test tests/test_b.py::test_one"),
        # a method is named with its class, and a helper is no test
        ("| a | — | `tests/test_a.py::test_three` |", "there is no test tests/test_a.py::test_three"),
        ("| a | — | `tests/test_a.py::helper` |", "there is no test tests/test_a.py::helper"),
        ("| a | `policy/gone.py` | — why not |", "there is no file policy/gone.py"),
        ("| a | `policy/gone` | — its folder |", "there is no file policy/gone"),
        ("| a | — | some test |", "the row names no test"),
        # that it needs no test is not enough
        ("| a | — | — |", "the row names no test; one that needs none says — and why"),
        (
            "| a (decided otherwise) | — | `tests/test_a.py::test_one` |",
            "the row does not say what was decided otherwise",
        ),
        ("| a | — |", "the row has 2 cells, not 3"),
    ],
)
def test_a_planted_fault_is_named_with_its_line(tmp_path: Path, row: str, fault: str) -> None:
    (found,) = check_reference.check(project(tmp_path, *GOOD, row), [])
    assert found.startswith(f"tests/reference-coverage.md:10: {fault}")


def test_every_document_has_rows(tmp_path: Path) -> None:
    root = project(tmp_path, *GOOD)
    page = root / check_reference.PAGE
    page.write_text(page.read_text(encoding="utf-8").replace("(document 4)", "").replace("(document 1)", ""))
    assert check_reference.check(root, []) == [
        f"{check_reference.PAGE}: document {number} has no rows" for number in (1, 4)
    ]


@pytest.mark.parametrize(
    ("cases", "fault"),
    [
        (ALL[:3], "tests/test_a.py::TestAll::test_three did not run"),
        ((*ALL[:3], case("test_three", "skipped", "tests.test_a.TestAll")), "::test_three was skipped"),
        # with one of its parameters
        ((*ALL, case("test_one[3]", "skipped")), "tests/test_a.py::test_one was skipped"),
        ((*ALL, case("test_two", "failure")), "tests/test_a.py::test_two did not pass"),
        # with one of its parameters
        ((*ALL, case("test_one[3]", "error")), "tests/test_a.py::test_one did not pass"),
    ],
)
def test_a_test_that_did_not_run_and_pass_is_named(tmp_path: Path, cases: tuple[str, ...], fault: str) -> None:
    (found,) = check_reference.check(project(tmp_path, *GOOD), [results(tmp_path, *cases)])
    assert found.endswith(fault)


def test_results_that_are_not_there_are_a_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone.xml"
    root = project(tmp_path, *GOOD)
    assert check_reference.check(root, [gone, results(tmp_path, *ALL)]) == [f"{gone}: there are no results"]
