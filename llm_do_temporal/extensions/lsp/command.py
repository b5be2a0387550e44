"""`lsp`: the language server that an editor starts for files of definitions."""

from __future__ import annotations

from llm_do_temporal.cli.text import begin_pipes, check_packages
from llm_do_temporal.signals import leave_when_told


async def lsp() -> None:
    """Serve an editor by the Language Server Protocol, over stdin and stdout.

    Shows what `check` finds while worker files, workshop.yaml and evaluation files are edited, completes and explains
    what is written there, and runs no Python of the workshop. Needs no server and no key.
    """
    leave_when_told()
    check_packages("the Language Server Protocol", "lsp", "pygls")
    from llm_do_temporal.extensions.lsp.server import DefinitionServer, serve

    begin_pipes("an editor")
    await serve(DefinitionServer())
