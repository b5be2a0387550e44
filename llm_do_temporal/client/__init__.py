"""The one facade that the command line, the web page and programmers use.

Speaks to Temporal only. Never imports workflow or activity code, nor Pydantic AI: whoever asks what is
pending must not wait for them. Each name is loaded when it is first used: a worker service needs few of the modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_do_temporal.extension import added_names
from llm_do_temporal.late_names import late_names

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient
    from llm_do_temporal.client.connections import Connection, connect
    from llm_do_temporal.client.decisions import (
        Fate,
        FrozenQuestion,
        OfferedKind,
        QuestionOutcome,
        offered_kinds,
        read_kinds,
    )
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.open_questions import InboxContents, InboxEntry, LockedRun, OpenQuestions
    from llm_do_temporal.client.views.run_list import RunSummary
    from llm_do_temporal.client.views.run_view import Node, RunView

__all__ = [
    "Connection",
    "Fate",
    "FrozenQuestion",
    "InboxContents",
    "InboxEntry",
    "LlmDoClient",
    "LockedRun",
    "Node",
    "OfferedKind",
    "OpenQuestions",
    "Question",
    "QuestionOutcome",
    "RunSummary",
    "RunView",
    "connect",
    "offered_kinds",
    "read_kinds",
]
_NAMES = {
    "client": ("LlmDoClient",),
    "connections": ("Connection", "connect"),
    "decisions": ("Fate", "FrozenQuestion", "OfferedKind", "QuestionOutcome", "offered_kinds", "read_kinds"),
    "history.questions": ("Question",),
    "open_questions": ("InboxContents", "InboxEntry", "LockedRun", "OpenQuestions"),
    "views.run_list": ("RunSummary",),
    "views.run_view": ("Node", "RunView"),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names} | added_names(__name__)
__all__ += [name for name in _HOMES if name not in __all__]  # pyright: ignore[reportUnsupportedDunderAll] - installed
__getattr__ = late_names(__name__, _HOMES)
