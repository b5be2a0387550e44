"""People who may see encrypted values see them in the Temporal UI and CLI."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class CodecServerExtension(Extension):
    """See the module."""

    name = "codec_server"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.codec_server.command import codec_server

        return (Command("codec-server", codec_server, CommandGroup.SERVICES),)


EXTENSION = CodecServerExtension()
