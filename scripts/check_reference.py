"""Holds tests/reference-coverage.md to the tests: every test that a row names exists, and has run and passed.

Each row names tests, or says why it needs none; what was decided otherwise has a reason; each document has rows.
Without arguments the page is held against the test files. With JUnit files, as `make test` leaves them, every named
test must have passed in them, all of its parameters; one that was skipped did not run. Prints one line a fault and
exits 1 when there is any. Needs nothing but the language.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path("tests/reference-coverage.md")
DOCUMENTS = 5
CODE_FOLDERS = (".", "llm_do_temporal")
CELLS = 3
"""What is said, the code, the tests."""
NO_TEST = re.compile(r"— \w.*")
OTHERWISE = re.compile(r"decided otherwise(?!: \S)", re.IGNORECASE)
DOCUMENT = re.compile(r"## .*\(document (\d)\)")
RULE = re.compile(r"\|[\s:|-]+\|")
NODE = re.compile(r"`([^`\s]+::[^`\s]+)`")
MODULE = re.compile(r"`([\w./-]+)`")
NOT_RUN, NOT_PASSED = "skipped", ("failure", "error")


def rows(root: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of every table of the page, with their lines; headings and rules of tables apart."""
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        following = lines[number] if number < len(lines) else ""
        if line.startswith("|") and not RULE.fullmatch(line) and not RULE.fullmatch(following):
            yield number, [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def functions_of(path: Path) -> set[str]:
    """The tests of a file as they are named behind it: `test_it`, `TestAll::test_it`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + one.name for one in inner if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return found


def named_tests(root: Path) -> list[str]:
    """Every test that the page names, once."""
    return list(dict.fromkeys(node for _, cells in rows(root) for node in NODE.findall(cells[-1])))


def check_page(root: Path) -> Iterator[str]:
    """What is wrong with the page by itself."""
    if not (root / PAGE).is_file():
        yield f"{PAGE}: there is no such page"
        return
    yield from _missing_documents(root)
    known: dict[str, set[str]] = {}
    for number, cells in rows(root):
        yield from (f"{PAGE}:{number}: {fault}" for fault in _row_faults(root, cells, known))


def _row_faults(root: Path, cells: Sequence[str], known: dict[str, set[str]]) -> Iterator[str]:
    """What is wrong with a row; `known` gets the tests of each file that it names."""
    if len(cells) != CELLS:
        yield f"the row has {len(cells)} cells, not {CELLS}"
        return
    nodes = NODE.findall(cells[-1])
    if not nodes and not NO_TEST.fullmatch(cells[-1]):
        yield "the row names no test; one that needs none says — and why"
    if OTHERWISE.search(cells[0]):
        yield "the row does not say what was decided otherwise, and why, after a colon"
    for module in MODULE.findall(cells[1]):
        if not any((root / folder / module).exists() for folder in CODE_FOLDERS):
            yield f"there is no file {module}"
    for node in nodes:
        file, _, name = node.partition("::")
        path = root / file
        if file not in known:
            known[file] = functions_of(path) if path.is_file() else set()
        if not name.rpartition("::")[2].startswith("test_") or name not in known[file]:
            yield f"there is no test {node}"


def _missing_documents(root: Path) -> Iterator[str]:
    """The documents that have no section, or no row in it."""
    lines = (root / PAGE).read_text(encoding="utf-8").splitlines()
    begins = [(number, match[1]) for number, line in enumerate(lines, 1) if (match := DOCUMENT.fullmatch(line))]
    filled = {document for row, _ in rows(root) for document in [one for at, one in begins if at < row][-1:]}
    for document in map(str, range(1, DOCUMENTS + 1)):
        if document not in filled:
            yield f"{PAGE}: document {document} has no rows"


def results_of(files: Sequence[Path]) -> tuple[dict[str, bool], set[str]]:
    """Whether a test passed, by its dotted name, if it ran; one with parameters if it passed with all of them.

    And the tests that were skipped, with any of their parameters.
    """
    passed: dict[str, bool] = {}
    skipped: set[str] = set()
    for file in files:
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{str(case.get('name')).partition('[')[0]}"
            if case.find(NOT_RUN) is not None:
                skipped.add(name)
                continue
            ok = all(case.find(outcome) is None for outcome in NOT_PASSED)
            passed[name] = passed.get(name, True) and ok
    return passed, skipped


def check_results(root: Path, files: Sequence[Path]) -> Iterator[str]:
    """The named tests that did not run and pass."""
    missing = [file for file in files if not file.is_file()]
    yield from (f"{file}: there are no results" for file in missing)
    passed, skipped = results_of([file for file in files if file not in missing])
    for node in named_tests(root):
        dotted = node.replace(".py::", ".").replace("::", ".").replace("/", ".")
        if dotted in skipped:
            yield f"{PAGE}: {node} was skipped"
        elif dotted not in passed:
            yield f"{PAGE}: {node} did not run"
        elif not passed[dotted]:
            yield f"{PAGE}: {node} did not pass"


def check(root: Path, files: Sequence[Path]) -> list[str]:
    """All faults; what ran is looked at only where the page itself is good."""
    faults = list(check_page(root))
    return list(check_results(root, files)) if files and not faults else faults


def main(arguments: Sequence[str], root: Path | None = None) -> int:
    """Check the project in the current folder; the arguments are JUnit files."""
    root = Path() if root is None else root
    faults = check(root, [Path(one) for one in arguments])
    for fault in faults:
        print(fault)
    if not faults:
        count = f"{len(list(rows(root)))} rows, {len(named_tests(root))} tests named"
        print(f"{PAGE}: {count}{', all passed' if arguments else ''}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
