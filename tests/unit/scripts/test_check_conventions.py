"""Conventions are checked as they are written down, and a violation fails the check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.check_conventions import (
    check_class_names,
    check_first_words,
    check_module_names,
    check_test_imports,
    check_test_names,
    import_circle,
    main,
    read_sources,
)


def write(root: Path, **files: str) -> None:
    """Write files of a project; `__` in a name stands for a slash."""
    for name, source in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def test_an_empty_project_and_a_long_module_are_fine(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    write(tmp_path, llm_do_temporal__planted='"""Docstring."""\n' + "x = 1\n" * 5000)
    assert main([str(tmp_path)]) == 0


def test_what_is_not_the_projects_own_is_not_checked(tmp_path: Path) -> None:
    write(tmp_path, build__growing='"""What is no docstring."""\n')
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["growing", "file_handing"])
def test_a_module_is_named_by_a_noun(tmp_path: Path, name: str) -> None:
    write(tmp_path, **{f"worker_service__{name}": "", "llm_do_temporal__pricing": "", "llm_do_temporal__tool": ""})
    write(tmp_path, tests__unit__test_compiling="", llm_do_temporal__run_listing="")
    (violation,) = check_module_names(read_sources(tmp_path))
    assert str(violation) == f"{tmp_path}/worker_service/{name}.py:1: {name}.py is not named by a noun"
    assert main([str(tmp_path)]) == 1


def test_a_public_class_name_means_one_class(tmp_path: Path) -> None:
    write(tmp_path, llm_do_temporal__a="class Page: ...\nclass _Row: ...\n", scripts__b="class Page: ...\n")
    write(tmp_path, llm_do_temporal__b="class _Row: ...\nclass Other:\n    class Page: ...\n")
    assert list(check_class_names(read_sources(tmp_path))) == []
    write(tmp_path, worker_service__c="\nclass Page: ...\n")
    (violation,) = check_class_names(read_sources(tmp_path))
    assert str(violation) == (
        f"{tmp_path}/worker_service/c.py:2: Page is also the name of a class in {tmp_path}/llm_do_temporal/a.py"
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""What came of it."""\n', 1),  # a module
        ('class A:\n    """One blow."""\n', 2),
        ('def f() -> None:\n    """Of a store."""\n', 2),
        ('async def f() -> None:\n    """`whom` to ask."""\n', 2),  # in quotes, in lower case
        ('MOST = 1\n"""That many."""\n', 2),
        ('class A:\n    most: int = 1\n    """It and more."""\n', 3),
        ('def f() -> None:\n    def g() -> None:\n        """As before."""\n', 3),
    ],
)
def test_a_docstring_begins_with_a_noun_or_a_verb(tmp_path: Path, source: str, line: int) -> None:
    write(tmp_path, worker_service__planted=source, scripts__planted=source)
    (violation,) = check_first_words(read_sources(tmp_path))
    assert violation.path == tmp_path / "worker_service/planted.py"
    assert violation.line == line


@pytest.mark.parametrize(
    "source",
    [
        '"""Whatever."""\n',  # a longer word
        '"""Largest of them: what it is."""\n',  # only the first word counts
        'f()\n"""What is no docstring."""\n',
        'TEXT = """What a text says."""\n',
    ],
)
def test_what_begins_with_no_riddle_is_fine(tmp_path: Path, source: str) -> None:
    write(tmp_path, worker_service__planted=source)
    assert list(check_first_words(read_sources(tmp_path))) == []


def test_functions_of_commands_are_written_for_the_help(tmp_path: Path) -> None:
    write(tmp_path, llm_do_temporal__cli__commands__start='def start() -> None:\n    """In a terminal, start."""\n')
    assert list(check_first_words(read_sources(tmp_path))) == []
    write(tmp_path, llm_do_temporal__cli__commands__start='"""What starts."""\n')
    assert len(list(check_first_words(read_sources(tmp_path)))) == 1


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("from tests.unit.test_a import told", "tests.unit.test_a"),
        ("from tests.unit import test_a", "tests.unit.test_a"),
        ("import tests.unit.test_a", "tests.unit.test_a"),
        ("from tests.e2e.conftest import Desk", "tests.e2e.conftest"),
        ("from tests.e2e import conftest", "tests.e2e.conftest"),
        ("def f() -> None:\n    from tests.unit.test_a import told", "tests.unit.test_a"),
    ],
)
def test_no_test_imports_another(tmp_path: Path, statement: str, module: str) -> None:
    write(tmp_path, tests__unit__test_b=f"from tests.support.runs import place\n{statement}\n")
    (violation,) = check_test_imports(read_sources(tmp_path))
    assert violation.text == f"imports {module}; what tests share is in tests/support"
    assert main([str(tmp_path)]) == 1


def test_no_two_unit_tests_have_one_name(tmp_path: Path) -> None:
    write(tmp_path, tests__unit__cli__test_a="", tests__unit__ui__test_b="", tests__e2e__test_a="")
    assert list(check_test_names(read_sources(tmp_path))) == []
    write(tmp_path, tests__unit__ui__test_a="")
    (violation,) = check_test_names(read_sources(tmp_path))
    assert violation.text == f"test_a.py is also the name of {tmp_path}/tests/unit/cli/test_a.py"


@pytest.mark.parametrize(
    ("modules", "circle"),
    [
        ({"top": "from P import middle, low\n", "middle": "import P.low\n", "low": ""}, ""),
        *(
            ({"top": "from P.low import other\n", "low": back}, "low > top > low")
            for back in (
                "import P.top\n",
                "from P import top\n",
                "from P.top import name\n",
                "from .top import name\n",
                "from . import top\n",
                "def late() -> None:\n    from P.top import name\n",  # hides the circle from Python
                "try:\n    import P.top\nexcept ImportError:\n    pass\n",
                "if TYPE_CHECKING:\n    pass\nelse:\n    import P.top\n",
            )
        ),
        ({"top": "import P.low\n", "low": "if TYPE_CHECKING:\n    import P.top\n"}, ""),  # for types alone
        (
            {
                "room/__init__": "from P.room.inner import name\n",
                "room/inner": "from P.room.other import name\n",
                "room/other": "name = 1\n",
            },
            "",
        ),
        (
            {"room/__init__": "from P.room.inner import name\n", "room/inner": "from P.room import other_name\n"},
            "room > room.inner > room",
        ),
        (
            {  # three in a row, of which two also have a circle of their own, and one above them
                "a": "import P.b\n",
                "b": "import P.c\n",
                "c": "import P.b\n",
                "top": "from P import a\n",
            },
            "b > c > b",
        ),
    ],
)
def test_a_circle_of_imports_is_found(
    modules: dict[str, str], circle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"planted_{abs(hash(str(modules)))}"  # Python remembers where a package lies
    for name, source in {"__init__": "", **modules}.items():
        path = tmp_path / package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"\bP\b", package, source))
    monkeypatch.syspath_prepend(tmp_path)
    found = [name.removeprefix(f"{package}.") for name in import_circle(package)]
    turned = [found[place:-1] + found[:place] + [found[place]] for place in range(len(found) - 1)]
    assert (circle.split(" > ") in turned) if circle else not found
