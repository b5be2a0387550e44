"""No digest of under 128 bits says that two things are one: pairs that share fewer digits are made here, and tried."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from llm_do_temporal.definitions.tools.authors_code import PythonFile, load_python
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.delegation import worker_name
from llm_do_temporal.policy.external import offered_names
from llm_do_temporal.policy.layers.patch import file_hunks

FEWEST_DIGITS = 32
_DIGITS = 8
_STEM = "x" * 70
BEGINNINGS = [f"{_STEM}{sign}" for sign in ". /:@é"]


def pair(names: Iterator[str]) -> tuple[str, str]:
    """Two of these names whose digests begin with the same digits."""
    seen: dict[str, str] = {}
    for name in names:
        digits = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        if digits in seen:
            return seen[digits], name
        seen[digits] = name
    raise AssertionError


def numbered(begin: str, end: str = "") -> Iterator[str]:
    return (f"{begin}{number}{end}" for number in count())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prefix", [None, "files_"])
@pytest.mark.parametrize("begin", BEGINNINGS)
def test_two_tools_of_one_server_never_share_a_name(begin: str, prefix: str | None) -> None:
    one, other = pair(f"{prefix or ''}{name}" for name in numbered(begin))
    names = [name.removeprefix(prefix or "") for name in (one, other, other)]
    offered = offered_names(prefix, names)
    assert len(set(offered)) == 3
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in offered)


@pytest.mark.parametrize("begin", ["templates/A b", "templates/a--b ", "templates/" + "x/" * 40, "pkg:A b", "pkg:é"])
def test_two_templates_never_share_a_name(begin: str) -> None:
    one, other = pair(numbered(begin, ".yaml"))
    assert worker_name(one) != worker_name(other)


def spelled(signs: str) -> Iterator[str]:
    """Names that are alike but for these signs, which no id of a run can have."""
    return (f"a{''.join(signs[int(one)] for one in f'{number:b}')}b" for number in count())


LIKE: dict[str, Callable[[], Iterator[str]]] = {
    "long": lambda: numbered("x" * 60 + " "),
    "long, with a plain end": lambda: numbered("x" * 60),
    "spaces and marks": lambda: spelled(" !"),
    "slashes and colons": lambda: spelled("/:"),
    "letters of other alphabets": lambda: spelled("éж"),
    "full-width digits": lambda: spelled("\uff10\uff11"),
}


@pytest.mark.extension("evaluations")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("like", LIKE)
def test_two_cases_whose_runs_would_have_one_id_are_refused(tmp_path: Path, like: str) -> None:
    from llm_do_temporal.extensions.evaluations.files import read_evaluation
    from llm_do_temporal.extensions.evaluations.policy.experiment import case_in_id

    one, other = pair(LIKE[like]())
    assert case_in_id(one) == case_in_id(other)
    file = tmp_path / "x.eval.yaml"
    cases = [{"name": name, "inputs": "a"} for name in (one, other)]
    file.write_text(json.dumps({"worker": "w", "cases": cases}))
    found = [str(problem) for problem in read_evaluation(file, tmp_path).problems]
    assert any("two cases are called" in problem for problem in found), found


CHANGES: dict[str, tuple[bytes, bytes]] = {
    "one line": (b"a\n", b"b\n"),
    "two parts": (b"a\n" + b"x\n" * 20 + b"c\n", b"b\n" + b"x\n" * 20 + b"d\n"),
    "new": (b"", b"b\n"),
    "emptied": (b"b\n", b""),
    "no line end": (b"a", b"a\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_id_of_a_hunk_has_all_digits(change: str) -> None:
    found = file_hunks(*CHANGES[change])
    assert found is not None
    assert all(re.fullmatch(f"[0-9a-f]{{{FEWEST_DIGITS}}}", one.id) for one in found.hunks)
    for hunk in found.hunks:
        for digits in (4, 8, 16, 31):
            assert not found_by(found.chosen, hunk.id[:digits])


def found_by(chosen: Callable[[list[str]], object], digits: str) -> bool:
    try:
        return bool(chosen([digits]))
    except DecisionRefused:
        return False


@pytest.mark.parametrize("digits", [4, 8, 16, 24, 31])
def test_two_files_of_python_are_never_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: int) -> None:
    """Digests that share so many digits are put in the place of the real ones."""
    made = iter("0" * digits + sign * (64 - digits) for sign in "12")

    class Digest:
        def __init__(self, _: bytes) -> None:
            self.digest = next(made)

        def hexdigest(self) -> str:
            return self.digest

    monkeypatch.setattr("llm_do_temporal.definitions.tools.authors_code.hashlib.sha256", Digest)
    modules = list[ModuleType]()
    for number in (1, 2):
        path = tmp_path / f"tools{number}.py"
        path.write_text(f"value = {number}\n")
        file = PythonFile(path=path, root=tmp_path, text=path.read_text(), sha256=str(number))
        modules.append(load_python(file))
    assert [module.value for module in modules] == [1, 2]
