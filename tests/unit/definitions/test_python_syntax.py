from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_do_temporal.definitions import python_syntax
from llm_do_temporal.definitions.python_syntax import parse_python


class Garbage:
    """What other code leaves behind: to finalize it, another thread's turn may come in the middle of a tree."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads that take turns all the time, and garbage that is looked for all the time."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("busy")
def test_threads_that_parse_at_once_disturb_each_other_in_no_tree() -> None:
    text = Path(python_syntax.__file__).read_text(encoding="utf-8") * 30

    def parse(_: int) -> int:
        Garbage()
        return len(parse_python(text).body)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(parse, range(80)))) == 1


@pytest.mark.parametrize("text", ["def", "\0", b"\xff"])
def test_what_is_no_python_is_refused_as_python_does(text: str | bytes) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        parse_python(text)
