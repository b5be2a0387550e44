"""Takes capabilities out of a copy of the checkout, and shows that all the rest runs without them.

Of each capability its folder goes, with those of its tests, of their support and of its measurements. Then all that is
left is imported, the import contracts are looked at, and the examples are checked. With one capability out, a run with
an approval and one that delegates are made; with all of them out, pages are generated anew, all tests are collected,
and those of the core and the front are run. Prints one line for each copy; exits 1 where something fails.
"""

from __future__ import annotations

import argparse
import configparser
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from scripts.check_docs import TABLES_SCRIPT, WRITTEN
from scripts.checkout import PACKAGE, Checkout, Done

ROOT = Path(__file__).parents[1]
EXTENSIONS = f"{PACKAGE}/extensions"
FEW_TESTS = (
    "tests/integration/test_approvals.py::test_an_approved_call_is_carried_out",
    "tests/integration/test_approvals.py::test_a_changed_delegation_is_judged_again_from_the_start",
)
"""Tests of a run with an approval, and of a delegation."""
QUICK_TESTS = ("tests/unit/cli", "tests/unit/client", "tests/unit/ui", *FEW_TESTS)
ALL_TESTS = ("tests/unit", "tests/replay", "tests/e2e", "tests/integration", "tests/security")
_OF_ALL_FILES = "tests/unit/scripts/test_reference_coverage.py"
"""Tests about a table in which tests of all capabilities stand."""
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not thorough")
_IMPORT_ALL = f"""
import importlib, pkgutil
import {PACKAGE}
for module in pkgutil.walk_packages({PACKAGE}.__path__, "{PACKAGE}."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
_KEY_OF_OTHERS = re.compile(r": this key is for the extension '[^']+', which is not installed here$")
_END_CHARS = 4_000
_JOBS = 2
"""Copies that are tried at a time."""


def extension_names(root: Path) -> list[str]:
    """Return the names of all capabilities that have a folder, sorted."""
    return sorted(path.parent.name for path in root.glob(f"{EXTENSIONS}/*/__init__.py"))


def take_out(folder: Path, names: Sequence[str]) -> None:
    """Take capabilities and their tests out of a copy, and their names out of its import contracts."""
    for name in names:
        for path in (
            folder / EXTENSIONS / name,
            *folder.glob(f"tests/*/extensions/{name}"),
            *folder.glob(f"benchmarks/{name}"),
        ):
            shutil.rmtree(path)
    contracts = folder / ".importlinter"
    gone = re.compile(rf"{PACKAGE}\.extensions\.({'|'.join(names)})\b")
    kept = [line for line in contracts.read_text("utf-8").splitlines() if not gone.search(line)]
    config = configparser.ConfigParser()
    config.read_string("\n".join(kept))
    if not extension_names(folder):
        config.remove_section("importlinter:contract:extensions")
    with contracts.open("w", encoding="utf-8") as file:
        config.write(file)


def without_keys_of_others(done: Done) -> Done:
    """Return how `check` ended; examples may use a capability that is taken out: that error alone is no failure."""
    errors = [line for line in done.output.splitlines() if ": error: " in line]
    return replace(done, code=0) if errors and all(map(_KEY_OF_OTHERS.search, errors)) else done


def stages(copy: Checkout, tests: Sequence[str]) -> Iterator[tuple[str, Done]]:
    """Yield what is tried in a copy, one after the other: its name, and how it ended."""
    python = sys.executable
    yield "imports", copy.python("-c", _IMPORT_ALL)
    yield "contracts", copy.run(str(Path(python).with_name("lint-imports")), "--no-cache", "--no-logo")
    yield "check", without_keys_of_others(copy.run(python, "-m", f"{PACKAGE}.cli", "check", folder="workers"))
    if tests != FEW_TESTS:
        for script in (TABLES_SCRIPT, *WRITTEN.values()):
            yield script, copy.python("-m", f"scripts.{script.replace('/', '.')}")
        yield "collection", copy.python(*_PYTEST, "--collect-only", "tests")
    # Folders have settings of their own.
    jobs = "0" if tests == FEW_TESTS else "2"
    for folder, group in groupby(tests, lambda test: test.split("/")[1]):
        yield f"tests of {folder}", copy.python(*_PYTEST, "-n", jobs, f"--ignore={_OF_ALL_FILES}", *group)


def try_without(root: Path, names: Sequence[str], tests: Sequence[str]) -> bool:
    """Take capabilities out of a copy and try it. Print what came of it, and return whether all went well."""
    began = time.monotonic()
    label = "without " + (", ".join(names) if names else "any")
    with tempfile.TemporaryDirectory(prefix="without-extensions-") as folder:
        copy = Checkout(root, Path(folder).resolve())
        take_out(copy.folder, names)
        passed: list[str] = []
        for name, done in stages(copy, tests):
            if done.code != 0:
                print(f"FAILED    {label}: {name}:\n{done.output.strip()[-_END_CHARS:]}", flush=True)
                return False
            passed += re.findall(r"^(\d+ passed)", done.output, re.MULTILINE)
    print(f"ok        {time.monotonic() - began:5.0f} s  {label}: {', '.join(passed)}", flush=True)
    return True


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Try what is asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description="Takes capabilities out, and shows that the rest runs.")
    parser.add_argument("--only", metavar="NAME", help="take this one out; else all are taken out at once")
    parser.add_argument("--each", action="store_true", help="take each one out by itself")
    parser.add_argument("--quick", action="store_true", help="with all taken out, run the quick tests alone")
    asked = parser.parse_args(arguments)
    names = extension_names(root)
    if asked.only is not None and asked.only not in names:
        sys.exit(f"there is no extension '{asked.only}'; there are: {', '.join(names)}")
    tries: list[tuple[Sequence[str], Sequence[str]]]
    if asked.each or asked.only is not None:
        tries = [([name], FEW_TESTS) for name in names if asked.only in (None, name)]
    else:
        tries = [(names, QUICK_TESTS if asked.quick else ALL_TESTS)]

    def is_fine(one: tuple[Sequence[str], Sequence[str]]) -> bool:
        return try_without(root, *one)

    with ThreadPoolExecutor(_JOBS) as jobs:
        return 0 if all(list(jobs.map(is_fine, tries))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
