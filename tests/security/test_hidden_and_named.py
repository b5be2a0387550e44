"""Names of hosts with marks and symbols, and variants that are drawn as nothing, in text of models."""

from __future__ import annotations

import pytest

from llm_do_temporal.cli.text import visible_block, visible_line
from llm_do_temporal.redaction.hidden_characters import inert
from llm_do_temporal.ui.content.forms import editable_json
from llm_do_temporal.ui.content.renderer import visible

NAMES = [
    "cafe\u0301.com",
    "\U0001f4a9.la",
    "i\u2764.ws/x",
    "i\u2764\ufe0f.ws",
    "evil\ufe0f.com",
    "evil.md\ufe0f/login",
    "\u0939\u093f\u0928\u094d\u0926\u0940.com",
    "\u092d\u093e\u0930\u0924.\u092d\u093e\u0930\u0924",
    "x.\u0cad\u0cbe\u0cb0\u0ca4",
    "evil\u2024com",
    "evil\ufe52com",
    "l\u00b7.cat",
    "\u4e2d\u30fb.jp",
    "evil.\u0301com",
    "x.\u0b87\u0bb2\u0b99\u0bcd\u0b95\u0bc8",
    "\u0e2b\u0e19\u0e49\u0e32.com",
    "\u2603.net",
    "evil.c\u0301om",
]


@pytest.mark.parametrize("text", NAMES, ids=ascii)
def test_a_name_with_marks_and_symbols_is_dead(text: str) -> None:
    assert "[" in inert(f"open {text} now")


@pytest.mark.control
@pytest.mark.parametrize(
    "text",
    [
        "notes.md",
        "(notes.md)",
        "3.5 and 1,000.5",
        "e.g. this",
        "\u2764\ufe0f 1\ufe0f\u20e3 \u2194\ufe0f",
        "so\u2026 yes. No",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert inert(text) == text
    assert visible(text) == text
    assert visible_block(text) == text


@pytest.mark.parametrize("code", [*range(0xFE00, 0xFE10), 0xE0100, 0xE01EF], ids=hex)
def test_a_variant_between_letters_is_written_out_everywhere(code: int) -> None:
    text = f"ev{chr(code)}il"
    for shown in (inert(text), visible(text), visible_block(text), visible_line(text), editable_json(text)):
        assert chr(code) not in shown


@pytest.mark.parametrize("text", ["\u2764\ufe0f\ufe0f", "\u2764\ufe00", "\ufe0f", "1\ufe0f", "\u2800\ufe0f"], ids=ascii)
def test_a_variant_that_changes_no_emoji_is_written_out(text: str) -> None:
    assert "\\ufe0" in visible_block(text)
