"""Rules about the files that may be handed to a worker, the forms in which a model gets them, and their real types.

Judges facts that an activity looked up (path, size in bytes, media type, digest), and bytes: what a file is, and why a
provider would refuse it. Nothing here reads, parses or unpacks a file. The caller's policy and the callee's are both
applied; the tree's own rules (suffixes, largest file) belong to `sandbox`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.policy.files.encodings import has_mark, readable
from llm_do_temporal.policy.files.sandbox import Suffixes, has_suffix
from llm_do_temporal.policy.models import Accepts, Aliases, alias_of, full_name
from llm_do_temporal.policy.values import Value

DEFAULT_MAX_ATTACHMENTS = 4
DEFAULT_MAX_TOTAL_BYTES = 20_000_000


class AttachmentPolicy(Value):
    """`attachment_policy:` of a worker file. The defaults hold where a worker has none."""

    max_attachments: int = Field(default=DEFAULT_MAX_ATTACHMENTS, ge=0)
    max_total_bytes: int = Field(default=DEFAULT_MAX_TOTAL_BYTES, ge=0)
    allowed_suffixes: Suffixes = ()
    """Endings of names that are allowed; empty allows all."""
    denied_suffixes: Suffixes = ()


class Attachment(Value):
    """File as it was when it was attached: its bytes are in the blob store under the digest."""

    path: str
    """Name that the model and the person see: a virtual path, or a file name for files given to `start`."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    media_type: str
    place: str | None = Field(default=None, exclude_if=lambda given: given is None)
    """Real path, relative to the workshop, links followed; None where that is not known."""


class AttachmentPaths(Value):
    """`attachments:` of a worker file: other spellings of paths that its model gives as attachments."""

    path_map: dict[str, str] = Field(default_factory=dict)
    """Paths in the worker's files, by the spelling that the model may give instead."""
    base_path: str | None = None
    """Folder at which relative paths begin, instead of `/`."""


def meant_path(paths: AttachmentPaths, given: str, *, names: Collection[str] = ()) -> str:
    """Return the path in the caller's files that `given` stands for; nothing is checked.

    `names` are the folders that may be written as `name:rest`; such a path is not a relative one.
    """
    known = {str(PurePosixPath(alias)): path for alias, path in paths.path_map.items()}
    mapped = known.get(str(PurePosixPath(given)))
    if mapped is not None:
        return mapped
    head, colon, _ = given.partition(":")
    named = bool(colon) and head in names
    if paths.base_path is None or given.startswith("/") or named:
        return given
    return f"{paths.base_path.rstrip('/')}/{given}"


def check_attachment_names(policy: AttachmentPolicy, paths: Sequence[str], *, whose: str) -> None:
    """Check the number and the suffixes of files, which are known without looking at them.

    `whose` names the policy in the message. Raises AttachmentRefusal.
    """
    if len(paths) > policy.max_attachments:
        raise AttachmentRefusal(
            f"{_files(len(paths))} attached, but {whose} accepts at most {policy.max_attachments} (max_attachments)"
        )
    for path in paths:
        if policy.denied_suffixes and has_suffix(path, policy.denied_suffixes):
            raise AttachmentRefusal(f"'{path}' has a suffix that {whose} denies: {', '.join(policy.denied_suffixes)}")
        if policy.allowed_suffixes and not has_suffix(path, policy.allowed_suffixes):
            raise AttachmentRefusal(
                f"'{path}' has a suffix that {whose} does not accept; accepted: {', '.join(policy.allowed_suffixes)}"
            )


def check_attachments(policy: AttachmentPolicy, attachments: Sequence[Attachment], *, whose: str) -> None:
    """Check the whole policy against files that were looked up. Raises AttachmentRefusal."""
    check_attachment_names(policy, [attachment.path for attachment in attachments], whose=whose)
    check_total(policy, [attachment.bytes for attachment in attachments], whose=whose)


def check_total(policy: AttachmentPolicy, sizes: Sequence[int], *, whose: str) -> None:
    """Check the bytes of all files together. Raises AttachmentRefusal."""
    total = sum(sizes)
    if total > policy.max_total_bytes:
        raise AttachmentRefusal(
            f"{_files(len(sizes))} of together {total} bytes attached, but {whose} accepts at most "
            f"{policy.max_total_bytes} (max_total_bytes)"
        )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


AttachmentsAs = Literal["native", "text", "auto"]
Form = Literal["native", "text"]

_TEXT_TYPES = frozenset({"application/json", "application/yaml", "application/xml", "application/javascript"})
_FAMILIES = frozenset({"anthropic", "azure", "bedrock", "google", "offline", "openai", "openrouter", "test"})
"""Providers that take PDFs and images as they are; `openai-chat` and `google-cloud` belong to the families."""
EVERYTHING: frozenset[Accepts] = frozenset({"text", "pdf", "image"})
TEXT_ONLY: frozenset[Accepts] = frozenset({"text"})
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TAKEN: dict[str, tuple[str, ...]] = {
    "AnthropicModel": (*_PICTURES, "application/pdf"),
    "BedrockConverseModel": (*_PICTURES, "application/", "video/"),
    "GoogleModel": (
        *(_PICTURES - {"image/gif"}),
        "image/heic",
        "image/heif",
        "application/pdf",
        "audio/",
        "video/",
    ),
    "GroqModel": (*_PICTURES,),
    "HuggingFaceModel": (*_PICTURES,),
    "MistralModel": (*_PICTURES, "application/pdf"),
    "OpenAIChatModel": (*_PICTURES, "application/", "audio/wav", "audio/mpeg"),
    "OpenAIResponsesModel": (*_PICTURES, "application/"),
    "OpenRouterModel": (*_PICTURES, "application/", "audio/wav", "audio/mpeg", "video/"),
}
"""Types of files that the protocol of an adapter has a form for; `audio/` are all that begin so."""


def accepted_files(aliases: Aliases, model: str) -> frozenset[Accepts]:
    """Return the kinds of files that a model takes: as its alias names them, else as known of its provider.

    A server behind an address of its own speaks a provider's protocol and is seldom that provider: text only.
    """
    alias = alias_of(aliases, model)
    if alias is not None and alias.accepts is not None:
        return frozenset(alias.accepts)
    if alias is not None and alias.base_url is not None:
        return TEXT_ONLY
    provider = full_name(aliases, model).partition(":")[0].removeprefix("gateway/")
    return EVERYTHING if provider.split("-")[0] in _FAMILIES else TEXT_ONLY


def kind_of(media_type: str) -> Accepts | None:
    """Return the kind of a file; None for a file that is neither text nor PDF nor image."""
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+xml", "+json")):
        return "text"
    if media_type == "application/pdf":
        return "pdf"
    return "image" if media_type.startswith("image/") else None


_ARCHIVES = frozenset(
    {
        "application/gzip",
        "application/octet-stream",
        "application/x-ole-storage",
        "application/x-tar",
        "application/zip",
    }
)
"""Types that no provider reads."""


def is_taken(adapters: Sequence[str], media_type: str) -> bool:
    """Return whether the protocol of an adapter takes files of a type as they are.

    `adapters` are the names of its class and of those it is derived from. An unknown one takes everything.
    """
    taken = next((_TAKEN[one] for one in adapters if one in _TAKEN), None)
    if taken is None:
        return True
    return media_type not in _ARCHIVES and any(
        media_type == one or (one.endswith("/") and media_type.startswith(one)) for one in taken
    )


def attachment_forms(
    attachments: Sequence[Attachment], wanted: AttachmentsAs, accepts: Collection[Accepts], *, model: str
) -> tuple[Form, ...]:
    """Return the form of each attachment for `model`. Raises AttachmentRefusal for a file without a form for it."""
    return tuple(_form(attachment, wanted, accepts, model) for attachment in attachments)


def _form(attachment: Attachment, wanted: AttachmentsAs, accepts: Collection[Accepts], model: str) -> Form:
    kind = kind_of(attachment.media_type)
    if kind == "text":
        # Providers have no form of their own for text: it is a part of the prompt either way.
        return "text"
    if wanted == "native":
        return "native"
    if kind == "image":
        if wanted == "text":
            raise AttachmentRefusal(
                f"'{attachment.path}' is an image and has no text, and attachments are given as text",
                next_step="Leave it out, or set `attachments_as: auto`.",
            )
        if "image" not in accepts:
            raise AttachmentRefusal(
                f"'{attachment.path}' is an image, and model '{model}' takes none",
                next_step="Choose a model that sees, or say `accepts: [text, image]` for it under `models:`.",
            )
        return "native"
    if wanted == "text":
        return "text"
    # Of files other than PDFs nothing is known: who takes documents is left to say what it does with them.
    return "native" if "pdf" in accepts else "text"


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
_ENCRYPTED = re.compile(rb"/Encrypt(?:\s{0,18}<<|\s{0,19}[0-9])")
"""Place in the trailer of a PDF that names how the file is encrypted."""
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
    return _LOCKED if _ENCRYPTED.search(data) else ""


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
