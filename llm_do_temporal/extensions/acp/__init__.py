"""An editor that speaks the Agent Client Protocol starts runs and answers their approval requests."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class AcpExtension(Extension):
    """See the module."""

    name = "acp"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.acp.command import acp

        return (Command("acp", acp, CommandGroup.SERVICES, "WORKER [FLAGS]", ("acp notes  # an editor starts it",)),)


EXTENSION = AcpExtension()
