"""A proof that a run comes to the same end, whichever event a kill follows."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class CertifyExtension(Extension):
    """See the module."""

    name = "certify"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.certify.command import certify

        return (
            Command(
                "certify",
                certify,
                CommandGroup.WORKSHOP,
                "WORKER [PROMPT] [FLAGS]",
                (
                    'certify notes "buy bread" --every 5  # free with offline models',
                    "certify greetings.eval.yaml --every 5",
                ),
            ),
        )


EXTENSION = CertifyExtension()
