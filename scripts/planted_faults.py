"""Plants faults in a copy of the checkout, one at a time, and shows that the tests find each of them.

The faults are those of `scripts/faults`. Each is written into a copy of the checkout, of which every job has its own;
nothing is ever changed in the checkout itself. First the tests that the faults name must pass without any. A fault is
found if at least one of its tests fails with it. Prints one line a fault; exits 1 if one is not found, if a text that
it replaces is not in its file exactly once, or if its tests cannot be run.
"""

from __future__ import annotations

import argparse
import ast
import re
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

from scripts.checkout import Checkout, Done
from scripts.faults.capabilities import CAPABILITIES
from scripts.faults.core import CORE
from scripts.faults.fault import Fault
from scripts.faults.front import FRONT

ROOT = Path(__file__).parents[1]
FAULTS = (*CORE, *FRONT, *CAPABILITIES)
TEST_SECONDS = 120
"""Longest time of one test: a fault may let it wait for ever, and then it fails."""
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


class FaultyCheckout(Checkout):
    """Copy of the checkout in which faults are planted."""

    run_seconds = 600

    def try_tests(self, tests: Sequence[str]) -> Done:
        """Run tests in the copy. Raises subprocess.TimeoutExpired."""
        return self.python(*_PYTEST, *_QUICK_TESTS, *tests)

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
        return Finding(fault, Outcome.FOUND if is_found else Outcome.BROKEN, failure_of(tried), seconds)

    @contextmanager
    def _planted(self, fault: Fault) -> Generator[None]:
        """Plant a fault for as long as the block runs. Raises ValueError, and SyntaxError for one that is no Python."""
        path = self.folder / fault.file
        text = path.read_text(encoding="utf-8")
        planted = with_fault(text, fault)
        ast.parse(planted, fault.file)
        try:
            _write(path, planted)
            yield
        finally:
            _write(path, text)


def failure_of(tried: Done) -> str:
    """Return the node id of the first test that failed; the end of the output where none is named."""
    found = _FAILURE.search(tried.output)
    return found[1] if found else tried.output.strip()[-_END_CHARS:]


def with_fault(text: str, fault: Fault) -> str:
    """Return the text of the file with the fault. Raises ValueError unless the text it replaces is there once."""
    times = text.count(fault.before)
    if times != 1:
        raise ValueError(f"{fault.file} has {fault.before!r} {times} times, and a fault is planted in one place")
    return text.replace(fault.before, fault.after)


def find_all(faults: Sequence[Fault], checkouts: Sequence[FaultyCheckout]) -> Iterator[Finding]:
    """Plant each fault in one of the copies, as many at a time as there are copies; yield findings in their order."""
    free: SimpleQueue[FaultyCheckout] = SimpleQueue()
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


def check_clean(faults: Sequence[Fault], checkout: FaultyCheckout) -> None:
    """Run the tests of all faults with none planted. Raises SystemExit where one of them fails."""
    tests = sorted({test for fault in faults for test in fault.tests})
    # Folders have settings of their own, and modules of equal names.
    for folder, group in groupby(tests, lambda test: PurePosixPath(test).parts[:2]):
        tried = checkout.try_tests(list(group))
        if tried.code != _PASSED:
            sys.exit(f"without any fault, tests in '{'/'.join(folder)}' do not pass: {failure_of(tried)}")


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
        checkouts = [FaultyCheckout(root, folder / str(number)) for number in range(min(asked.jobs, len(chosen)))]
        check_clean(chosen, checkouts[0])
        counts: Counter[Outcome] = Counter()
        for finding in find_all(chosen, checkouts):
            print(finding, flush=True)
            counts[finding.outcome] += 1
    print(f"{len(chosen)} planted, {counts[Outcome.FOUND]} found")
    return 0 if counts[Outcome.FOUND] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
