"""Holds the size budgets: 400 lines a file, 60 lines a function, docstring and decorators counted.

A file or function that wants to be longer has two jobs. Run by `make check`, by CI and before each commit; prints one
line a violation and exits 1 when there is any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("llm_do_temporal", "worker_service", "tests", "scripts", "benchmarks")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


@dataclass(frozen=True)
class Excess:
    """A file or function over its budget, and where it begins."""

    path: Path
    line: int
    name: str
    lines: int
    limit: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} has {self.lines} lines, at most {self.limit}"


def check_file(path: Path) -> Iterator[Excess]:
    """Measure a file and every function in it, methods and nested functions included."""
    source = path.read_text(encoding="utf-8")
    total = len(source.splitlines())
    if total > MAX_FILE_LINES:
        yield Excess(path, 1, path.name, total, MAX_FILE_LINES)
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = (node.end_lineno or node.lineno) - first + 1
            if lines > MAX_FUNCTION_LINES:
                yield Excess(path, first, node.name, lines, MAX_FUNCTION_LINES)


def check_budgets(root: Path) -> list[Excess]:
    """Measure the project's Python files. A folder that does not exist has none."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return [excess for path in files for excess in check_file(path)]


def main(arguments: Sequence[str]) -> int:
    """Check the project in the folder named, or in the current one."""
    found = check_budgets(Path(arguments[0] if arguments else "."))
    for excess in found:
        print(excess)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
