"""Files that a run is given when it begins by itself: looked for, opened and judged, below the workshop alone.

Owns what becomes of a path or a pattern that was named once, each time that it is read. Called by the activity that
reads them, which copies what was opened, and by the client, which only looks whether they could be read now. No link
is followed out of the workshop, and nothing hidden is opened, wherever a link leads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from llm_do_temporal.errors import AttachmentRefusal, EffectFailed, SandboxRefusal, UsageError
from llm_do_temporal.messages.activities import ReadInputs, ReadInputsInput
from llm_do_temporal.messages.runs import BatchItem, InputFiles, lines_of
from llm_do_temporal.messages.sizes import ITEM_RESULT_BYTES, MAX_LINES_BYTES, MAX_READ_ITEMS, MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import Attachment, check_attachment_names, check_attachments
from llm_do_temporal.policy.files.encodings import NotText, given_text
from llm_do_temporal.policy.files.sandbox import (
    WORKSHOP,
    WORKSHOP_TREE,
    Place,
    check_input_path,
    input_place,
    is_hidden_path,
)
from llm_do_temporal.sandbox.listing import MAX_VISITED, Walk, parse_pattern
from llm_do_temporal.sandbox.safe_open import WorkshopFolder

Keep = Callable[[BinaryIO, str, int], Attachment]
"""Keeps an open file as the attachment of a name, of so many bytes at most. Raises AttachmentRefusal for a larger one.
"""
_SHOWN_WRONG = 20
"""Most lines that are no JSON and are told of."""
_NO_DIGEST = "0" * 64
_UNREAD = "its files are not known, because permission to read was denied for the folder"


def measure(file: BinaryIO, name: str, _most: int) -> Attachment:
    """Keep nothing: return an attachment with the size of the file, for a look whether it could be read."""
    return Attachment(path=name, sha256=_NO_DIGEST, bytes=os.fstat(file.fileno()).st_size, media_type="")


class InputReader:
    """Reader of the files of one workshop. Methods raise AttachmentRefusal and UsageError, which name the file."""

    def __init__(self, workshop: Path, asked: ReadInputsInput, keep: Keep) -> None:
        self._folder = WorkshopFolder(workshop)
        self._policy, self._whose = asked.policy, f"worker '{asked.worker}'"
        self._given = asked.given
        self._files: InputFiles = asked.files
        self._keep = keep

    def read(self) -> ReadInputs:
        """Return what the files hold now."""
        attachments = self._attach(self._files.attach, self._given)
        beside = (*self._given, *attachments)
        if self._files.each_line:
            items = self._lines(self._files.each_line)
        elif self._files.each:
            paths, unread = self._matching(self._files.each)
            items = [self._item(path, beside) for path in paths]
            items += [BatchItem(name=f"{path}/", unusable=f"{_UNREAD} '{path}'") for path in unread]
        else:
            return ReadInputs(attachments=attachments)
        size = sum(len(item.model_dump_json()) + ITEM_RESULT_BYTES for item in items)
        if size > MAX_VALUE_BYTES // 2:
            raise UsageError(f"{len(items)} items are too large for one run: {self._files.words}")
        return ReadInputs(attachments=attachments, items=tuple(items))

    def _attach(self, paths: Sequence[str], beside: Sequence[Attachment]) -> tuple[Attachment, ...]:
        """Keep the files, which count together with those `beside` them."""
        names = [PurePosixPath(path).name for path in paths]
        check_attachment_names(self._policy, [*(one.path for one in beside), *names], whose=self._whose)
        found = list(beside)
        for path, name in zip(paths, names, strict=True):
            left = self._policy.max_total_bytes - sum(one.bytes for one in found)
            with self._opened(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > left:
                    raise AttachmentRefusal(
                        f"the file '{path}' is too large to attach: all files together may have "
                        f"{self._policy.max_total_bytes} bytes (max_total_bytes)"
                    )
                attachment = self._keep(file, name, left)
            # The file may have changed since it was measured; what counts is what was kept.
            if attachment.bytes == 0:
                raise AttachmentRefusal(f"the file '{path}' is empty; attach one with content")
            found.append(attachment)
        check_attachments(self._policy, found, whose=self._whose)
        return tuple(found[len(beside) :])

    def _item(self, path: str, beside: Sequence[Attachment]) -> BatchItem:
        try:
            return BatchItem(name=path, attachments=self._attach([path], beside))
        except AttachmentRefusal as refusal:
            return BatchItem(name=path, unusable=refusal.message)

    def _matching(self, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the paths of all files that a pattern matches, and of folders on the way that may not be read; each
        once, in their order."""
        found: set[str] = set()
        unread: set[str] = set()
        for pattern in patterns:
            check_input_path(pattern)
            top = Place(mount=WORKSHOP, relative=".", path="/")
            walk = Walk(self._folder, WORKSHOP_TREE, top, parse_pattern(pattern), "/")
            paths = (entry.path.removeprefix("/") for entry in walk.files(required=True))
            found.update(islice((path for path in paths if not is_hidden_path(path)), MAX_READ_ITEMS + 1))
            if len(found) > MAX_READ_ITEMS:
                raise UsageError(
                    f"'{pattern}' matches more than {MAX_READ_ITEMS:,} files, which are too many for one run",
                    next_step="Name fewer of them, or have what is done moved elsewhere.",
                )
            if walk.gave_up:
                raise UsageError(
                    f"'{pattern}' was looked for among {MAX_VISITED:,} files and folders, and there are more",
                    next_step="Name a folder before the first '*'.",
                )
            folders = (path.strip("/") for path in walk.unreadable)
            unread.update(path for path in folders if not is_hidden_path(path))
        return sorted(found), sorted(unread)

    def _lines(self, path: str) -> list[BatchItem]:
        """Return an item for each line of a file that is not blank."""
        with self._opened(path) as file:
            data = file.read(MAX_LINES_BYTES + 1)
        if len(data) > MAX_LINES_BYTES:
            raise UsageError(f"the file '{path}' has more than {MAX_LINES_BYTES} bytes of lines")
        try:
            lines = lines_of(given_text(data))
        except NotText as error:
            raise UsageError(f"the lines of '{path}' cannot be read: {error}", next_step=error.next_step) from error
        if len(lines) > MAX_READ_ITEMS:
            raise UsageError(f"the file '{path}' has {len(lines)} lines; at most {MAX_READ_ITEMS} are items of a run")
        name, as_json = PurePosixPath(path).name, path.lower().endswith(".jsonl")
        items: list[BatchItem] = []
        wrong: list[str] = []
        for number, line in lines:
            try:
                items.append(BatchItem.of_line(f"{name}:{number}", line, as_json=as_json))
            except ValueError as error:
                wrong.append(f"{path}:{number}: {error}")
        if wrong:
            raise UsageError("\n  ".join(wrong[:_SHOWN_WRONG]))
        return items

    @contextmanager
    def _opened(self, path: str) -> Generator[BinaryIO]:
        """Open a regular file that lies, links followed, in the workshop, and is not hidden there."""
        place = input_place(path)
        with ExitStack() as opened:
            try:
                file, real = opened.enter_context(self._folder.found(place))
                if is_hidden_path(real):
                    raise SandboxRefusal(f"'{path}' is a link to a hidden file")
            except SandboxRefusal as refusal:
                raise AttachmentRefusal(
                    f"the file '{path}' cannot be attached: it leads to what is hidden, or out of the workshop's folder"
                ) from refusal
            except EffectFailed as error:
                raise AttachmentRefusal(
                    f"the file {error.message}, so it cannot be attached", next_step="Put it there, and begin again."
                ) from error
            yield file
