from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.support.tiers import part_of

MODULE = """
import pytest

@pytest.mark.thorough
def test_long(): pass

@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", range(10))
def test_cases(case): pass

@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("adapter", ["a", "b", "c", "d"])
def test_forms(adapter, live): pass

def test_short(): pass
"""
CONFTEST = """
from tests.support import tiers

def pytest_configure(config):
    config.addinivalue_line("markers", "thorough")
    config.addinivalue_line("markers", "sampled")

def pytest_collection_modifyitems(items):
    tiers.mark(items)
    items[:], _ = tiers.chosen(items)
"""


def names(pytester: pytest.Pytester, *arguments: str, module: str = MODULE) -> Sequence[str]:
    """What is collected: each test as its function and its case."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(module)
    result = pytester.runpytest_subprocess("--collect-only", "-q", *arguments)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_of_cases_so_many_are_quick_as_the_mark_says_and_of_forms_one(pytester: pytest.Pytester) -> None:
    quick = names(pytester, "-m", "not thorough")
    assert Counter(name.partition("[")[0] for name in quick) == {"test_cases": 3, "test_forms": 1, "test_short": 1}


def test_each_form_has_its_turn(pytester: pytest.Pytester) -> None:
    many = MODULE.replace(
        '@pytest.mark.parametrize("live"', '@pytest.mark.parametrize("case", range(8))\n@pytest.mark.parametrize("live"'
    )
    quick = names(pytester, "-m", "not thorough", module=many.replace("adapter, live", "adapter, live, case"))
    forms = {name.partition("[")[2].rsplit("-", 1)[0] for name in quick if name.startswith("test_forms")}
    assert len(forms) == 8


@pytest.mark.thorough
def test_the_parts_are_all_thorough_tests_each_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    thorough = names(pytester, "-m", "thorough")
    monkeypatch.setenv("THOROUGH_PART", "1/3")
    parts = [*names(pytester)]
    for part in ("2/3", "3/3"):
        monkeypatch.setenv("THOROUGH_PART", part)
        parts += names(pytester)
    assert sorted(parts) == sorted(thorough)
    assert len(thorough) == 1 + 7 + 7


@pytest.mark.parametrize("part", ["", "7", "0/6", "7/6", "a/b", "1/0"])
def test_a_part_that_there_is_not_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="PART"):
        part_of([], part)
