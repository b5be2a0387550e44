"""Holds that no module imports itself by way of others, wherever in the modules the imports stand.

An import inside a function hides a circle from Python and from import-linter's layers, and the two modules still cannot
be understood apart. Run by `make check` and before each commit; prints one line a circle and exits 1 when there is any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PACKAGES = ("llm_do_temporal", "worker_service")


def import_circles(root: Path, packages: Sequence[str] = PACKAGES) -> list[tuple[str, ...]]:
    """Return the circles of imports, sorted: each as the modules on the way, the first one also at the end.

    Imports inside functions count, those for types alone (`if TYPE_CHECKING:`) do not. Of modules that are joined by
    several circles, the shortest one is returned: the others show once that one is mended.
    """
    graph = import_graph(root, packages)
    circles: list[tuple[str, ...]] = []
    left = set(graph)
    for start in sorted(graph):
        if start not in left:
            continue
        joined = {name for name in _reachable(graph, start) if start in _reachable(graph, name)}
        left -= joined | {start}
        if joined:
            shortest = (_shortest_circle(graph, name) for name in sorted(joined))
            circles.append(min(shortest, key=len))
    return circles


def import_graph(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, tuple[str, ...]]:
    """Return the modules of the packages below `root`, each with the sorted modules of these that it imports."""
    paths = {_module_of(path, root): path for package in packages for path in (root / package).rglob("*.py")}
    return {name: tuple(sorted(set(_imported(path, name, paths)))) for name, path in paths.items()}


def _module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, name: str, known: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # A module of a package, or a name that the module itself has.
                target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
                if target in known and target != name:
                    yield target


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a module's text, but for what stands under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield from (other, *_statements(other))
        else:
            yield from (child, *_statements(child))


def _reachable(graph: Mapping[str, tuple[str, ...]], start: str) -> set[str]:
    """Return the modules that importing `start` imports; `start` itself where it stands in a circle."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(graph[name])
    return reached


def _shortest_circle(graph: Mapping[str, tuple[str, ...]], start: str) -> tuple[str, ...]:
    """Return the shortest way from a module back to itself. The module stands in a circle."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for way in ways:
        for name in graph[way[-1]]:
            if name == start:
                return (*way, start)
            if name not in seen:
                seen.add(name)
                ways.append((*way, name))
    raise ValueError(f"'{start}' stands in no circle")


def main(arguments: Sequence[str]) -> int:
    """Check the project in the folder named, or in the current one."""
    circles = import_circles(Path(arguments[0] if arguments else "."))
    for circle in circles:
        print(f"circle of imports: {' -> '.join(circle)}")
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
