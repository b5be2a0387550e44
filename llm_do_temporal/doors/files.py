"""Files of runs for programs: those that a run was given, and those that its file tools and reviews have written."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.record.facts import WrittenFile, last_written, read_facts, read_files, written_bytes
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.doors.values import RunFile, SentFile, mistakes_in
from llm_do_temporal.encryption.codec import ring_of
from llm_do_temporal.errors import ConnectionFailed, KeyMismatch, LlmDoError, UnknownHere, UsageError
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.storage.snapshots import suffix_of

_AT_ONCE = 16
"""Histories of a run that are read side by side; a batch has one for each of its items."""


def sent_files(given: Iterable[tuple[str, str]]) -> tuple[SentFile, ...]:
    """Return files of these names and contents in base64; of two with one name the later gets a number.

    Raises UsageError for what cannot be attached.
    """
    found: dict[str, SentFile] = {}
    for asked, content in given:
        name, copy = asked, 1
        while name in found:
            copy += 1
            name = f"{copy}-{asked}"
        try:
            found[name] = SentFile.model_validate({"name": name, "content": content})
        except ValidationError as error:
            raise UsageError(f"{name[:80]!a} cannot be attached: {mistakes_in(error.errors())}") from None
    return tuple(found.values())


def name_of_part(kind: str, place: int, media_type: str) -> str:
    """Return the name of a file that is a part of a message and has none of its own, like `image-2.png`."""
    return f"{kind}-{place}{suffix_of(media_type)}"


async def list_files(client: LlmDoClient, run: str) -> list[RunFile]:
    """Return the files of the run, the given ones first. Raises UsageError for an unknown run."""
    given, written = await _given(client, run), await _written(client, run)
    found: list[RunFile] = []
    for name, one in given.items():
        found.append(RunFile(name=name, origin="given", bytes=one.bytes, media_type=one.media_type))
    for one in written:
        name = one.place.path
        found.append(RunFile(name=name, origin="written", bytes=one.bytes, media_type=_media_type(name)))
    return found


async def read_file(
    client: LlmDoClient, workshop: Path, run: str, origin: str, name: str, *, as_left: bool
) -> tuple[bytes, str]:
    """Return the bytes of one of these files, and its media type; of a written one as it is now.

    Raises UnknownHere, ConnectionFailed where the server or the blob store does not answer, and KeyMismatch.
    `as_left`: a written one that is not any more as the run has left it is not found.
    """
    unknown = UnknownHere(f"run '{run}' has no such file as '{name[:200]}', or not any more")
    try:
        if origin == "given":
            attachment = (await _given(client, run)).get(name)
            if attachment is None:
                raise unknown
            blobs = await asyncio.to_thread(workshop_blobs, workshop, ring_of(client.temporal.data_converter))
            return await asyncio.to_thread(blobs.read, attachment.sha256), attachment.media_type
        found = next((one for one in await _written(client, run) if one.place.path == name), None)
        if found is None:
            raise unknown
        data = await asyncio.to_thread(written_bytes, workshop, found.place)
        if as_left and hashlib.sha256(data).hexdigest() != found.sha256:
            raise unknown
        return data, _media_type(name)
    except (ConnectionFailed, KeyMismatch):
        raise
    except (LlmDoError, OSError) as error:
        raise unknown from error


async def _given(client: LlmDoClient, run: str) -> dict[str, Attachment]:
    """Return the attachments by name; where items of a batch have files of one name, the first."""
    listed = await read_run(client.temporal, run)
    async with translated(run):
        facts = await read_facts(client.temporal, listed)
    found: dict[str, Attachment] = {}
    for one in facts.all_attachments:
        found.setdefault(one.path, one)
    return found


async def _written(client: LlmDoClient, run: str) -> tuple[WrittenFile, ...]:
    view, turn = await client.view(run), asyncio.Semaphore(_AT_ONCE)

    async def read(path: str) -> tuple[WrittenFile, ...]:
        async with turn:
            return await read_files(client.temporal, run, path)

    async with translated(run):
        found = await asyncio.gather(*(read(node.path) for node in view.nodes.values() if node.path))
    return last_written([file for each in found for file in each])


def _media_type(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def save_files(files: Sequence[SentFile], folder: Path) -> tuple[Path, ...]:
    """Write the files into a new folder, and return their paths. Raises UsageError for two of one name."""
    if not files:
        return ()
    folder.mkdir()
    paths = [folder / file.name for file in files]
    for path, file in zip(paths, files, strict=True):
        if path.name in (".", "..") or path.exists():
            raise UsageError(f"'{file.name}' cannot be attached", next_step="Give each file a name of its own.")
        path.write_bytes(file.content)
    return tuple(paths)
