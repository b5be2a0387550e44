"""Text for Slack: words of models and people as plain text that pings nobody, has no format, and holds no link.

Used by notifications and by the door, so that both show the same text in the same way.
"""

from __future__ import annotations

from typing import Any

from llm_do_temporal.redaction.hidden_characters import hidden_marks, written_out
from llm_do_temporal.redaction.inert_text import inert

MAX_TEXT_CHARS = 2_000
"""Most characters of one text as it is sent; Slack refuses a message with more than 3,000 in one."""
AS_IT_IS: dict[str, Any] = {
    "mrkdwn": False,
    "parse": "none",
    "link_names": False,
    "unfurl_links": False,
    "unfurl_media": False,
}
"""Options by which Slack looks for no format, names or addresses in the text above the blocks."""
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def slack_text(text: str) -> str:
    """Text that Slack shows as it is: `<!channel>` is how people are pinged, and `<…|…>` how links are disguised."""
    (shown,), is_whole = slack_texts(text, 1)
    return shown if is_whole else f"{shown}…"


def slack_texts(text: str, most: int) -> tuple[list[str], bool]:
    """Return the text in pieces that Slack shows as they are, at most so many, and whether this is all of it."""
    pieces = [""]
    for char, hidden in hidden_marks(inert(text)):
        shown = _ESCAPED.get(char) or (written_out(char) if hidden and char != "\n" else char)
        if len(pieces[-1]) + len(shown) >= MAX_TEXT_CHARS:
            if len(pieces) == most:
                return pieces, False
            pieces.append("")
        pieces[-1] += shown
    return pieces, True


def plain(text: str) -> dict[str, Any]:
    """Return the text as an object of Slack's that knows no format."""
    return plain_piece(slack_text(text))


def plain_piece(piece: str) -> dict[str, Any]:
    """Return a piece of `slack_texts` as an object of Slack's that knows no format."""
    return {"type": "plain_text", "text": piece, "emoji": False}
