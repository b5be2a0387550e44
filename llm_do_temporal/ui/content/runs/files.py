"""Files of a run: those that it was given, and those that file tools and reviews have written, with their addresses."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from llm_do_temporal.client.record.facts import RunFacts, WrittenFile, last_written
from llm_do_temporal.client.record.tracks import Track
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.ui.content.urls import given_file_address, written_file_address

_ORDINARY = "application/octet-stream"
_TEXTS = frozenset(
    (".md", ".txt", ".csv", ".json", ".yaml", ".yml", ".py", ".worker", ".html", ".xml", ".toml", ".log")
)
"""Suffixes of files that are shown as plain text, whatever a browser would make of them."""


@dataclass(frozen=True)
class FileLine:
    """File in the record of a run."""

    name: str
    bytes: int
    address: str | None
    """Address at which it is shown; None where its bytes are not on the page's machine."""
    by: str = ""
    """Position in the tree of the invocation that wrote it; empty for one that was given."""
    created: bool = False


@dataclass(frozen=True)
class RunFiles:
    """Files of a run."""

    given: tuple[FileLine, ...]
    written: tuple[FileLine, ...]
    more: int
    """Files that reviews have made besides these, and that the histories do not name."""
    unread: int
    """Invocations whose files are not known here, as their histories were not read."""


def files_of(run: str, facts: RunFacts, tracks: Sequence[Track], size: int, workshop: Path | None) -> RunFiles:
    """Return the files of a run of `size` invocations, of which these tracks were read."""
    given = {one.sha256: one for one in facts.all_attachments}
    written = last_written([file for track in tracks for file in track.files])
    whole = sum(track.read_from is None for track in tracks)
    return RunFiles(
        tuple(_given(run, one, workshop) for one in given.values()),
        tuple(_written(run, one, workshop) for one in written),
        sum(track.more_files for track in tracks),
        max(0, size - whole),
    )


def as_attachment(file: WrittenFile, data: bytes) -> Attachment:
    """Return what a page says of the file when it sends these bytes; its digest is of no use there."""
    return Attachment(path=file.place.path, sha256="0" * 64, bytes=len(data), media_type=media_type_of(file.place.path))


def media_type_of(path: str) -> str:
    """Return the media type by which a page shows a file: text as plain text, pictures and PDF as they are."""
    suffix = Path(path).suffix.lower()
    if suffix in _TEXTS or not suffix:
        return "text/plain"
    return mimetypes.guess_type(path)[0] or _ORDINARY


def _given(run: str, file: Attachment, workshop: Path | None) -> FileLine:
    address = None if workshop is None else given_file_address(run, file.sha256)
    return FileLine(file.path, file.bytes, address)


def _written(run: str, file: WrittenFile, workshop: Path | None) -> FileLine:
    query = urlencode({"file": file.place.path, "by": file.by})
    address = None if workshop is None else f"{written_file_address(run)}?{query}"
    return FileLine(file.place.path, file.bytes, address, file.by, file.created)
