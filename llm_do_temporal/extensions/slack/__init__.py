"""A channel of Slack shows approval requests of all runs, and takes decisions."""

from __future__ import annotations

from collections.abc import Sequence

from llm_do_temporal.extension import Command, CommandGroup, Extension


class SlackExtension(Extension):
    """See the module."""

    name = "slack"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.slack.command import slack

        return (Command("slack", slack, CommandGroup.SERVICES, "[FLAGS]", ("slack --channel C0123ABCD",)),)


EXTENSION = SlackExtension()
