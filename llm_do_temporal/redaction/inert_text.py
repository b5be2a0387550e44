"""Inert text of models and people, for whichever program shows it: it pings nobody and has no link to click.

Text on which a chat program would act is written as security reports write addresses: `[@]channel`,
`https[:]//evil[.]com`. Every change can be seen, nothing is taken away, and nothing that is invisible is put in.
Receivers differ in the text they act on (Slack's `<!channel>`, `@everyone`, Markdown's `[x](…)`, bare addresses), so
this knows all their forms. Names of files stay as they are, as far as they end like files do. Text for Slack is cut in
pieces that it shows as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from llm_do_temporal.redaction.hidden_characters import hidden_marks, made_visible, written_out

_AT = "@\uff20\ufe6b"
"""Sign in front of a name, as it is and in other widths."""
_SCHEME = re.compile(r"[:\uff1a\ufe55\ufe13](?=[/\\\uff0f\u2044\u2215])")
"""Colon before the slashes of an address."""
_BARE_SCHEME = re.compile(
    r"(?<![A-Za-z0-9])(mailto|tel|sms|javascript|data|vbscript|file|slack|msteams|skype|facetime|xmpp|sip|magnet)"
    r"([:\uff1a])(?=\S)",
    re.IGNORECASE,
)
_DOTS = ".\u3002\uff0e\uff61\u2024\ufe52"
"""Signs that a browser takes for the dot in a name, and signs that programs turn into a dot."""
_PLAIN = r"\x00-\x2c\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\s\u2018-\u201f\u2026"
"""ASCII signs, quotation marks and gaps: no name has them. Any other mark or symbol may be part of one."""
_DOT = re.compile(rf"(?<=[^{_PLAIN}.])[{_DOTS}](?=([^{_PLAIN}\d{_DOTS}][^{_PLAIN}{_DOTS}]+))")
"""Dot within a name, before text that may be the name's last part."""
_WWW = re.compile(rf"(?<![^\W_])(www\d*)([{_DOTS}])(?=\w)", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_TAG = re.compile(r"<(?=\S)")
_MARKDOWN = re.compile(r"\](?=[(\[:])")
_ENDINGS = """
    bak bmp cfg conf cpp css csv diff doc docx env eps gif htm html ini ipynb jpeg jpg js json jsonl jsx lock log md
    odp ods odt pdf png ppt pptx py rst rtf sh sql svg tex tif tiff toml ts tsv tsx txt webp worker xls xlsx xml
    yaml yml
"""
_FILES = frozenset(_ENDINGS.split())
"""Endings of file names that stay as they are."""


def inert(text: str) -> str:
    """Return the text with everything that would ping a person or become a link written so that it does not."""
    shown = made_visible(text, "\n\t")
    shown = _TAG.sub("[<]", shown)
    shown = _WWW.sub(r"\1[\2]", _DOT.sub(_dead_dot, shown))
    shown = _NUMBERS.sub(lambda found: found[0].replace(".", "[.]"), shown)
    shown = _SCHEME.sub(r"[\g<0>]", shown)
    shown = _BARE_SCHEME.sub(r"\1[\2]", shown)
    shown = "".join(f"[{char}]" if char in _AT else char for char in shown)
    # Last: the brackets from above must not begin a link of Markdown either.
    return _MARKDOWN.sub("] ", shown)


def inert_value(value: Any) -> Any:
    """Return a value like those of JSON with every text and every name in it made inert."""
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        return {inert(str(name)): inert_value(inner) for name, inner in given.items()}
    if isinstance(value, list | tuple):
        return [inert_value(one) for one in cast("Iterable[Any]", value)]
    return value


def _dead_dot(found: re.Match[str]) -> str:
    ending, end = found[1].rstrip("_-").lower(), found.end() + len(found[1])
    is_file = ending in _FILES and found.string[end : end + 1] not in tuple("/:?#\\" + _DOTS)
    return found[0] if is_file else f"[{found[0]}]"


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
