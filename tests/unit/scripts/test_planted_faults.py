"""Each fault is planted in one place, and one that no test finds fails the run."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scripts.faults.fault import Fault
from scripts.planted_faults import FAULTS, ROOT, main, with_fault

TEST = "from llm_do_temporal import ADDED\n\n\ndef test_one() -> None:\n    assert ADDED == 1\n"
SEEN = Fault("seen", "llm_do_temporal/__init__.py", "ADDED = 1", "ADDED = 2", ("tests/small/test_one.py",))
UNSEEN = Fault("unseen", "llm_do_temporal/__init__.py", "OTHER = 1", "OTHER = 2", ("tests/small/test_one.py",))


def checkout(root: Path) -> Path:
    for name, text in (("llm_do_temporal/__init__.py", "ADDED = 1\nOTHER = 1\n"), ("tests/small/test_one.py", TEST)):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_there_are_sixty_faults_and_each_has_a_name_of_its_own() -> None:
    assert len(FAULTS) >= 60
    assert [name for name, times in Counter(fault.name for fault in FAULTS).items() if times > 1] == []


def case(fault: Fault) -> Any:
    """The case of a fault; one in a capability needs that one."""
    found = re.match("llm_do_temporal/extensions/([^/]+)/", fault.file)
    return pytest.param(fault, id=fault.name, marks=[pytest.mark.extension(found[1])] if found else [])


@pytest.mark.parametrize("fault", [case(fault) for fault in FAULTS])
def test_a_fault_has_one_place_and_tests_that_exist(fault: Fault) -> None:
    planted = with_fault((ROOT / fault.file).read_text(encoding="utf-8"), fault)
    compile(planted, fault.file, "exec")
    assert fault.tests
    for selector in fault.tests:
        file, _, name = selector.partition("::")
        assert name.partition("[")[0] in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["OTHER = 1\n", "ADDED = 1\nADDED = 1\n"])
def test_a_place_that_is_gone_or_there_twice_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"'ADDED = 1' [02] times"):
        with_fault(text, SEEN)


@pytest.mark.thorough
def test_a_fault_that_no_test_finds_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout(tmp_path)
    assert main(["--jobs", "1"], (SEEN, UNSEEN), root) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("found ")
    assert first.endswith("seen: tests/small/test_one.py::test_one")
    assert second.startswith("not found ")
    assert last == "2 planted, 1 found"
    assert (root / SEEN.file).read_text() == "ADDED = 1\nOTHER = 1\n"  # the checkout itself is left as it is
    assert main(["--only", "seen"], (SEEN, UNSEEN), root) == 0


def test_tests_that_fail_without_a_fault_show_nothing(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    (root / SEEN.file).write_text("ADDED = 3\n")
    with pytest.raises(SystemExit, match=r"without any fault, tests in 'tests/small' do not pass: .*test_one"):
        main([], (SEEN,), root)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit, match="there is no fault 'none'"):
        main(["--only", "none"], (SEEN,))
