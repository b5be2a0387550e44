"""Meanings of keys, as the reference pages have them: `scripts/pages/key_meanings.py` writes the file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

MEANINGS_FILE = "llm_do_temporal/definitions/schemas/meanings.json"
"""The file, in a checkout."""


@cache
def key_meanings() -> dict[str, dict[str, str]]:
    """Return the meaning of each key, by the name of its model and its own."""
    return json.loads(Path(__file__).with_name("meanings.json").read_text("utf-8"))
