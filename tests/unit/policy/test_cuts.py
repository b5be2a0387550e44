"""Reasons why an answer has no end, by what a provider called its end, and in words."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.cuts import cut_reason, cut_words


@pytest.mark.parametrize(
    ("finish_reason", "reason"),
    [
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("stop", None),
        ("tool_call", None),
        ("error", None),
        (None, None),
    ],
)
def test_only_a_limit_and_a_filter_cut_an_answer(finish_reason: str | None, reason: str | None) -> None:
    assert cut_reason(finish_reason) == reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", "the answer was cut off at its provider's limit"),
        ("content_filter", "the answer was cut off by its provider's content filter"),
        ("weather", "the answer was cut off"),
        (None, "the answer was cut off"),
        (["length"], "the answer was cut off"),
    ],
)
def test_a_reason_of_any_kind_has_words(reason: Any, words: str) -> None:
    assert cut_words(reason) == words
