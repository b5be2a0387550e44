"""Types and flaws of attached files by their content, whatever their names say.

Judges bytes: what a file is, and why a provider would refuse it. Nothing here reads, parses or unpacks a file.
"""

from __future__ import annotations

import codecs
from itertools import chain

from llm_do_temporal.policy.files.attachment_forms import kind_of
from llm_do_temporal.policy.files.encodings import has_mark, readable

PDF = "application/pdf"
UNKNOWN = "application/octet-stream"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
_MAC_NOTES = "application/applefile"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPENED = {
    b"word/": f"{_OFFICE}wordprocessingml.document",
    b"xl/": f"{_OFFICE}spreadsheetml.sheet",
    b"ppt/": f"{_OFFICE}presentationml.presentation",
}
"""Folders in the archives of office programs, with the types of these files."""
_NAMED = ("application/vnd.oasis.opendocument.text", "application/epub+zip")
"""Archives that begin with their own type."""
_OLD_OFFICE = ("application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint")
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", PDF),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"\0\x05\x16\x07", _MAC_NOTES),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_BRANDS = {
    "image/heic": (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"),
    "image/heif": (b"mif1", b"msf1"),
    "image/avif": (b"avif", b"avis"),
    "audio/mp4": (b"M4A ",),
    "video/quicktime": (b"qt  ",),
}
"""Types of files that name their own kind after `ftyp`; any other is a video."""
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_SIGNED = frozenset(
    chain((kind for _, kind in _SIGNATURES), _BRANDS, _RIFF.values(), _OPENED.values(), _NAMED, _OLD_OFFICE)
) - {"audio/mpeg", "audio/mp4", "video/quicktime"}
"""Types whose files always begin with a known signature."""
_HEAD_BYTES, _TAIL_BYTES = 1024, 4096
"""Bytes in which readers of PDFs look for the beginning and for the end."""
_ARCHIVE_END_BYTES = 22 + 65_535
"""Bytes in which the end of an archive begins: it has a comment of at most 65,535 bytes."""
_CUT = "it was cut: its end is missing"
_LOCKED = "it is encrypted with a password"


def real_type(data: bytes, declared: str) -> str:
    """Return the media type of a file by its content.

    That is `declared` where its files need not begin with a signature, and UNKNOWN where they do and this one does not.
    A text that begins as other files do, and has no NUL, is a text all the same.
    """
    found = _signed(data, declared)
    if found is not None and (kind_of(declared) != "text" or b"\0" in data):
        return found
    if declared == PDF and b"%PDF-" in data[:_HEAD_BYTES]:
        return PDF
    if declared not in _SIGNED:
        return declared
    head = data[:_HEAD_BYTES].lstrip(codecs.BOM_UTF8 + b" \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "text/plain" if _is_text(data) else UNKNOWN


def flaw_of(data: bytes, media_type: str) -> str:
    """Return why no reader of files of this type could read this one, as a clause; empty where nothing is known."""
    if not data:
        return "it is empty"
    if media_type == UNKNOWN:
        return "its content is not what its name says"
    if media_type == _MAC_NOTES:
        return "it has what macOS notes about another file, whose name has no '._'"
    if media_type == PDF:
        return _flaw_of_pdf(data)
    if media_type == OLE and "EncryptedPackage".encode("utf-16-le") in data:
        return _LOCKED
    return _CUT if _is_cut(data, media_type) else ""


def file_doubt(data: bytes, declared: str) -> str:
    """Return what is wrong with a file that may be sent as it is, or as its text, as a clause; empty for nothing."""
    real = real_type(data, declared)
    if real == declared and kind_of(real) == "text":
        return readable(data)[1]
    return flaw_of(data, real) or ("" if declared in (real, UNKNOWN) else f"its content is {real}, not {declared}")


def _signed(data: bytes, declared: str) -> str | None:
    kind = next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), None)
    if kind == ZIP:
        return _kind_of_archive(data)
    if kind == OLE:
        return declared if declared in _OLD_OFFICE else OLE
    if kind is not None:
        return kind
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return next((kind for kind, brands in _BRANDS.items() if data[8:12] in brands), "video/mp4")
    return None


def _kind_of_archive(data: bytes) -> str:
    """Return the type of an archive; the names of its files stand in it as they are."""
    named = next((kind for kind in _NAMED if f"mimetype{kind}".encode() in data[:_HEAD_BYTES]), None)
    if named is not None:
        return named
    if b"[Content_Types].xml" not in data:
        return ZIP
    return next((kind for folder, kind in _OPENED.items() if folder in data), ZIP)


def _is_text(data: bytes) -> bool:
    if has_mark(data):
        return True
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _flaw_of_pdf(data: bytes) -> str:
    end = data.rstrip(b"\0\r\n\t ")[-_TAIL_BYTES:]
    if b"%%EOF" not in end and b"startxref" not in end:
        return _CUT
    return _LOCKED if _is_locked(data) else ""


def _is_locked(data: bytes) -> bool:
    """Whether the trailer of a PDF names how the file is encrypted."""
    place = data.rfind(b"/Encrypt")
    while place >= 0:
        begin = place + len(b"/Encrypt")
        follows = data[begin : begin + 20].lstrip()
        if follows.startswith(b"<<") or follows[:1].isdigit():
            return True
        place = data.rfind(b"/Encrypt", 0, place)
    return False


def _is_cut(data: bytes, media_type: str) -> bool:
    if media_type == "image/png":
        return b"IEND" not in data[8:]
    if media_type == "image/jpeg":
        return _is_cut_jpeg(data)
    if media_type == "image/gif":
        return not data.rstrip(b"\0").endswith(b";")
    if media_type == "image/webp":
        return int.from_bytes(data[4:8], "little") + 8 > len(data)
    is_archive = data.startswith(b"PK")
    return is_archive and b"PK\x05\x06" not in data[-_ARCHIVE_END_BYTES:]


def _is_cut_jpeg(data: bytes) -> bool:
    """Whether a JPEG lacks its picture or its end; a small picture within its facts has an end of its own."""
    place = 2
    while data[place : place + 1] == b"\xff" and data[place + 1 : place + 2] != b"\xda":
        place += 2 + int.from_bytes(data[place + 2 : place + 4])
    return b"\xff\xd9" not in data[place:]
