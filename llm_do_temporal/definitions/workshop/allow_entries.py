"""Entries of `approvals: allow:`, put into the text of a `workshop.yaml` that keeps its comments, order and style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_do_temporal.definitions.yaml.additions import ListPlace
from llm_do_temporal.workshop_search import WORKSHOP_FILE

_ALLOW = ListPlace(WORKSHOP_FILE, ("approvals", "allow"))


def with_allow_entries(text: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a `workshop.yaml` with more entries at the end of `approvals: allow:`.

    Raises UsageError where the text is no valid YAML, or is written in a way that has no place for them.
    """
    return _ALLOW.with_items(text, entries)
