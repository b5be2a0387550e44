"""An agent that speaks the Model Context Protocol starts runs and asks people for their approval."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class McpExtension(Extension):
    """See the module."""

    name = "mcp"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.mcp.command import mcp

        return (
            Command(
                "mcp", mcp, CommandGroup.SERVICES, "[FLAGS]", ("mcp  # an agent starts it", "mcp --http --port 8236")
            ),
        )


EXTENSION = McpExtension()
