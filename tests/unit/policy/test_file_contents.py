"""What files are by their content, and which of them no reader could read."""

from __future__ import annotations

import random

import pytest

from llm_do_temporal.policy.files.attachments import OLE, PDF, UNKNOWN, ZIP, file_doubt, flaw_of, is_taken, real_type
from llm_do_temporal.policy.files.encodings import (
    NotText,
    decoded,
    encoding_of,
    given_text,
    is_replaced,
    replaced,
    wrong_place,
)

PNG = b"\x89PNG\r\n\x1a\n"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
DOCUMENT = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PACKED = b"PK\x03\x04....[Content_Types].xml...."
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
BOX = b"\0\0\0\x20ftyp"
CUT = "it was cut: its end is missing"
LOCKED = "it is encrypted with a password"
OTHER = "its content is not what its name says"


@pytest.mark.parametrize(
    ("data", "declared", "real"),
    [
        (b"%PDF-1.7", "image/png", PDF),
        # what mail programs put before it does not count, where the name says so, too
        (b"\n\n%PDF-1.7", PDF, PDF),
        (b"how to read %PDF-1.7", "text/plain", "text/plain"),
        (b"\xef\xbb\xbf <!DOCTYPE HTML>", PDF, "text/html"),
        (b"\n<html lang=de>", "image/jpeg", "text/html"),
        ("ärgerlich".encode(), "image/png", "text/plain"),
        ("ä".encode("utf-16"), "image/png", "text/plain"),
        (b"a\0b", PDF, UNKNOWN),
        (b"\xe4", SHEET, UNKNOWN),
        (PNG, "image/jpeg", "image/png"),
        (b"GIF89a", "image/png", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "image/png", "image/webp"),
        (b"RIFF1234WAVE", "audio/mpeg", "audio/wav"),
        (b"RIFF1234AVI ", "image/png", "text/plain"),
        (BOX + b"heic", "image/jpeg", "image/heic"),
        (BOX + b"mif1", "image/png", "image/heif"),
        (BOX + b"avif", "image/png", "image/avif"),
        (BOX + b"isom", "image/png", "video/mp4"),
        (PACKED, SHEET, ZIP),
        (PACKED + b"xl/workbook.xml", ZIP, SHEET),
        (PACKED + b"word/document.xml", SHEET, DOCUMENT),
        (b"PK\x03\x04xl/workbook.xml", SHEET, ZIP),
        (b"PK\x03\x04....mimetypeapplication/epub+zip", ZIP, "application/epub+zip"),
        (COMPOUND, "application/vnd.ms-excel", "application/vnd.ms-excel"),
        (COMPOUND, SHEET, OLE),
        (b"\0\x05\x16\x07\0\2", PDF, "application/applefile"),
        (b"\0\x05\x16\x07\0\2", "text/csv", "application/applefile"),
        # nothing is known of the content of these
        (b"whatever", "audio/mpeg", "audio/mpeg"),
        (b"\0", "application/x-unheard-of", "application/x-unheard-of"),
    ],
)
def test_content_says_what_a_file_is(data: bytes, declared: str, real: str) -> None:
    assert real_type(data, declared) == real


@pytest.mark.parametrize(
    ("data", "media_type", "flaw"),
    [
        (b"", PDF, "it is empty"),
        (b"\0", UNKNOWN, OTHER),
        (
            b"\0\x05\x16\x07",
            "application/applefile",
            "it has what macOS notes about another file, whose name has no '._'",
        ),
        (b"%PDF-1.7 startxref 9 %%EOF\n\0\0", PDF, ""),
        (b"%PDF-1.7 " + b"%%EOF" + b"x" * 9_000, PDF, CUT),
        (b"%PDF-1.7 trailer << /Encrypt 5 0 R >> %%EOF", PDF, LOCKED),
        (b"%PDF-1.7 trailer << /Encrypt<< /EncryptMetadata false >> >> %%EOF", PDF, LOCKED),
        (b"%PDF-1.7 (about /Encrypt and /EncryptMetadata) %%EOF", PDF, ""),
        (PNG + b"...IEND", "image/png", ""),
        (PNG, "image/png", CUT),
        (b"\xff\xd8\xff\xe0\0\x04ab\xff\xda.......\xff\xd9", "image/jpeg", ""),
        # the small picture within its facts has an end
        (b"\xff\xd8\xff\xe1\0\x06\xff\xd9ab\xff\xda.......", "image/jpeg", CUT),
        (b"\xff\xd8\xff\xe1", "image/jpeg", CUT),
        (b"GIF89a...;\0", "image/gif", ""),
        (b"GIF89a...", "image/gif", CUT),
        (b"RIFF\x08\0\0\0WEBPVP8 ", "image/webp", ""),
        (b"RIFF\x09\0\0\0WEBPVP8 ", "image/webp", CUT),
        (PACKED + b"PK\x05\x06" + bytes(18), SHEET, ""),
        (PACKED, SHEET, CUT),
        (COMPOUND + "EncryptedPackage".encode("utf-16-le"), OLE, LOCKED),
        (COMPOUND, OLE, ""),
        (b"text", "text/plain", ""),
    ],
)
def test_a_file_that_nobody_could_read_is_known_by_its_bytes(data: bytes, media_type: str, flaw: str) -> None:
    assert flaw_of(data, media_type) == flaw


def test_a_file_that_may_be_sent_is_doubted_for_its_flaw_or_its_name() -> None:
    assert file_doubt(b"%PDF-1.7", PDF) == CUT
    assert file_doubt(BOX + b"heic", "image/jpeg") == "its content is image/heic, not image/jpeg"
    assert file_doubt(PNG + b"IEND", "image/png") == ""
    # Nobody has said what it is.
    assert file_doubt(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 mail", UNKNOWN) == ""


@pytest.mark.parametrize(
    ("adapter", "media_type", "taken"),
    [
        ("AnthropicModel", "image/webp", True),
        ("AnthropicModel", "image/heic", False),
        ("AnthropicModel", SHEET, False),
        ("GoogleModel", "image/heic", True),
        ("GoogleModel", "image/gif", False),
        ("GoogleModel", "audio/ogg", True),
        ("OpenAIChatModel", "audio/mpeg", True),
        ("OpenAIChatModel", "audio/ogg", False),
        ("OpenAIResponsesModel", "audio/mpeg", False),
        ("OpenAIResponsesModel", SHEET, True),
        ("OpenAIResponsesModel", ZIP, False),
        ("OpenAIResponsesModel", "image/tiff", False),
        # nothing is known of this one
        ("NovelModel", "image/tiff", True),
    ],
)
def test_an_adapter_takes_what_its_protocol_has_a_form_for(adapter: str, media_type: str, taken: bool) -> None:
    assert is_taken(["Derived", adapter, "Model"], media_type) is taken


@pytest.mark.parametrize(
    ("data", "real"),
    [
        (PACKED + b"xl/workbook.xml\0", SHEET),
        (b"PK\x03\x04\0", ZIP),
        (COMPOUND + b"\0", OLE),
        # the beginning of a text may be that of another file
        ("ID3;Größe".encode("cp1252"), "text/csv"),
        (b"PK\x03\x04", "text/csv"),
        ("ä;b".encode("utf-16-le"), "text/csv"),
    ],
)
def test_an_office_file_is_no_text_whatever_it_is_called(data: bytes, real: str) -> None:
    assert real_type(data, "text/csv") == real
    assert (file_doubt(data + b"PK\x05\x06", "text/csv") == f"its content is {real}, not text/csv") == (
        real != "text/csv"
    )


@pytest.mark.parametrize(
    ("data", "lost"),
    [
        ("Größe".encode(), ""),
        ("Größe".encode("utf-16"), ""),
        ("Größe �".encode(), ""),
        ("Größe".encode("cp1252"), "not all of it is text in UTF-8: 2 places are shown as �"),
        ("ab".encode("utf-16-le"), "2 NUL characters are left out: it may be UTF-16 without a byte order mark"),
    ],
)
def test_what_a_text_loses_is_told(data: bytes, lost: str) -> None:
    assert file_doubt(data, "text/csv") == lost


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
