"""Items of a batch: files, lines, or the items that another run has not completed; and texts that people give in files.

The paths of files that a batch was started with are remembered beside the workshop, in `.llm-do/batches/`, for those
who try again. They stay on this machine: what a server told could name any file here.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.client.history.events import ENDS, decode_json, read_chain, read_message
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extension import installed
from llm_do_temporal.messages.runs import Batch, BatchItem, StartRunInput, item_path, lines_of
from llm_do_temporal.messages.sizes import ITEM_RESULT_BYTES, MAX_INLINE_BYTES, MAX_VALUE_BYTES
from llm_do_temporal.policy.files.attachments import Attachment, real_type
from llm_do_temporal.policy.files.encodings import NotText, given_text
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.policy.kinds.kind import is_hidden
from llm_do_temporal.sandbox.listing import folders_in_words
from llm_do_temporal.storage.private_files import make_private, write_private
from llm_do_temporal.storage.snapshots import bytes_of

_TEXT = "text/plain"


def read_given(path: Path, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of a file, with plain newlines. Raises UsageError, in which `what` names the file.

    A pipe without a name, like that of `<(command)`, is read to its end.
    """
    try:
        if Path(os.path.realpath(path)).is_fifo():
            raise UsageError(
                f"{what} is a named pipe, and nobody may ever write to it",
                next_step="Name a file, or give what the pipe holds as <(cat PIPE).",
            )
        # A read of some files of the kernel waits for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            os.set_blocking(descriptor, not stat.S_ISREG(os.fstat(descriptor).st_mode))
            return read_stream(file, what, most=most)
    except OSError as error:
        raise UsageError(
            f"{what} cannot be read: {error.strerror}", next_step="Name a file that you can read."
        ) from error
    except ValueError as error:
        raise UsageError(f"{what} cannot be read: its name holds a NUL character") from error


def read_stream(file: BinaryIO, what: str, *, most: int = MAX_VALUE_BYTES) -> str:
    """Return the text of an open file or pipe, with plain newlines. Raises UsageError, and OSError."""
    data = bytes_of(file.read(most + 1))
    if len(data) > most:
        raise UsageError(f"{what} has more than {most} bytes", next_step="Give long text as a file: -a FILE.")
    try:
        text = given_text(data)
    except NotText as error:
        real = real_type(data, _TEXT)
        if real != _TEXT:
            raise UsageError(
                f"{what} cannot be read: it is no text, its content is {real}",
                next_step="Save it as text in UTF-8 in the program that it is of.",
            ) from error
        raise UsageError(f"{what} cannot be read: {error}", next_step=error.next_step) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


Attach = Callable[[Sequence[Path]], tuple[Attachment, ...]]
"""Copies the files of one item of a batch, beside those of the run, to the worker service. Raises UsageError."""
_FOLDER = "batches"
_PATHS = TypeAdapter(dict[str, Path])


async def read_unfinished(client: Client, run: str) -> StartRunInput:
    """Return the start of a run with a batch, with only the items that have not completed.

    Raises UsageError for a run that is open, had no batch or has nothing left, and RPCError.
    """
    request: StartRunInput | None = None
    completed: set[str] = set()
    ended = False
    async for event in read_chain(client, run, None, wait=False):
        # A run that has read its items went on as new with them.
        if event.HasField("workflow_execution_started_event_attributes") and (request is None or request.reads):
            given = event.workflow_execution_started_event_attributes.input.payloads
            request = read_message(StartRunInput, decode_json(given[0]) if given else None)
        if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
            child = event.child_workflow_execution_completed_event_attributes.workflow_execution
            completed.add(child.workflow_id)
        ended = event.event_type in ENDS
    if request is None or request.batch is None:
        raise UsageError(
            f"run '{run}' is no batch: only what `start --each` started has items",
            next_step=f"To do it again with the answers and calls that it has, fork it: `llm-do-temporal fork {run}`",
        )
    if not ended:
        raise UsageError(
            f"run '{run}' has not ended", next_step=f"Wait with `llm-do-temporal result {run}`, or cancel it first."
        )
    items = [item for n, item in enumerate(request.batch.items, 1) if f"{run}/{item_path(n)}" not in completed]
    if not items:
        raise UsageError(f"all {len(request.batch.items)} items of run '{run}' have completed; there is nothing to do")
    batch = request.batch.model_copy(update={"items": tuple(items)})
    return request.model_copy(update={"batch": batch, "continued": None, "again_of": run})


def matching_files(patterns: Sequence[str]) -> list[tuple[str, Path]]:
    """Return name and path of each file that a pattern matches from here, once, sorted by name.

    Raises UsageError for a pattern that matches none. Whatever is no folder counts, also what cannot be read.

    A file is called by its path from here, or from the folder that holds all of them where they lie elsewhere. One that
    is found again through a link to a folder is the same file, and counts once.
    """
    found: set[Path] = set()
    for pattern in patterns:
        files = [file for file in _matching(pattern) if not _is_folder(file)]
        if not files and (unread := unread_folders([pattern])):
            raise UsageError(
                f"--each '{pattern}' matches no file that can be found: permission to read was denied for "
                f"{folders_in_words(unread)}",
                next_step="Get the right to read and enter what is named, or name other files.",
            )
        if not files:
            raise UsageError(
                f"--each '{pattern}' matches no file here",
                next_step="The pattern counts from the folder you are in; quote it, so that the shell leaves it alone.",
            )
        found.update(Path(os.path.normpath(file)) for file in files)
    # One that is found again through a link to a folder, like one to a folder above, counts by its shortest path.
    by_real: dict[Path, list[Path]] = {}
    for file in found:
        by_real.setdefault(file.parent.resolve() / file.name, []).append(file)
    found = {min(same, key=lambda file: (len(file.parts), file)) for same in by_real.values()}
    base = Path.cwd()
    if not all(file.is_relative_to(base) for file in found):
        base = Path(os.path.commonpath([file.parent for file in found]))
    return sorted((file.relative_to(base).as_posix(), file) for file in found)


def unread_folders(patterns: Sequence[str]) -> list[str]:
    """Return the folders, by their paths from here, in which patterns cannot look for files: permission is denied."""
    found: set[Path] = set()
    for pattern in patterns:
        base, parts = _base_of(pattern)
        found.update(folder for folder in base.parents if _is_closed(folder, os.X_OK))
        for number, part in enumerate(parts):
            is_listed = glob.has_magic(part) or parts[number - 1 : number] == ("**",)
            wanted = os.X_OK | (os.R_OK if is_listed else 0)
            found.update(folder for folder in _found(base, parts, number) if _is_closed(folder, wanted))
    return sorted(os.path.relpath(folder) for folder in found)


def _is_closed(folder: Path, wanted: int) -> bool:
    return _is_folder(folder) and not os.access(folder, wanted, effective_ids=True)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its folder may be read and not entered
        return False


def _base_of(pattern: str) -> tuple[Path, tuple[str, ...]]:
    """Return the folder, or the file, that a pattern names without a wildcard, and its other parts."""
    parts = Path(pattern).parts
    begin = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path.cwd().joinpath(*parts[:begin]), parts[begin:]


def _matching(pattern: str) -> list[Path]:
    """Return what a pattern matches from here. Hidden names are matched by a part that begins with a dot alone, and
    `**` goes through no link: two links to a folder above would have no end."""
    base, parts = _base_of(pattern)
    return [file for file in _found(base, parts, len(parts)) if parts or os.path.lexists(file)]


def _found(base: Path, parts: Sequence[str], count: int) -> Iterator[Path]:
    """Return what the first parts of a pattern match below a folder; the folder itself for none of them."""
    if not count:
        return iter((base,))
    shows_hidden = any(part.startswith(".") for part in parts)
    found = base.glob("/".join(parts[:count]))
    return (file for file in found if shows_hidden or not is_hidden(file.relative_to(base)))


def items_of_files(files: Sequence[tuple[str, Path]], attach: Attach) -> tuple[list[BatchItem], list[str]]:
    """Return an item for each file, and a line for people about each file that cannot be used: its item will fail.

    Raises UsageError where no file at all can be used.
    """
    items: list[BatchItem] = []
    for name, file in files:
        plain = os.fsencode(name).decode(errors="replace")
        if plain != name:
            items.append(BatchItem(name=plain, unusable=f"the name of '{plain}' is not UTF-8; rename the file"))
            continue
        try:
            items.append(BatchItem(name=name, attachments=attached(name, file, attach)))
        except UsageError as error:
            items.append(BatchItem(name=name, unusable=error.message))
    wrong = [item for item in items if item.unusable]
    notes = [one.unusable if one.name in one.unusable else f"{one.name}: {one.unusable}" for one in wrong]
    if len(notes) == len(items):
        reasons = dict.fromkeys(notes)
        raise UsageError("no file can be used:\n  " + "\n  ".join(reasons), next_step="Nothing was started.")
    return items, notes


def attached(name: str, file: Path, attach: Attach) -> tuple[Attachment, ...]:
    """Return the file of an item as its attachment. Raises UsageError, which has the item's name and no path of this
    machine: it stands in the history."""
    try:
        return attach([file])
    except UsageError as error:
        raise UsageError(error.message.replace(str(file), name), next_step=error.next_step) from error


async def taken_over(client: Client, run: str, start: StartRunInput) -> tuple[StartRunInput, list[str]]:
    """Return the start of what `run` has left over, with what it need not do again, and lines for people about that.

    Raises ConnectionFailed and KeyMismatch.
    """
    lines: list[str] = []
    for extension in installed():
        start, more = await extension.take_over(client, run, start)
        lines += more
    return start, lines


def items_of_lines(file: Path) -> list[BatchItem]:
    """Return an item for each line that is not blank: its text, or, of a file that ends in .jsonl, its JSON value.

    There, text is a prompt and anything else the worker's input. Raises UsageError, with every line that is no JSON.
    """
    numbered = lines_of(read_given(file, f"the file '{file}' given with --each-line"))
    if not numbered:
        raise UsageError(f"the file '{file}' given with --each-line has no lines")
    items: list[BatchItem] = []
    wrong: list[str] = []
    for number, line in numbered:
        try:
            as_json = file.suffix.lower() == ".jsonl"
            items.append(BatchItem.of_line(f"{file.name}:{number}", line, as_json=as_json))
        except ValueError as error:
            wrong.append(f"{file}:{number}: {error}")
    if wrong:
        raise UsageError("\n  ".join(wrong), next_step="Nothing was started.")
    return items


def check_batch_size(request: StartRunInput, *, kept_outside: bool) -> None:
    """Raise UsageError for more items than one run can carry along, with what becomes of each.

    `kept_outside` says whether big values go to a blob store.
    """
    count = len(request.batch.items) if request.batch is not None else 0
    size = len(request.model_dump_json()) + ITEM_RESULT_BYTES * count
    most = MAX_VALUE_BYTES if kept_outside else MAX_INLINE_BYTES
    if count and size > most:
        raise UsageError(
            f"a batch of {count} items is too large for one run: {size} bytes, at most {most} fit",
            next_step="Start several runs, each with a part of the items.",
        )


def remember_files(workshop: Path, run: str, files: Mapping[str, Path]) -> None:
    """Remember the files of a run's items by the items' names. A place that cannot be written remembers nothing."""
    with suppress(OSError, UsageError):
        make_private(state_folder(workshop) / _FOLDER)
        write_private(_place(workshop, run), json.dumps({name: str(path) for name, path in files.items()}))


def forget_files(workshop: Path, run: str) -> None:
    """Forget the files of a run that was deleted."""
    with suppress(OSError):
        _place(workshop, run).unlink()


def remembered_files(workshop: Path, run: str) -> dict[str, Path]:
    """Return the files of a run's items by the items' names; empty where none are remembered here."""
    try:
        return _PATHS.validate_json(_place(workshop, run).read_bytes())
    except (OSError, ValidationError):
        return {}


def with_files_of_now(batch: Batch, files: Mapping[str, Path], attach: Attach) -> tuple[Batch, list[str]]:
    """Return the batch with the files as they are now, and a line for people about each that is not as it was.

    An item whose file is not known here, or cannot be used any more, stays as it was.
    """
    items: list[BatchItem] = []
    notes: list[str] = []
    for item in batch.items:
        items.append(item)
        if (file := files.get(item.name)) is None:
            continue
        try:
            attachments = attached(item.name, file, attach)
        except UsageError as error:
            words = "still cannot be used" if item.unusable else "taken as it was, for it cannot be used now"
            notes.append(f"{item.name}: {words}: {error.message}")
            items[-1] = item.model_copy(update={"unusable": error.message}) if item.unusable else item
            continue
        if attachments == item.attachments and not item.unusable:
            continue
        items[-1] = item.model_copy(update={"attachments": attachments, "unusable": ""})
        before, now = (sum(one.bytes for one in each) for each in (item.attachments, attachments))
        changed = f"has changed since then, and is taken as it is now ({before:,} bytes then, {now:,} now)"
        notes.append(f"{item.name}: {'could not be used then, and is taken now' if item.unusable else changed}")
    return batch.model_copy(update={"items": tuple(items)}), notes


def _place(workshop: Path, run: str) -> Path:
    return workshop / STATE_FOLDER / _FOLDER / f"{hashlib.sha256(run.encode()).hexdigest()[:32]}.json"
