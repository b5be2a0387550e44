"""What files are by their content, and which of them no reader could read."""

from __future__ import annotations

import pytest

from llm_do_temporal.policy.files.attachments import OLE, PDF, UNKNOWN, ZIP, file_doubt, flaw_of, is_taken, real_type

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
