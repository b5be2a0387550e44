"""The size budgets are measured as they are written down, and a violation fails the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_budgets import MAX_FILE_LINES, MAX_FUNCTION_LINES, main


def plant(root: Path, source: str, folder: str = "llm_do_temporal") -> Path:
    path = root / folder / "sub" / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    return path


def function_of(lines: int, first: str = "def planted() -> None:\n") -> str:
    return first + '    """Docstring."""\n' + "    pass\n" * (lines - 1 - first.count("\n"))


def test_an_empty_project_and_one_at_its_limits_are_fine(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    plant(tmp_path, function_of(MAX_FUNCTION_LINES) + "x = 1\n" * (MAX_FILE_LINES - MAX_FUNCTION_LINES))
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize("folder", ["llm_do_temporal", "worker_service", "tests", "scripts", "benchmarks"])
def test_a_file_a_line_too_long_is_named(tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = plant(tmp_path, "x = 1\n" * (MAX_FILE_LINES + 1), folder)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{path}:1: planted.py has 401 lines, at most 400\n"


@pytest.mark.parametrize(
    "source",
    [
        function_of(61),  # docstring counted
        function_of(61, "async def planted() -> None:\n"),  # coroutines too
        function_of(61, "@first\n@second(\n    1\n)\ndef planted() -> None:\n"),  # decorators counted
        function_of(61, "def planted(\n    a: int,\n) -> None:\n"),  # a signature on several lines
    ],
)
def test_a_function_a_line_too_long_is_named(tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = plant(tmp_path, "x = 1\n" + source)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{path}:2: planted has 61 lines, at most 60\n"


def test_methods_and_nested_functions_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "".join("    " + line + "\n" for line in function_of(61).splitlines())
    plant(tmp_path, f"class A:\n{body}")
    assert main([str(tmp_path)]) == 1
    assert "planted has 61 lines" in capsys.readouterr().out


def test_what_is_not_the_projects_own_is_not_measured(tmp_path: Path) -> None:
    plant(tmp_path, "x = 1\n" * 1000, "build")
    assert main([str(tmp_path)]) == 0
