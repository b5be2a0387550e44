"""The names of all variables of ours, and what is said of one that is nearly such a name.

A variable that nobody reads is silent: where it was to name a key, everything would be kept in plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extension import service_settings

PREFIX = "LLM_DO_"
ISOLATION_VARIABLE = "LLM_DO_ISOLATION"
"""Demand of the worker service if commands cannot be isolated; a workshop can demand more and not less."""
KEY_FILE_VARIABLE = "LLM_DO_ENCRYPTION_KEY_FILE"
"""Names a file with encryption keys, one a line. It is read again when it has changed."""
TOKEN_VARIABLE = "LLM_DO_TOKEN"  # noqa: S105 - its name
"""Token with which `mcp` speaks for its owner; without one it speaks for a program of this machine."""
UI_URL_VARIABLE = "LLM_DO_UI_URL"
"""Names the address of the web page, where the workshop has no `ui_url`."""
UNDO_VARIABLE = "LLM_DO_UNDO_SECONDS"
"""Seconds for which the page and `approvals watch` hold a decision, so that it can be taken back; 0: not at all."""
DEFAULT_UNDO_SECONDS = 10
MAX_UNDO_SECONDS = 60
"""Longest time for which a decision may be held: its run waits meanwhile."""
_NAMES = """
    BLOBS_URL DEBUG ENCRYPTION ENCRYPTION_KEYS ENCRYPTION_KEY_FILE ISOLATION MODEL NOTIFY SETTINGS TASK_QUEUE TOKEN
    UI_URL UNDO_SECONDS WORKSHOP
    BATCH_CHECK_SECONDS BATCH_WINDOW_SECONDS
    GRACEFUL_SHUTDOWN_SECONDS HEALTH_PORT LISTEN LOG_FORMAT LOG_LEVEL MAX_CACHED_WORKFLOWS
    MAX_CONCURRENT_ACTIVITIES MAX_CONCURRENT_WORKFLOW_TASKS METRICS_PORT ONLY
    TARGET_CPU TARGET_MEMORY VERSIONING
"""
"""Variables that every process of ours reads, then those that only the worker service reads."""
KNOWN: frozenset[str] = frozenset(PREFIX + name for name in _NAMES.split())
_ALIKE = 0.85
_NUMBERED = re.compile(r"_?\d+$")
"""Endings that may follow a name of ours, for people who keep several values of their own."""
_LETTERS_APART = 3
"""So many letters, added or left out, are a mistake; one that is exchanged counts as two."""


def undo_seconds(environment: Mapping[str, str]) -> int:
    """Return the seconds for which a person's decision is held. Raises UsageError for a value that is none."""
    text = environment.get(UNDO_VARIABLE, "").strip()
    if not text:
        return DEFAULT_UNDO_SECONDS
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and int(text) <= MAX_UNDO_SECONDS):
        raise UsageError(
            f"{UNDO_VARIABLE} is {text[:40]!r}; it is a number of seconds from 0 to {MAX_UNDO_SECONDS}",
            next_step=f"Set it to 0 to let decisions take effect at once, or leave it out for {DEFAULT_UNDO_SECONDS}.",
        )
    return int(text)


def check_spelling(environment: Iterable[str]) -> None:
    """Raise UsageError for a variable that is nearly one of ours. Others may be a key's, or of another program."""
    every = KNOWN | {PREFIX + name.upper() for name in service_settings()}
    for name in environment:
        if not name.startswith(PREFIX) or _NUMBERED.sub("", name) in every:
            continue
        if meant := next((known for known in sorted(every) if _is_nearly(name, known)), None):
            raise UsageError(f"the variable {name} is none that is known; did you mean {meant}?")


def _is_nearly(name: str, known: str) -> bool:
    one, other = name.removeprefix(PREFIX), known.removeprefix(PREFIX)
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    length, common = len(one) + len(other), 2 * sum(block.size for block in blocks)
    return length - common <= _LETTERS_APART and common >= _ALIKE * length
