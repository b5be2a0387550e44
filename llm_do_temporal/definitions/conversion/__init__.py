"""Workers written for other programs, made into a workshop of ours.

Reads folders that nobody vouches for: nothing outside them is read, nothing in them is run, and nothing that
exists is written over. Called by the command line.
"""

from __future__ import annotations

from llm_do_temporal.definitions.conversion.convert import import_workers
from llm_do_temporal.definitions.conversion.report import ImportReport, Note

__all__ = ["ImportReport", "Note", "import_workers"]
