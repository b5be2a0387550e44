"""Times of schedules in words, as people say them. A time that is not a simple one stays as it was given."""

from __future__ import annotations

import re
from datetime import timedelta

_SIMPLE = re.compile(r"(\d{1,2}) (\d{1,2}) (\*|\d{1,2}) \* (\*|\?|[0-7]|1-5)", re.ASCII)
"""Minute and hour, a day of the month or none, no month, and a weekday, the days from Monday to Friday, or none."""
_HOURLY = re.compile(r"(\d{1,2}) \* \* \* \*", re.ASCII)
_STEP = re.compile(r"\*/(\d{1,2}) \* \* \* \*", re.ASCII)
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def cron_words(cron: str) -> str:
    """Return a cron expression in words, like `Monday to Friday at 07:00`; as it is where that takes more words."""
    plain = " ".join(cron.split())
    if (hourly := _HOURLY.fullmatch(plain)) is not None:
        return f"every hour at :{int(hourly[1]):02d}"
    if (step := _STEP.fullmatch(plain)) is not None and int(step[1]) and 60 % int(step[1]) == 0:
        return f"every {step[1]} min"
    simple = _SIMPLE.fullmatch(plain)
    if simple is None or (simple[3] != "*" and simple[4] not in "*?"):
        return plain
    minute, hour, day, weekday = simple.groups()
    at = f"at {int(hour):02d}:{int(minute):02d}"
    if day != "*":
        return f"on day {day} of each month {at}"
    if weekday == "1-5":
        return f"Monday to Friday {at}"
    return f"every day {at}" if weekday in "*?" else f"every {_DAYS[int(weekday)]} {at}"


def every_words(every: timedelta) -> str:
    """Return the time from one run to the next in words, like `every 15 min` or `every 1 h 30 min`."""
    left, parts = int(every.total_seconds()), list[str]()
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return f"every {' '.join(parts)}"
