"""Worker files and workshops: the formats, and the registry that finds and loads them.

Reads files, and for `output_schema_ref` runs the author's Python. Knows nothing of Temporal or of
models. Every mistake in a file is a DefinitionError with the file, relative to the workshop, and the line.
"""

from __future__ import annotations

from llm_do_temporal.definitions.checking import check_workshop
from llm_do_temporal.definitions.formats import WorkerFile, WorkshopConfig
from llm_do_temporal.definitions.problems import Problem
from llm_do_temporal.definitions.registry import Registry
from llm_do_temporal.definitions.workshop import (
    Workshop,
    find_workshop,
    load_workshop,
    notify_settings,
    run_settings,
)

__all__ = [
    "Problem",
    "Registry",
    "WorkerFile",
    "Workshop",
    "WorkshopConfig",
    "check_workshop",
    "find_workshop",
    "load_workshop",
    "notify_settings",
    "run_settings",
]
