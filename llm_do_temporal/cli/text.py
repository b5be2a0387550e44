"""Text that a model wrote, made safe to show: a terminal obeys control characters, a person cannot see some others.

Called by every module here that prints. Must not change text that goes to a file or a pipe.
"""

from __future__ import annotations

import sys
from pathlib import Path

from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible, shown_name, shown_value, with_codes_apart

PROGRAM = "llm-do-temporal"


def composed_block(text: str) -> str:
    """Return lines whose parts are visible already; what is still hidden is written out, but for line ends and tabs."""
    return made_visible(text.replace("\r\n", "\n").expandtabs(4))


def visible_block(text: str) -> str:
    """Return a stranger's text of several lines; hidden characters are written out, but for line ends and tabs."""
    return visible_source(text.replace("\r\n", "\n"))


def visible_source(text: str) -> str:
    """Return lines of a file or of a change; carriage returns are written out, too: a change of line ends is seen."""
    return made_visible(with_codes_apart(text.expandtabs(4)))


def visible_line(text: str, limit: int = 2_000) -> str:
    """Return text on one line, cut at `limit` characters, without keys; line ends and tabs are written out too."""
    text = remove_keys(text)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return made_visible(cut, "\n\t").replace("\n", "\\n").replace("\t", "\\t")


def name_line(path: str) -> str:
    """Return a path as people are shown it, without keys."""
    return shown_name(remove_keys(path))


def value_line(text: str, limit: int = 2_000) -> str:
    """Return a value on one line as people are shown it, cut at `limit` characters, without keys."""
    shown = shown_value(remove_keys(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def printed_table(text: str, file: Path | None) -> str:
    """Return CSV as it is written: a file gets a mark, without which Excel does not read it as UTF-8; a pipe gets the
    text as it is; for a terminal, hidden characters are written out."""
    if file is not None:
        from llm_do_temporal.client.record.results import BOM

        return f"{BOM}{text}"
    return visible_block(text) if sys.stdout.isatty() else text


def say(text: str) -> None:
    """Print text for a person on stderr, without the values of keys."""
    print(composed_block(remove_keys(text)), file=sys.stderr, flush=True)
