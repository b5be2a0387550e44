"""Batch APIs of providers: which have one, and how often a batch is looked at.

Pure. A turn of a worker with `turns: batch` goes through them, in `activities/models/provider_batches/`.
"""

from __future__ import annotations

from datetime import timedelta

from llm_do_temporal.policy.models.ids import OFFLINE

PROVIDERS_WITH_BATCHES = ("anthropic", "google", "openai", "openai-responses")
"""Providers whose batch API the library speaks, as the part of a model's name before the colon."""
_SCRIPTS = (OFFLINE, "test:")
_PART_OF_AGE = 2
"""Divisor of a batch's age: one that runs for an hour is looked at less often than one that has just begun."""
_MOST_WAITS = 20
"""Longest time between two looks at a batch, in times between the first two."""


def has_batches(model: str) -> bool:
    """Return whether turns of a model, `provider:name`, can go through a batch API; scripts answer at once and cost
    nothing, so they can."""
    return model.startswith(_SCRIPTS) or model.partition(":")[0] in PROVIDERS_WITH_BATCHES


def next_look(age: timedelta, first: timedelta) -> timedelta:
    """Return the time to the next look at a batch of this age; `first` is the time to the first one.

    It grows with the age, up to twenty times the first.
    """
    return min(max(age / _PART_OF_AGE, first), first * _MOST_WAITS)
