"""Care of what is stored: what nothing needs is removed, runs are deleted, faults are shown."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class MaintenanceExtension(Extension):
    """See the module."""

    name = "maintenance"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.maintenance.command import delete, doctor, gc

        return (
            Command("delete", delete, CommandGroup.RUNS, "RUN [FLAGS]", ("delete decks-1 --cancel --yes",)),
            Command("gc", gc, CommandGroup.CARE, "[FLAGS]", ("gc --dry-run",)),
            Command("doctor", doctor, CommandGroup.WORKSHOP),
        )


EXTENSION = MaintenanceExtension()
