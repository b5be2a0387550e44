"""The activities that copy files into the blob store as they are now: attachments, and inputs of scheduled runs.

Owns the facts that the attachment policies judge. What a policy allows is decided in workflow code; here only a file
too large to be worth copying is refused. How inputs are found, opened and judged is the business of
`sandbox.input_files`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from temporalio import activity
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.errors import AttachmentRefusal, EffectFailed, SandboxRefusal
from llm_do_temporal.messages.activities import (
    FIND_FILES,
    READ_INPUTS,
    SNAPSHOT_ATTACHMENTS,
    AttachedFile,
    FindFilesInput,
    FoundFiles,
    ReadInputs,
    ReadInputsInput,
    SnapshotInput,
    SnapshotResult,
)
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import (
    Place,
    Tree,
    check_readable,
    check_size,
    describe_roots,
    locate_in_workshop,
)
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.sandbox.changes import see_file
from llm_do_temporal.sandbox.input_files import InputReader
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.sandbox.layers.files import files_of
from llm_do_temporal.sandbox.safe_open import FileOpener
from llm_do_temporal.storage.blobs import BlobStore, BlobTooLarge
from llm_do_temporal.storage.snapshots import copy_into

MAX_BESIDE = 500
"""Most names of a folder that are compared with that of a missing file."""


class AttachmentActivities:
    """Attachments of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore) -> None:
        self._workshop = workshop
        self._blobs = blobs
        self._contents = LayerContents(blobs)

    @activity.defn(name=SNAPSHOT_ATTACHMENTS.name)
    def snapshot_attachments(self, asked: SnapshotInput) -> SnapshotResult:
        """Copy the files into the blob store and return them as attachments, in the order of the request.

        All are opened and measured before the first is copied. Fails with AttachmentRefusal for an empty
        file and for more than `max_total_bytes`, with SandboxRefusal or EffectFailed for one that the
        tree does not allow or that is not there.
        """
        with user_errors(), ExitStack() as opened:
            readers: list[tuple[AttachedFile, BinaryIO, str]] = []
            total = 0
            files = files_of(self._workshop, asked.layer, self._contents)
            for file in asked.files:
                file, (reader, real) = self._open(files, file, asked.tree, opened)
                size = os.fstat(reader.fileno()).st_size
                _check_bytes(file, size)
                total += size
                if total > asked.max_total_bytes:
                    raise AttachmentRefusal(
                        f"with '{file.path}' the attachments have {total} bytes; at most {asked.max_total_bytes} are "
                        "accepted (max_total_bytes)",
                        next_step="Attach fewer or smaller files.",
                    )
                readers.append((file, reader, real))
            attachments: list[Attachment] = []
            left = asked.max_total_bytes
            for file, reader, real in readers:
                try:
                    attachment = copy_into(self._blobs, reader, path=file.path, max_bytes=left)
                except BlobTooLarge as error:
                    raise AttachmentRefusal(f"'{file.path}' grew while it was copied; attach it again") from error
                # The file may have changed since it was measured; what counts is what was stored.
                _check_bytes(file, attachment.bytes)
                left -= attachment.bytes
                attachments.append(attachment.model_copy(update={"place": real}))
            return SnapshotResult(attachments=tuple(attachments))

    @activity.defn(name=FIND_FILES.name)
    def find_files(self, asked: FindFilesInput) -> FoundFiles:
        """Return the size of each file in bytes; None for a file that is not there, or cannot be read."""
        with user_errors():
            files = files_of(self._workshop, asked.layer, self._contents)
        sizes = tuple(_size(files, file) for file in asked.files)
        seen = tuple(_seen(files, file) for file in asked.files) if asked.digests else ()
        missing = [file for file, size in zip(asked.files, sizes, strict=True) if size is None and asked.near]
        near = {file.path: meant for file in missing if (meant := _meant(files, file)) is not None}
        return FoundFiles(bytes=sizes, seen=seen, near=near)

    @activity.defn(name=READ_INPUTS.name)
    def read_inputs(self, asked: ReadInputsInput) -> ReadInputs:
        """Copy the files into the blob store, and return them as attachments and items.

        Fails with AttachmentRefusal for a file that may not or cannot be attached, and with UsageError for items that
        a run cannot have. A file of an item that cannot be attached fails that item alone.
        """

        def keep(file: BinaryIO, name: str, most: int) -> Attachment:
            try:
                return copy_into(self._blobs, file, path=name, max_bytes=most)
            except BlobTooLarge as error:
                raise AttachmentRefusal(f"'{name}' grew while it was copied; begin the run again") from error

        with user_errors():
            return InputReader(self._workshop, asked, keep).read()

    def _open(
        self, files: FileOpener, file: AttachedFile, tree: Tree, opened: ExitStack
    ) -> tuple[AttachedFile, tuple[BinaryIO, str]]:
        """Open the file at its virtual path; a path of the host counts as the file that the tree shows for it.

        With the open file comes its path below the workshop, links followed.
        """
        if file.mount is not None:
            try:
                return file, opened.enter_context(files.found(_place(file)))
            except EffectFailed:
                if self._seen_at(file.path, tree) is None:
                    raise
        place = self._seen_at(file.path, tree)
        if place is None:
            raise SandboxRefusal(
                f"'{file.path}' is outside this worker's files; it can reach {describe_roots(tree) or 'none'}"
            )
        check_readable(place)
        found = AttachedFile(mount=place.mount, relative=place.relative, path=place.path)
        return found, opened.enter_context(files.found(place))

    def _seen_at(self, path: str, tree: Tree) -> Place | None:
        # By its text alone: following links of the host would tell a model what there is.
        given = PurePosixPath(path)
        for folder in (self._workshop.absolute(), self._workshop.resolve()):
            if given.is_relative_to(folder):
                return locate_in_workshop(tree, str(given.relative_to(folder)))
        return None


def _meant(files: FileOpener, file: AttachedFile) -> str | None:
    """Return the virtual path of the neighbour whose name is most like that of a missing file; None without any."""
    wanted, beside = PurePosixPath(file.path), PurePosixPath(file.relative).parent
    if file.mount is None:
        return None
    place = Place(mount=file.mount, relative=str(beside), path=str(wanted.parent))
    with suppress(ApplicationError), user_errors(), files.folder(place) as folder:
        with folder.entries() as entries:
            names = [entry.name for entry in islice(entries, MAX_BESIDE) if entry.is_file(follow_symlinks=False)]
        for name in get_close_matches(wanted.name, names, n=1):
            found = file.model_copy(update={"relative": str(beside / name), "path": str(wanted.parent / name)})
            return found.path if _size(files, found) is not None else None
    return None


def _seen(files: FileOpener, file: AttachedFile) -> SeenFile:
    with user_errors():
        return SeenFile(path=file.path) if file.mount is None else see_file(files, _place(file))


def _size(files: FileOpener, file: AttachedFile) -> int | None:
    try:
        with user_errors():
            return files.size(_place(file))
    except ApplicationError as error:
        if not error.non_retryable:
            raise
        return None


def _place(file: AttachedFile) -> Place:
    if file.mount is None:
        raise SandboxRefusal(f"'{file.path}' is outside this worker's files")
    place = Place(mount=file.mount, relative=file.relative, path=file.path)
    check_readable(place)
    return place


def _check_bytes(file: AttachedFile, size: int) -> None:
    if size == 0:
        raise AttachmentRefusal(f"'{file.path}' is empty; attach a file with content")
    check_size(_place(file), size)
