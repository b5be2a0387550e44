"""Plans of schedules: what `--cron` and the lengths of time take, and both in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from llm_do_temporal.cli.options import read_duration_flag
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.schedules.schedules import (
    CRON_NAMES,
    OVERLAPS,
    Meeting,
    MeetingFate,
    SchedulePlan,
    cron_words,
    every_words,
)


@pytest.mark.parametrize("cron", ["0 7 * * 1-5", "*/5 0,12 1 JAN mon", *CRON_NAMES])
def test_five_fields_and_the_names_for_them_are_kept_as_they_were_given(cron: str) -> None:
    assert list(SchedulePlan(cron=(cron,)).spec.cron_expressions) == [f"{cron} # {cron}"]


def test_spaces_between_fields_do_not_count() -> None:
    plan = SchedulePlan(cron=(" 0  7 *\t* 1-5 ",), timezone="Europe/Berlin")
    assert list(plan.spec.cron_expressions) == ["0 7 * * 1-5 # 0 7 * * 1-5"]


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("", "has not five fields but 0"),
        ("x", "has not five fields but 1"),
        ("1 2 3", "has not five fields but 3"),
        ("0 7 * * * 2030", "has not five fields but 6"),
        ("0 0 7 * * * 2030", "has not five fields but 7"),
        ("CRON_TZ=Europe/Berlin 0 7 * * *", "has not five fields but 6"),
        ("@never", "has not five fields but 1"),
        ("@DAILY", "has not five fields but 1"),
        ("@daily 1", "has not five fields but 2"),
        ("0 7 * * * # x", "has a '#', and takes no comment"),
        ("0 7 * * *#x", "has a '#', and takes no comment"),
        ("0 7 * * 1#2", "has a '#', and takes no comment"),
        ("# 7 * * *", "has a '#', and takes no comment"),
        ("@daily # x", "has a '#', and takes no comment"),
    ],
)
def test_what_is_not_five_fields_is_refused_with_what_they_are(cron: str, words: str) -> None:
    for given in ((cron,), ("0 7 * * *", cron)):
        with pytest.raises(UsageError) as refused:
            SchedulePlan(cron=given)
        assert refused.value.message == f"--cron '{cron}' {words}"
        assert "minute, hour, day, month and weekday" in (refused.value.next_step or "")


@pytest.mark.parametrize("cron", ["@every 1s", "@every 5m/1m", " @every  1h", "@every", "@every 1s # x"])
@pytest.mark.parametrize("timezone", ["", "Europe/Berlin"])
def test_a_length_of_time_is_no_time_of_a_zone(cron: str, timezone: str) -> None:
    with pytest.raises(UsageError, match="is a length of time, for which no time zone counts") as refused:
        SchedulePlan(cron=(cron,), timezone=timezone)
    assert refused.value.next_step == "Give it as --every, like --every 90s."


@pytest.mark.parametrize("flag", ["--every", "--jitter", "--catch-up"])
@pytest.mark.parametrize("text", ["99999999999999999999d", "3661d", "87841h", f"{'9' * 5_000}s"])
def test_a_length_of_time_of_more_than_ten_years_is_refused_in_words(text: str, flag: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_duration_flag(text, flag)
    assert refused.value.message == f"{flag} {text[:40]}: '{text[:40]}' is too long; a time is at most 3660 days"
    assert read_duration_flag("3660d", flag) == timedelta(days=3_660)


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


NONE, ONE_GOES_ON, ONE_WAITS = ((), 0), (("first",), 0), (("first",), 1)
BEGINS, WAITS, SKIPPED, REPLACES = MeetingFate.BEGINS, MeetingFate.WAITS, MeetingFate.SKIPPED, MeetingFate.REPLACES


@pytest.mark.parametrize(
    ("overlap", "beside_one", "behind_one"),
    [
        ("skip", SKIPPED, SKIPPED),
        ("buffer-one", WAITS, SKIPPED),
        ("buffer-all", WAITS, WAITS),
        ("cancel-other", REPLACES, REPLACES),
        ("terminate-other", REPLACES, REPLACES),
        ("allow-all", BEGINS, BEGINS),
    ],
)
def test_a_policy_says_the_fate_of_one_more_run(overlap: str, beside_one: MeetingFate, behind_one: MeetingFate) -> None:
    assert overlap in OVERLAPS
    found = [Meeting(overlap, *runs).fate for runs in (NONE, ONE_GOES_ON, ONE_WAITS)]
    assert found == [BEGINS, beside_one, behind_one]
