"""Rules are learned from what people approved, and held against past calls before they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_do_temporal.extension import Command, CommandGroup, Extension, NavigationEntry


class RulesExtension(Extension):
    """See the module."""

    name = "rules"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.rules.command import rules, suggest, try_rules

        examples = (
            "rules",
            "rules suggest --since 30d  # a diff for patch or git apply",
            "rules test --add '{command: git log}'",
        )
        below = {"suggest": suggest, "test": try_rules}
        return (Command("rules", rules, CommandGroup.DECISIONS, "[FLAGS]", examples, below),)

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.rules.page import routes

        return routes

    def navigation(self) -> Sequence[NavigationEntry]:
        """See Extension."""
        return (NavigationEntry("Rules", "/rules"),)


EXTENSION = RulesExtension()
