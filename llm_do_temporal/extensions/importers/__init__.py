"""A workshop is made of workers that were written for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class ImportersExtension(Extension):
    """See the module."""

    name = "importers"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.importers.command import import_command

        return (
            Command(
                "import", import_command, CommandGroup.WORKSHOP, "PATH [FLAGS]", ("import ../agents --into my-shop",)
            ),
        )


EXTENSION = ImportersExtension()
