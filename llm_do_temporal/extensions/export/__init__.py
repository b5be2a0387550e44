"""A run as its histories have it, to read or to keep: its log, its record as a file, its results as a table."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class ExportExtension(Extension):
    """See the module."""

    name = "export"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.export.command import export, logs

        examples = (
            "export decks-1 --format html -o decks-1.html",
            "export --patch rename-1 -o rename-1.patch  # for git apply",
        )
        return (
            Command("logs", logs, CommandGroup.RUNS, "RUN [FLAGS]", ("logs decks-1 --follow",)),
            Command("export", export, CommandGroup.RUNS, "RUN [FLAGS]", examples),
        )


EXTENSION = ExportExtension()
