"""An editor that speaks the Language Server Protocol shows what is wrong in definitions while they are written."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class LspExtension(Extension):
    """See the module."""

    name = "lsp"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.lsp.command import lsp

        return (Command("lsp", lsp, CommandGroup.SERVICES, "[FLAGS]", ("lsp  # an editor starts it",)),)


EXTENSION = LspExtension()
