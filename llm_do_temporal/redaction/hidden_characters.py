"""Hidden characters, written out: those that a person would not see as they are; and names as people are shown them.

Some move a terminal's cursor, some reorder the text on the screen, some show nothing at all. Text that a model wrote
may use them to look like something else. Two names that differ are never shown as one, and what is shown can be typed
back: a name is shown as it is, or within quotation marks with everything written out that a person would not see, or
would see as something else.

Inert text of models and people pings nobody and has no link to click, whichever program shows it.
Text on which a chat program would act is written as security reports write addresses: `[@]channel`,
`https[:]//evil[.]com`. Every change can be seen, nothing is taken away, and nothing that is invisible is put in.
Receivers differ in the text they act on (Slack's `<!channel>`, `@everyone`, Markdown's `[x](…)`, bare addresses), so
this knows all their forms. Names of files stay as they are, as far as they end like files do. Text for Slack is cut in
pieces that it shows as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder the text on the screen, or show nothing at all."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""

_ADVICE = re.compile(r"\s*For further information visit https://errors\.pydantic\.dev\S*")
_STYLES = "\ufe0e\ufe0f"
"""Selectors that choose whether an emoji is drawn in black or in colours."""
_BASES = frozenset(
    "\u203c\u2049\u2139\u3030\u303d\u2934\u2935\u25fb\u25fc\u25fd\u25fe\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
)
"""Emoji that are no symbols of Unicode's category `So`; all arrows are, besides."""


def is_hidden(char: str, before: str = "") -> bool:
    """Return whether a person would not see this character, after the character `before` ("" for none).

    A line end counts. The style of an emoji does not, directly after what may be one.
    """
    if unicodedata.category(char) in _HIDDEN or char in _BLANK or "\U000e0100" <= char <= "\U000e01ef":
        return True
    return "\ufe00" <= char <= "\ufe0f" and not (char in _STYLES and _is_emoji(before))


def hidden_marks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each character with whether it is hidden where it stands."""
    before = ""
    for at, char in enumerate(text):
        is_keycap = char == "\ufe0f" and before in tuple("0123456789#*") and text[at + 1 : at + 2] == "\u20e3"
        yield char, is_hidden(char, before) and not is_keycap
        before = char


def made_visible(text: str, keep: str = "\n") -> str:
    """Return the text with every hidden character written out, but those to keep."""
    if text.isascii() and text.isprintable():
        return text  # most texts; the characters of others are looked at one by one
    return "".join(written_out(char) if hidden and char not in keep else char for char, hidden in hidden_marks(text))


_BEFORE_CODE = re.compile(r"\\+(?=(x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})|(.))")


def with_codes_apart(text: str) -> str:
    """Return the text, for `made_visible`, with the backslashes doubled without which two texts would look the same.

    They are those before a hidden character, and before the code of one: ESC is shown as `\\x1b`, the four characters
    `\\x1b` as `\\\\x1b`.
    """
    return _BEFORE_CODE.sub(_doubled, text) if "\\" in text else text


def _doubled(found: re.Match[str]) -> str:
    code, char = found[1], found[2]
    if code is not None:
        char = chr(int(code[1:], 16))
        if char in "\n\t" or written_out(char) != f"\\{code}":
            return found[0]
    return found[0] * 2 if is_hidden(char) else found[0]


def cut(text: str, most: int) -> str:
    """Return the text with at most `most` characters: of a longer one the beginning, and its length."""
    if len(text) <= most:
        return text
    end = f"… ({len(text)} characters)"
    return text[: max(0, most - len(end))] + end


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value like those of JSON with all of its texts and names changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        return {each_text(name, change): each_text(inner, change) for name, inner in given.items()}
    if isinstance(value, list | tuple):
        inner = [each_text(one, change) for one in cast("Iterable[Any]", value)]
        return inner if isinstance(value, list) else tuple(inner)
    return value


def without_advice(text: str) -> str:
    """Return the text without a library's pointers to its own documentation, in which nobody finds what went wrong."""
    return _ADVICE.sub("", text)


def without_halves(text: str) -> str:
    """Return the text with the half characters written out, which no protocol carries."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _is_emoji(char: str) -> bool:
    if not char or char in _BLANK:
        return False
    return unicodedata.category(char) == "So" or char in _BASES or "\u2190" <= char <= "\u21ff"


def written_out(char: str) -> str:
    """Return the code of a character as a Python string would have it: `\\x1b`, `\\u202e`, `\\U000e0041`."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


WRITTEN = re.compile(r'\\(?:[\\"nt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})')
"""Character that is written out in a quoted name."""
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def shown_name(path: str) -> str:
    """Return a path for people, each of its names quoted where it has to be: `files/"a\\u200b.py"`."""
    return "/".join(_quoted(name) if "\\" in name or _is_unclear(name) else name for name in path.split("/"))


def shown_value(text: str) -> str:
    """Return a value on one line for people, quoted where it has to be. Unlike in a name, a backslash may stay."""
    return _quoted(text) if _is_unclear(text) else text


class KnownNames:
    """Paths that a person can name: each by itself, and as it is shown."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        shown = ((shown_name(path), path) for path in self._paths)
        self._by_shown = {name: path for name, path in shown if name != path}

    def meant(self, typed: str) -> list[str]:
        """Return the paths, at most two, that may be meant. After `./` it is the path itself and not what is shown."""
        exact = typed.removeprefix("./")
        found = [one for one in (typed, exact) if one in self._paths]
        if typed in self._by_shown:
            found.append(self._by_shown[typed])
        return list(dict.fromkeys(found))


def _quoted(text: str) -> str:
    """Return the text in quotation marks. A blank is written out at either end and beside another one."""
    is_plain = unicodedata.is_normalized("NFC", text)
    padded = f" {text} "
    parts: list[str] = []
    for at, (char, hidden) in enumerate(hidden_marks(text)):
        is_loose = char.isspace() and (char != " " or " " in (padded[at], padded[at + 2]))
        is_out = hidden or is_loose or (not is_plain and not char.isascii())
        parts.append(_SHORT.get(char) or (written_out(char) if is_out else char))
    return f'"{"".join(parts)}"'


def _is_unclear(text: str) -> bool:
    """Return whether a person could take the text for another one, or not see all of it."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text != text.strip() or text.startswith('"')
    if not unicodedata.is_normalized("NFC", text) or text != text.strip() or text.startswith('"') or "  " in text:
        return True
    return any(hidden or (char.isspace() and char != " ") for char, hidden in hidden_marks(text))


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
