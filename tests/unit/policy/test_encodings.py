"""Encodings that byte order marks name, and the place at which a text is not UTF-8."""

from __future__ import annotations

import pytest

from llm_do_temporal.policy.files.encodings import NotText, decoded, encoding_of, given_text, wrong_place


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
