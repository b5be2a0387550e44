"""Times of schedules in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from llm_do_temporal.client.schedules.times import cron_words, every_words


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 7 * * 1-5", "Monday to Friday at 07:00"),
        ("30 18 * * *", "every day at 18:30"),
        ("0  7 *  * 0", "every Sunday at 07:00"),
        ("0 7 * * 7", "every Sunday at 07:00"),
        ("5 0 31 * *", "on day 31 of each month at 00:05"),
        ("5 * * * *", "every hour at :05"),
        ("*/15 * * * *", "every 15 min"),
        # No words are simpler than these, or would be right.
        ("*/25 * * * *", "*/25 * * * *"),
        ("*/0 * * * *", "*/0 * * * *"),
        ("0 7 1 1 *", "0 7 1 1 *"),
        ("0 7 13 * 5", "0 7 13 * 5"),
        ("0 7,8 * * *", "0 7,8 * * *"),
        ("@daily", "@daily"),
        ("\u0661 7 * * *", "\u0661 7 * * *"),
        ("", ""),
    ],
)
def test_simple_times_have_words_and_others_stay_as_they_are(cron: str, words: str) -> None:
    assert cron_words(cron) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90, "every 1 min 30 s"), (5_400, "every 1 h 30 min"), (86_400, "every 1 d"), (1, "every 1 s")],
)
def test_lengths_of_time_are_told_in_their_units(seconds: int, words: str) -> None:
    assert every_words(timedelta(seconds=seconds)) == words
