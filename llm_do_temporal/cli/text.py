"""Text that a model wrote, made safe to show: a terminal obeys control characters, a person cannot see some others.

Called by everything here that prints. Must not change text that goes to a file or a pipe.
"""

from __future__ import annotations

import sys

from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import made_visible

PROGRAM = "llm-do-temporal"


def visible_block(text: str) -> str:
    """Several lines of text, with everything but line ends and tabs that a person would not see written out."""
    return made_visible(text.replace("\r\n", "\n").expandtabs(4))


def visible_line(text: str, limit: int = 2_000) -> str:
    """Text on one line: line ends are written out too; past `limit` characters it is cut. No key is in it."""
    text = remove_keys(text)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return made_visible(cut, "\n\t").replace("\n", "\\n").replace("\t", "\\t")


def say(text: str) -> None:
    """Tell the person something, on stderr; never the value of a key."""
    print(visible_block(remove_keys(text)), file=sys.stderr, flush=True)
