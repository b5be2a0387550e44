"""Answers that are known before their questions are asked: of an evaluation's case, or of the run that a fork is of."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_empty, is_none


class ScriptedAnswer(Message):
    """Answer of the desk to the questions that it fits, of which the first that fits is taken."""

    tool: str = ""
    """Tool of the question; empty: any."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that the question is about; empty: any call."""
    shown: str = Field(default="", exclude_if=is_empty)
    """Digest of what the question shows, whoever asks; empty: whatever it shows."""
    decision: Literal["approve", "reject", "modify"]
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """Arguments in the place of the call's, for `modify`."""
    note: str = ""
    """Reason that the model is told, for `reject`."""
    by: str = ""
    """Name of the person who decided, or of the script."""
    source: str = Field(default="", exclude_if=is_empty)
    """Approval that it comes from, like `RUN a3`; empty: it was written for this run."""
    left: int | None = Field(default=None, exclude_if=is_none)
    """Number of questions that it still answers; None: any number."""
