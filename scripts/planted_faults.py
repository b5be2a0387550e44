"""Plants faults in a copy of the checkout, one at a time, and shows that the tests find each of them.

The faults are those of `scripts/faults`. Each is written into a copy of the checkout, of which every job has its own;
nothing is ever changed in the checkout itself. First the tests that the faults name must pass without any. A fault is
found if at least one of its tests fails with it. Prints one line a fault; exits 1 if one is not found, if a text that
it replaces is not in its file exactly once, or if its tests cannot be run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import cache_from_source
from itertools import groupby
from pathlib import Path, PurePosixPath
from queue import SimpleQueue

from scripts.faults.capabilities import CAPABILITIES
from scripts.faults.core import CORE
from scripts.faults.fault import Fault
from scripts.faults.front import FRONT

ROOT = Path(__file__).parents[1]
FAULTS = (*CORE, *FRONT, *CAPABILITIES)
PACKAGE = "llm_do_temporal"
TEST_SECONDS = 120
"""Longest time of one test: a fault may let it wait for ever, and then it fails."""
RUN_SECONDS = 600
"""Longest time of one run of pytest, for a fault that pytest itself does not survive."""
_PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS))
_QUICK_TESTS = ("-m", "not thorough")
"""Options that leave out what `make test` leaves out."""
_PASSED, _FAILED, _NOT_COLLECTED = 0, 1, 2
"""Exit codes of pytest; the last one is also that of a module that cannot be imported."""
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_END_CHARS = 2_000


class Outcome(StrEnum):
    """Outcome for one fault."""

    FOUND = "found"
    NOT_FOUND = "not found"
    BROKEN = "broken"
    """The fault could not be planted, or its tests could not be run."""


@dataclass(frozen=True)
class Finding:
    """Outcome for one fault, with the test that failed first, or what went wrong."""

    fault: Fault
    outcome: Outcome
    words: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.outcome:9}  {self.seconds:5.1f} s  {self.fault.name}: {self.words}"


@dataclass(frozen=True)
class Tried:
    """One run of pytest."""

    code: int
    output: str

    @property
    def failure(self) -> str:
        """Node id of the first test that failed; the end of the output where none is named."""
        found = _FAILURE.search(self.output)
        return found[1] if found else self.output.strip()[-_END_CHARS:]


class Checkout:
    """Copy of the checkout in a folder of its own, in which faults are planted."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Copy the files of `root` that git has or would take, as they are now, to `folder`."""
        self._folder = folder
        for name in _names(root):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)
        self._environment = {**os.environ, "PYTHONPATH": str(folder)}
        self._check_imported()

    def try_tests(self, tests: Sequence[str]) -> Tried:
        """Run tests in the copy. Raises subprocess.TimeoutExpired."""
        return self._python(*_PYTEST, *_QUICK_TESTS, *tests)

    def find(self, fault: Fault) -> Finding:
        """Plant a fault, run its tests, and take it out again."""
        began = time.monotonic()
        try:
            with self._planted(fault):
                tried = self.try_tests(fault.tests)
        except (OSError, ValueError, SyntaxError, subprocess.TimeoutExpired) as error:
            return Finding(fault, Outcome.BROKEN, str(error), time.monotonic() - began)
        seconds = time.monotonic() - began
        if tried.code == _PASSED:
            return Finding(fault, Outcome.NOT_FOUND, f"{' '.join(fault.tests)} passed", seconds)
        is_found = tried.code in (_FAILED, _NOT_COLLECTED)
        return Finding(fault, Outcome.FOUND if is_found else Outcome.BROKEN, tried.failure, seconds)

    @contextmanager
    def _planted(self, fault: Fault) -> Generator[None]:
        """Plant a fault for as long as the block runs. Raises ValueError, and SyntaxError for one that is no Python."""
        path = self._folder / fault.file
        text = path.read_text(encoding="utf-8")
        planted = with_fault(text, fault)
        ast.parse(planted, fault.file)
        try:
            _write(path, planted)
            yield
        finally:
            _write(path, text)

    def _check_imported(self) -> None:
        """Raise SystemExit where another package than that of the copy would be imported."""
        told = self._python("-c", f"import {PACKAGE}; print({PACKAGE}.__file__)")
        if Path(told.output.strip()).parent != self._folder / PACKAGE:
            sys.exit(f"the tests would not import '{PACKAGE}' from the copy in '{self._folder}': {told.output}")

    def _python(self, *arguments: str) -> Tried:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=RUN_SECONDS,
        )
        return Tried(done.returncode, done.stdout)


def with_fault(text: str, fault: Fault) -> str:
    """Return the text of the file with the fault. Raises ValueError unless the text it replaces is there once."""
    times = text.count(fault.before)
    if times != 1:
        raise ValueError(f"{fault.file} has {fault.before!r} {times} times, and a fault is planted in one place")
    return text.replace(fault.before, fault.after)


def find_all(faults: Sequence[Fault], checkouts: Sequence[Checkout]) -> Iterator[Finding]:
    """Plant each fault in one of the copies, as many at a time as there are copies; yield findings in their order."""
    free: SimpleQueue[Checkout] = SimpleQueue()
    for checkout in checkouts:
        free.put(checkout)

    def find(fault: Fault) -> Finding:
        checkout = free.get()
        try:
            return checkout.find(fault)
        finally:
            free.put(checkout)

    with ThreadPoolExecutor(len(checkouts)) as jobs:
        yield from jobs.map(find, faults)


def check_clean(faults: Sequence[Fault], checkout: Checkout) -> None:
    """Run the tests of all faults with none planted. Raises SystemExit where one of them fails."""
    tests = sorted({test for fault in faults for test in fault.tests})
    # Folders have settings of their own, and modules of equal names.
    for folder, group in groupby(tests, lambda test: PurePosixPath(test).parts[:2]):
        tried = checkout.try_tests(list(group))
        if tried.code != _PASSED:
            sys.exit(f"without any fault, tests in '{'/'.join(folder)}' do not pass: {tried.failure}")


def _names(root: Path) -> list[str]:
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in listed if name and os.path.lexists(root / name)]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Two versions of one second and one size look the same to Python.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _chosen(faults: Sequence[Fault], names: Sequence[str]) -> list[Fault]:
    unknown = sorted(set(names) - {fault.name for fault in faults})
    if unknown:
        sys.exit(f"there is no fault '{unknown[0]}'; --list shows all")
    return [fault for fault in faults if not names or fault.name in names]


def main(arguments: Sequence[str], faults: Sequence[Fault] = FAULTS, root: Path = ROOT) -> int:
    """Plant the faults that are asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description="Plants faults one at a time, and shows that the tests find each.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="plant this fault; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="faults at a time, each in its own copy")
    parser.add_argument("--list", action="store_true", help="show the faults with their files and tests, plant none")
    asked = parser.parse_args(arguments)
    chosen = _chosen(faults, asked.only)
    if asked.list:
        print("\n".join(f"{fault.name}  {fault.file}  {' '.join(fault.tests)}" for fault in chosen))
        return 0
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as temporary:
        folder = Path(temporary).resolve()
        checkouts = [Checkout(root, folder / str(number)) for number in range(min(asked.jobs, len(chosen)))]
        check_clean(chosen, checkouts[0])
        counts: Counter[Outcome] = Counter()
        for finding in find_all(chosen, checkouts):
            print(finding, flush=True)
            counts[finding.outcome] += 1
    print(f"{len(chosen)} planted, {counts[Outcome.FOUND]} found")
    return 0 if counts[Outcome.FOUND] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
