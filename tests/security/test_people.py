"""One person is one, however the name is spelled."""

from __future__ import annotations

import unicodedata

import pytest

from llm_do_temporal.policy.approvals import person

SAME = {
    "composed and not": (unicodedata.normalize("NFC", "Zoë"), unicodedata.normalize("NFD", "Zoë")),
    "zero width space": ("ada", "a\u200bda"),
    "zero width joiner": ("ada", "ad\u200da"),
    "word joiner": ("ada", "ada\u2060"),
    "byte order mark": ("ada", "\ufeffada"),
    "soft hyphen": ("ada", "a\u00adda"),
    "right to left mark": ("ada", "ada\u200f"),
    "variation selector": ("ada", "ada\ufe0f"),
    "combining joiner": ("ada", "a\u034fda"),
    "hangul filler": ("ada", "ada\u3164"),
    "tag": ("ada", "ada\U000e0061"),
    "control": ("ada", "ada\x00"),
    "fullwidth": ("ada", "\uff41\uff44\uff41"),
    "mathematical": ("ada", "\U0001d41a\U0001d41d\U0001d41a"),
    "fullwidth capitals": ("ada", "\uff21\uff24\uff21"),
    "ligature": ("fiona", "\ufb01ona"),
    "no-break space": ("ada b", "ada\u00a0b"),
    "two spaces": ("ada b", "ada  b"),
    "sharp s": ("strauß", "STRAUSS"),
    "dotted capital, decomposed": ("\u0130da", "I\u0307da"),
}
NOBODY = ["\u200b", "\ufeff \u2060", "\u3164", "\x00", "\ufe0f"]


@pytest.mark.parametrize("spelled", SAME)
def test_two_spellings_of_a_name_are_one_person(spelled: str) -> None:
    one, other = SAME[spelled]
    assert person(one) == person(other) == person(person(other))


@pytest.mark.parametrize("name", NOBODY, ids=ascii)
def test_a_name_that_shows_nothing_is_nobody(name: str) -> None:
    assert not person(name)


@pytest.mark.control
def test_two_people_are_two() -> None:
    assert len({person(one) for one in ("Ada", "Adá", "Bob", "ada@example.org", "李")}) == 5
