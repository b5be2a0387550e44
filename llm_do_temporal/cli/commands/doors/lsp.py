"""`lsp`: the language server that an editor starts for files of definitions."""

from __future__ import annotations

from importlib.util import find_spec

from llm_do_temporal.errors import UsageError
from llm_do_temporal.signals import leave_when_told


async def lsp() -> None:
    """Serve an editor by the Language Server Protocol, over stdin and stdout.

    Shows what `check` finds while worker files, workshop.yaml and evaluation files are edited, completes and explains
    what is written there, and runs no Python of the workshop. Needs no server and no key.
    """
    leave_when_told()
    if find_spec("pygls") is None:
        raise UsageError(
            "the package for the Language Server Protocol is not installed",
            next_step="Install it: pip install 'llm-do-temporal[lsp]'",
        )
    from llm_do_temporal.doors.lsp.server import DefinitionServer
    from llm_do_temporal.doors.lsp.transport import serve

    await serve(DefinitionServer())
