"""The texts of an edit fit the line ends of the file, whichever these are."""

from __future__ import annotations

import random

import pytest

from llm_do_temporal.policy.files.line_ends import is_replaced, replaced


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "\nx\nb", "a\r\nx\r\nb\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\nc", "c", "c\nd", "a\r\nb\r\nc\r\nd"),
        ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
        ("a\rb\rc", "a\nb", "x\ny\nz", "x\ry\rz\rc"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "x\ny\nz", "x\r\ny\nz\r\n"),
        ("a\r\nb\nc\n", "b", "b\nB", "a\r\nb\nB\nc\n"),
        ("\ufeffa\r\nb\r\n", "a\nb", "c\nd", "\ufeffc\r\nd\r\n"),
        ("a\r\n\r\nb", "a\n\nb", "a\nb", "a\r\nb"),
        ("a\nb", "a\n", "a\r\n", "a\r\nb"),
        ("a\r\nb", "a\r\n", "a\n", "a\nb"),
        ("a", "a", "a\nb", "a\nb"),
        ("\r\n", "\n", "\n\n", "\r\n\r\n"),
    ],
)
def test_an_edit_keeps_the_line_ends_that_are_there(text: str, old: str, new: str, result: str) -> None:
    assert replaced(text, old, new) == (1, result)
    assert is_replaced(result, old, new)
    assert not is_replaced(text, old, new)


@pytest.mark.parametrize(
    ("text", "old", "count"),
    [("a\r\nb", "a\n\nb", 0), ("a\nb\r\na\r\nb", "a\nb", 2), ("a\r\na\r\na", "a\na", 2), ("a\r\nb", "a\nb\n", 0)],
)
def test_a_text_that_names_no_one_place_is_counted(text: str, old: str, count: int) -> None:
    assert replaced(text, old, "x") == (count, text)


def test_what_stands_around_an_edit_stays_as_it_is() -> None:
    chance = random.Random(7)
    marks = ["", "ä", "\x85", "😀"]
    for _ in range(2_000):
        lines = [f"<{number}>{chance.choice(marks)}" for number in range(chance.randint(1, 8))]
        ends = [chance.choice(["\n", "\r\n", "\r"]) for _ in lines]
        first = chance.randrange(len(lines))
        last = chance.randint(first, len(lines) - 1)
        old = "\n".join(lines[first : last + 1])
        new = "\n".join(f"[{number}]" for number in range(last - first + 1))
        wanted = [*lines[:first], *new.split("\n"), *lines[last + 1 :]]
        text = "".join(line + end for line, end in zip(lines, ends, strict=True))
        result = "".join(line + end for line, end in zip(wanted, ends, strict=True))
        assert replaced(text, old, new) == (1, result)
