"""Checks the conventions that neither ruff nor import-linter knows.

A module's name is a noun, a public class name means one class, a docstring begins with a noun or a verb, no test
imports another, and no module imports itself by way of others, wherever in the modules the imports stand.
Run by `make check`, by CI and before each commit; prints one line a violation and exits 1 when there is any.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

PRODUCT = ("llm_do_temporal", "worker_service")
CODE = (*PRODUCT, "scripts", "benchmarks")
FOLDERS = (*PRODUCT, "tests", "scripts", "benchmarks")
COMMANDS = Path("llm_do_temporal/cli/commands")
"""Docstrings of functions here are what `--help` shows; they follow the manners of command lines."""
NOUNS_IN_ING = frozenset(
    ("string", "testing", "encoding", "mapping", "pricing", "listing", "setting", "heading", "warning")
)
_RIDDLE = re.compile(
    r"\W*(what|who|whoever|whom|whose|one|its?|of|that|those|these|this|they|somebody|nobody|anybody|everybody|everything"
    r"|something|how|likewise|as|where|when|by|for|from|in|to|with|at)\b",
    re.IGNORECASE,
)
"""Words that begin no docstring: after them, its subject has to be guessed."""
_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Violation:
    """A convention that is not kept, and where."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Source:
    """A Python file of the project; `inside` is its path inside the project."""

    path: Path
    inside: Path
    text: str
    tree: ast.Module


def read_sources(root: Path) -> list[Source]:
    """Read the project's Python files. A folder that does not exist has none."""
    found: list[Source] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found.append(Source(path, path.relative_to(root), text, ast.parse(text, str(path))))
    return found


def check_module_names(sources: Sequence[Source]) -> Iterator[Violation]:
    """Look for modules that are named for an activity; names of test modules follow the sentences in them."""
    for source in sources:
        name = source.path.stem
        if name.endswith("ing") and name.rpartition("_")[2] not in NOUNS_IN_ING and not name.startswith("test_"):
            yield Violation(source.path, 1, f"{source.path.name} is not named by a noun")


def check_class_names(sources: Sequence[Source]) -> Iterator[Violation]:
    """Look for public names that two classes of the product have."""
    first: dict[str, Path] = {}
    for source in sources:
        if source.inside.parts[0] not in PRODUCT:
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                other = first.setdefault(node.name, source.path)
                if other != source.path:
                    yield Violation(source.path, node.lineno, f"{node.name} is also the name of a class in {other}")


def check_first_words(sources: Sequence[Source]) -> Iterator[Violation]:
    """Look for docstrings of the product, also those of attributes, that begin with a riddle."""
    for source in sources:
        if source.inside.parts[0] not in PRODUCT:
            continue
        helps = source.inside.is_relative_to(COMMANDS)
        for line, text in _docstrings(source.tree, of_functions=not helps):
            riddle = _RIDDLE.match(text)
            if riddle:
                yield Violation(source.path, line, f'a docstring begins with "{riddle[1]}", not with a noun or a verb')


def _docstrings(tree: ast.Module, *, of_functions: bool) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string that stands alone: at the start of a body, or below an assignment."""
    for scope in ast.walk(tree):
        if not isinstance(scope, _Scope):
            continue
        for before, node in zip([None, *scope.body], scope.body, strict=False):
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                continue
            begins = before is None and (of_functions or isinstance(scope, ast.Module | ast.ClassDef))
            if isinstance(node.value.value, str) and (begins or isinstance(before, ast.Assign | ast.AnnAssign)):
                yield node.lineno, node.value.value


def check_test_imports(sources: Sequence[Source]) -> Iterator[Violation]:
    """Look for imports of a test module or a `conftest`: what two tests need lies in tests/support."""
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for module in _imported(node):
                parts = module.split(".")
                if parts[0] == "tests" and any(part == "conftest" or part.startswith("test_") for part in parts):
                    yield Violation(source.path, node.lineno, f"imports {module}; what tests share is in tests/support")


def check_test_names(sources: Sequence[Source]) -> Iterator[Violation]:
    """Look for names that two unit tests have: their folders are no packages, and pytest would load one of the two."""
    first: dict[str, Path] = {}
    for source in sources:
        if source.inside.is_relative_to("tests/unit") and source.path.stem.startswith("test_"):
            other = first.setdefault(source.path.name, source.path)
            if other != source.path:
                yield Violation(source.path, 1, f"{source.path.name} is also the name of {other}")


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that a statement imports, also those that it imports out of a package."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if node.module:
        inner = [name.name for name in node.names if name.name == "conftest" or name.name.startswith("test_")]
        return [f"{node.module}.{name}" for name in inner] or [node.module]
    return []


def import_circle(*packages: str) -> list[str]:
    """Return the modules of a circle of imports, the first one also at the end; none where there is no circle.

    Imports inside functions count, which hide a circle from Python; those for types alone do not.
    """
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    try:
        TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


CHECKS = (check_module_names, check_class_names, check_first_words, check_test_imports, check_test_names)


def main(arguments: Sequence[str]) -> int:
    """Check the project in the folder named, or in the current one, and then the imports as well."""
    sources = read_sources(Path(arguments[0] if arguments else "."))
    found = [str(violation) for check in CHECKS for violation in check(sources)]
    circle = [] if arguments else import_circle(*PRODUCT)
    if circle:
        found.append(f"circle of imports: {' -> '.join(circle)}")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
