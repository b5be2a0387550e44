"""Circles of imports are found wherever the imports stand, and fail the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_rooms import import_circles, main

PACKAGE = "llm_do_temporal"


def plant(root: Path, modules: dict[str, str]) -> None:
    """Write modules of the package, each at its path without `.py`."""
    for name, source in modules.items():
        path = root / PACKAGE / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def circles(root: Path) -> list[str]:
    return [" > ".join(circle).replace(f"{PACKAGE}.", "") for circle in import_circles(root)]


def test_imports_that_only_go_down_are_fine(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {"top": "from llm_do_temporal import middle, low\n", "middle": "import llm_do_temporal.low\n", "low": ""},
    )
    assert circles(tmp_path) == []
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "back",
    [
        "import llm_do_temporal.top\n",
        "from llm_do_temporal import top\n",
        "from llm_do_temporal.top import name\n",
        "from .top import name\n",
        "from . import top\n",
        # an import inside a function hides the circle from Python
        "def late() -> None:\n    from llm_do_temporal.top import name\n",
        "try:\n    import llm_do_temporal.top\nexcept ImportError:\n    pass\n",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import llm_do_temporal.top\n",
    ],
)
def test_a_circle_is_found_however_the_import_is_written(tmp_path: Path, back: str) -> None:
    plant(tmp_path, {"top": "from llm_do_temporal.low import other\n", "low": back})
    assert circles(tmp_path) == ["low > top > low"]


def test_imports_for_types_alone_do_not_count(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "top": "import llm_do_temporal.low\n",
            "low": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import llm_do_temporal.top\n",
        },
    )
    assert circles(tmp_path) == []


def test_a_package_that_imports_its_own_modules_is_no_circle(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "room/__init__": "from llm_do_temporal.room.inner import name\n",
            "room/inner": "from llm_do_temporal.room.other import name\n",
            "room/other": "name = 1\n",
        },
    )
    assert circles(tmp_path) == []


def test_a_name_of_a_package_leads_to_the_package(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "room/__init__": "from llm_do_temporal.room.inner import name\n",
            "room/inner": "from llm_do_temporal.room import other_name\n",
        },
    )
    assert circles(tmp_path) == ["room > room.inner > room"]


def test_every_knot_is_shown_by_its_shortest_circle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(
        tmp_path,
        {  # three in a row, of which two also have a circle of their own
            "a": "import llm_do_temporal.b\n",
            "b": "import llm_do_temporal.c\n",
            "c": "import llm_do_temporal.a\nimport llm_do_temporal.b\n",
            # another knot
            "x": "import llm_do_temporal.y\n",
            "y": "import llm_do_temporal.x\n",
            # above both
            "top": "from llm_do_temporal import a, x\n",
        },
    )
    assert circles(tmp_path) == ["b > c > b", "x > y > x"]
    assert main([str(tmp_path)]) == 1
    assert "circle of imports: llm_do_temporal.b -> llm_do_temporal.c -> llm_do_temporal.b\n" in capsys.readouterr().out
