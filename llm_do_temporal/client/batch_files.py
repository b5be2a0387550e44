"""Files of this machine that batches were started with: remembered beside the workshop, for those who try again.

Owns a small file for each batch in `.llm-do/batches/`, with the path of each item's file. The paths stay on this
machine: what a server told could name any file here. Used by `start --each` and `start --retry-failed`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from llm_do_temporal.client.batches import attached
from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.batches import Batch, BatchItem
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.storage.private_files import make_private, write_private

_FOLDER = "batches"
_PATHS = TypeAdapter(dict[str, Path])


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


def with_files_of_now(
    batch: Batch, files: Mapping[str, Path], attach: Callable[[Sequence[Path]], tuple[Attachment, ...]]
) -> tuple[Batch, list[str]]:
    """Return the batch with the files as they are now, and a line for people about each that is not as it was.

    An item whose file is not known here, or cannot be used any more, stays as it was.
    """
    items: list[BatchItem] = []
    notes: list[str] = []
    for item in batch.items:
        file = files.get(item.name)
        taken, note = (item, "") if file is None else _of_now(item, file, attach)
        items.append(taken)
        if note:
            notes.append(f"{item.name}: {note}")
    return batch.model_copy(update={"items": tuple(items)}), notes


def _of_now(
    item: BatchItem, file: Path, attach: Callable[[Sequence[Path]], tuple[Attachment, ...]]
) -> tuple[BatchItem, str]:
    try:
        attachments = attached(item.name, file, attach)
    except UsageError as error:
        if item.unusable:
            return item.model_copy(update={"unusable": error.message}), f"still cannot be used: {error.message}"
        return item, f"taken as it was, for it cannot be used now: {error.message}"
    taken = item.model_copy(update={"attachments": attachments, "unusable": ""})
    if item.unusable:
        return taken, "could not be used then, and is taken now"
    if attachments == item.attachments:
        return item, ""
    before, now = (sum(one.bytes for one in each) for each in (item.attachments, attachments))
    return taken, f"has changed since then, and is taken as it is now ({before:,} bytes then, {now:,} now)"


def _place(workshop: Path, run: str) -> Path:
    return workshop / STATE_FOLDER / _FOLDER / f"{hashlib.sha256(run.encode()).hexdigest()[:32]}.json"
