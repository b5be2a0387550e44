"""JSON values of results that have no end."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from llm_do_temporal.definitions.tools.python_functions import plain_value

MOST = 100_000


def lines() -> Iterator[dict[str, str]]:
    while True:
        yield {"line": "x" * 50}


@dataclass(frozen=True, slots=True)
class Found:
    items: Any


class Page(BaseModel):
    model_config = ConfigDict(extra="allow")
    items: Any = None


class Names(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        return int(name)

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 1


ENDLESS: dict[str, Callable[[], Any]] = {
    "numbers": itertools.count,
    "objects": lines,
    "long texts": lambda: itertools.repeat("x" * 30_000),
    "nothing": lambda: itertools.repeat(None),
    "iterators": lambda: (lines() for _ in itertools.count()),
    "names": Names,
    "below a key": lambda: {"a": [lines()]},
    "in a field": lambda: Found(lines()),
    "numbers in a field": lambda: Found(itertools.count()),
    "in a model": lambda: Page(items=itertools.count()),
    "in a model of a model": lambda: [Page(items=[Page(items=lines())])],
    "in a key of no field": lambda: Page.model_validate({"more": itertools.count()}),
    "in a queue": lambda: Found(deque([lines()])),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_is_read_up_to_its_bound(kind: str) -> None:
    text = json.dumps(plain_value(ENDLESS[kind](), most=MOST))
    assert MOST / 2 < len(text) < 30 * MOST
    assert "too many values" in text


WHOLE: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "queue": deque,
    "field": Found,
    "model": lambda items: Page(items=items),
    "iterator": iter,
}


@pytest.mark.parametrize("kind", WHOLE)
def test_what_has_an_end_is_whole(kind: str) -> None:
    """Its text may have more bytes than the bound where it is there already."""
    given = ["x" * 10] * (5_000 if kind == "iterator" else 50_000)
    value: Any = plain_value(WHOLE[kind](given), most=MOST)
    items: Any = value["items"] if kind in ("field", "model") else value
    assert items == given


def test_a_value_that_holds_itself_is_looked_at_once() -> None:
    page = Page()
    page.items = [page, iter([1])]
    assert plain_value(page, most=MOST) == {"items": ["[refers to itself]", [1]]}
