"""What is known of a model turn while its answer is written: details of the turn's heartbeats, in no history."""

from __future__ import annotations

from typing import Literal

from llm_do_temporal.messages.base import Message

TAIL_CHARS = 4_000
"""How much of the answer a heartbeat carries: its end."""


class LiveText(Message):
    """The answer so far."""

    text: str
    """The end of all its parts: thinking, text, calls of tools as `name` and their arguments."""
    chars: int
    """How long all of it is."""
    attempt: int = 1
    """Which attempt writes it. The server keeps what an attempt said until the next one says something."""
    part: Literal["text", "thinking", "tool-call"] = "text"
    """What is being written."""
