"""Words of a turn are said once, in whole words, whatever comes of the turn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from llm_do_temporal.extensions.acp.session import ANEW, LiveWords
from llm_do_temporal.messages.conversation import LiveText

AT = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
TURN = "2026-01-02T03:04:05.678Z"
KEY = "sk-0123456789abcdef"


def tail(
    text: str, *, said: int | None = None, part: str = "text", attempt: int = 1, at: datetime | None = AT
) -> LiveText:
    """A tail that ends with a text of which all is at hand."""
    chars = len(text) if said is None else said
    facts = {"text": text, "chars": chars, "part": part, "attempt": attempt, "said": chars, "asked_at": at}
    return LiveText.model_validate({**facts, "part_chars": min(len(text), chars)})


@pytest.fixture
def words() -> LiveWords:
    """A turn that has begun."""
    found = LiveWords()
    assert found.begin(TURN) == ""
    return found


def test_each_word_is_said_when_it_is_whole_and_the_rest_at_the_end(words: LiveWords) -> None:
    said = [words.take(tail(text)) for text in ("on", "one ", "one tw", "one two three", "one two three")]
    assert said == ["", "one ", "", "two ", ""]
    assert words.end("one two three four") == "three four"
    assert not words.is_open


def test_a_text_without_spaces_comes_as_it_is_written(words: LiveWords) -> None:
    assert words.take(tail("一二三")) == "一二三"
    assert words.end("一二三四") == "四"


def test_a_key_is_not_said_in_pieces(words: LiveWords) -> None:
    assert words.take(tail(f"It is {KEY[:8]}")) == "It is "
    assert KEY[:8] not in words.take(tail(f"It is {KEY}"))
    # With the key whole the tail has it taken out, and says so.
    assert words.take(LiveText(text="It is [key] now", chars=28, said=28, asked_at=AT)) == ""
    assert words.end("It is [key] now") == "[key] now"


@pytest.mark.parametrize(
    "other",
    [
        None,
        tail("one two ", at=None),
        tail("one two ", at=AT.replace(second=6)),
        tail("one two ", part="thinking"),
        tail("one two ", part="tool-call"),
        # so much was written at once that the tail does not reach back to what was said
        tail("one two ", said=5_000),
    ],
)
def test_what_is_not_of_the_turn_or_not_at_hand_is_not_said(words: LiveWords, other: LiveText | None) -> None:
    assert words.take(other) == ""
    assert words.end("one two three") == "one two three"


def test_another_attempt_begins_anew_and_says_so(words: LiveWords) -> None:
    assert words.take(tail("one two ")) == "one two "
    assert words.take(tail("eins zwei ", attempt=2)) == f"{ANEW}eins zwei "
    assert words.end("eins zwei drei") == "drei"


def test_an_answer_that_is_not_what_was_said_is_said_whole(words: LiveWords) -> None:
    words.take(tail("one two "))
    assert words.end("eins zwei") == f"{ANEW}eins zwei"


def test_a_turn_that_came_to_nothing_is_told_when_the_next_begins(words: LiveWords) -> None:
    words.take(tail("one two "))
    assert words.begin("2026-01-02T03:04:06.000Z") == ANEW
    assert words.take(tail("one two three ")) == ""
