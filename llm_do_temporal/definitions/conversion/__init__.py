"""Conversion of workers that were written for other programs into a workshop of ours.

The folders may be hostile: nothing outside them is read, nothing in them is run, and no existing file is overwritten.
Called by the command line.
"""

from __future__ import annotations

from llm_do_temporal.definitions.conversion.convert import import_workers
from llm_do_temporal.definitions.conversion.sources import ImportReport, Note

__all__ = ["ImportReport", "Note", "import_workers"]
