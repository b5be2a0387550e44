"""Which providers have batch APIs, and when a batch is looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest

from llm_do_temporal.policy.models.provider_batches import has_batches, next_look


@pytest.mark.parametrize(
    ("model", "has"),
    [
        ("openai:gpt-5", True),
        ("openai-responses:gpt-5", True),
        ("anthropic:claude-sonnet-5-5", True),
        ("google:gemini-2.5-pro", True),
        # the library batches responses, and no chat completions
        ("openai-chat:gpt-4o", False),
        ("google-cloud:gemini-2.5-pro", False),
        ("groq:llama", False),
        # scripts answer at once
        ("offline:echo", True),
        ("test:x", True),
    ],
)
def test_three_providers_have_batches(model: str, has: bool) -> None:
    assert has_batches(model) is has


@pytest.mark.parametrize(
    ("age", "wait"),
    [
        (0, 30),
        (59, 30),
        # half of its age
        (120, 60),
        (1_200, 600),
        # at most twenty times the first
        (80_000, 600),
    ],
)
def test_an_old_batch_is_looked_at_less_often(age: int, wait: int) -> None:
    assert next_look(timedelta(seconds=age), timedelta(seconds=30)) == timedelta(seconds=wait)
