"""Pages of capabilities that every page names at its top, and those that are tabs of the page of runs."""

from __future__ import annotations

import pytest

from llm_do_temporal.extension import installed
from llm_do_temporal.ui.content.urls import place_words


@pytest.mark.extension("charts", "evaluations", "schedules")
def test_pages_of_capabilities_are_at_the_top_or_tabs() -> None:
    found = {entry.title: entry.under for one in installed() for entry in one.navigation()}
    assert (found["Evaluations"], found["Schedules"], found["Charts"]) == ("", "", "/runs")
    assert place_words("/schedules/nightly") == "a schedule"
