from __future__ import annotations

from itertools import product

import pytest

from llm_do_temporal.cli.text import visible_block, visible_line, visible_source

HOSTILE = [
    # what a model wrote, what a person sees
    ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),  # clears the screen
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),  # renames the window
    ("a\rb", "a\\x0db"),  # overwrites the line
    ("a\x08b", "a\\x08b"),  # rubs out
    ("\x9b31m", "\\x9b31m"),  # a one-byte escape sequence
    ("user\u202egnp.exe", "user\\u202egnp.exe"),  # reverses what is read
    ("pay\u200bpal", "pay\\u200bpal"),  # hides a space
    ("line\u2028break", "line\\u2028break"),
    ("\udc80", "\\udc80"),  # half a character, which no encoding can print
    ("\U000e0041", "\\U000e0041"),  # an invisible tag character
]


@pytest.mark.parametrize(("written", "seen"), HOSTILE)
def test_what_a_terminal_would_obey_is_written_out(written: str, seen: str) -> None:
    assert visible_block(written) == seen
    assert visible_line(written) == seen


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    text = "Grüße, 你好, שלום, 👍 — fine."
    assert visible_block(text) == text


def test_a_block_keeps_its_lines_and_windows_line_ends_become_plain_ones() -> None:
    assert visible_block("a\r\nb\n\tc") == "a\nb\n    c"


def test_a_line_stays_one_line() -> None:
    assert visible_line("a\nb\tc") == "a\\nb\\tc"


def test_a_long_line_is_cut() -> None:
    assert visible_line("x" * 50, limit=10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\\x1b[2J", "\\\\x1b[2J"),
        ("\\\x1b", "\\\\\\x1b"),
        ("\\u202e \\ud800 \\U000e0041", "\\\\u202e \\\\ud800 \\\\U000e0041"),
        # No character is ever written out so, and there is nothing to be taken for another.
        ("C:\\new\\x41 \\u00e9 \\u001b \\x0a \\U00110000 a\\", "C:\\new\\x41 \\u00e9 \\u001b \\x0a \\U00110000 a\\"),
    ],
)
def test_a_hidden_character_and_its_code_look_different(text: str, seen: str) -> None:
    assert visible_source(text) == visible_block(text) == seen


def test_of_many_texts_no_two_look_the_same() -> None:
    codes = ("\x1b", "\\x1b", "x1b", "\u200b", "\\u200b", "\ufe0f", "\\ufe0f", "\U000e0041", "\r", "\\x0d")
    parts = ("", "a", "\\", "\n", "n", *codes)
    texts = {"".join(pieces) for pieces in product(parts, repeat=4)}
    assert len({visible_source(text) for text in texts}) == len(texts)
