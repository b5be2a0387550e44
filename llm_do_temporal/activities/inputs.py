"""The activity that reads what a run is given when it begins by itself.

Owns the copying of the files' bytes, as they are at that moment. How they are found, opened and judged is the business
of `sandbox.input_files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from temporalio import activity

from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.errors import AttachmentRefusal
from llm_do_temporal.messages.activities import READ_INPUTS
from llm_do_temporal.messages.effects import ReadInputs, ReadInputsInput
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.sandbox.input_files import InputReader
from llm_do_temporal.storage.blobs import BlobStore, BlobTooLarge
from llm_do_temporal.storage.snapshots import copy_into


class InputActivities:
    """Inputs of runs from the files of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore) -> None:
        self._workshop = workshop
        self._blobs = blobs

    @activity.defn(name=READ_INPUTS.name)
    def read_inputs(self, asked: ReadInputsInput) -> ReadInputs:
        """Copy the files into the blob store, and return them as attachments and items.

        Fails with AttachmentRefusal for a file that may not or cannot be attached, and with UsageError for items that
        a run cannot have. A file of an item that cannot be attached fails that item alone.
        """
        with user_errors():
            return InputReader(self._workshop, asked, self._kept).read()

    def _kept(self, file: BinaryIO, name: str, most: int) -> Attachment:
        try:
            return copy_into(self._blobs, file, path=name, max_bytes=most)
        except BlobTooLarge as error:
            raise AttachmentRefusal(f"'{name}' grew while it was copied; begin the run again") from error
