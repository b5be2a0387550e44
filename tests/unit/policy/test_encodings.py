"""Encodings that byte order marks name, and the place at which a text is not UTF-8."""

from __future__ import annotations

import random

import pytest

from llm_do_temporal.policy.files.encodings import (
    NotText,
    decoded,
    encoding_of,
    given_text,
    is_replaced,
    replaced,
    wrong_place,
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["", "Grüße; 1.234,50 €\r\n", "日本語\u2028😀"])
def test_a_text_is_read_in_the_encoding_that_its_mark_names(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding)) == text


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"\xff\xfea\0", "utf-16"),
        (b"\xfe\xff\0a", "utf-16"),
        (b"\xff\xfe\0\0a\0\0\0", "utf-32"),
        (b"\0\0\xfe\xff\0\0\0a", "utf-32"),
        (b"a\0", "utf-8"),
    ],
)
def test_both_byte_orders_are_known(data: bytes, encoding: str) -> None:
    assert encoding_of(data) == encoding


def test_the_line_and_the_byte_that_are_not_utf_8_are_named() -> None:
    with pytest.raises(UnicodeDecodeError) as raised:
        decoded("one\ntwo Müller".encode("cp1252"))
    assert wrong_place(raised.value) == "line 2 has the byte 0xfc"


@pytest.mark.parametrize(
    ("data", "words", "advice"),
    [
        ("one\ntwo Müller".encode("cp1252"), r"line 2 has the byte 0xfc", "-f WINDOWS-1252"),
        ("one\ntwo".encode("utf-16-le"), r"line 1 has a NUL character", "-f UTF-16LE"),
        (b"one\ntwo\0", r"line 2 has a NUL character", "-f UTF-16LE"),
    ],
)
def test_what_somebody_gives_and_is_no_text_is_refused_with_advice(data: bytes, words: str, advice: str) -> None:
    with pytest.raises(NotText, match=words) as raised:
        given_text(data)
    assert advice in raised.value.next_step


def test_what_somebody_gives_is_read_without_its_mark() -> None:
    assert given_text("Größe".encode("utf-16")) == "Größe"


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
