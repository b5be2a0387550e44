"""The one facade that the command line, the web page and programmers use.

Speaks to Temporal only. Never imports workflow or activity code, nor Pydantic AI: whoever asks what is
pending must not wait for them. Each name is loaded when it is first used: a worker service needs few of the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llm_do_temporal.client.client import LlmDoClient, RunSummary
    from llm_do_temporal.client.connection.connect import Connection, connect
    from llm_do_temporal.client.decisions import Fate, FrozenQuestion, QuestionOutcome
    from llm_do_temporal.client.history.questions import Question
    from llm_do_temporal.client.offers import OfferedKind, offered_kinds, read_kinds
    from llm_do_temporal.client.reviews.choice import ReviewChoice
    from llm_do_temporal.client.reviews.contents import Preview, ShownDiff
    from llm_do_temporal.client.reviews.desk import ChangeOrigin, read_origin
    from llm_do_temporal.client.reviews.patch import read_patch
    from llm_do_temporal.client.reviews.review import Review, ReviewChange
    from llm_do_temporal.client.views.inbox import InboxContents, InboxEntry, LockedRun, OpenQuestions
    from llm_do_temporal.client.views.run_view import Node, RunView
    from llm_do_temporal.policy.layers.answer import LineComment, ReviewAnswer

__all__ = [
    "ChangeOrigin",
    "Connection",
    "Fate",
    "FrozenQuestion",
    "InboxContents",
    "InboxEntry",
    "LineComment",
    "LlmDoClient",
    "LockedRun",
    "Node",
    "OfferedKind",
    "OpenQuestions",
    "Preview",
    "Question",
    "QuestionOutcome",
    "Review",
    "ReviewAnswer",
    "ReviewChange",
    "ReviewChoice",
    "RunSummary",
    "RunView",
    "ShownDiff",
    "connect",
    "offered_kinds",
    "read_kinds",
    "read_origin",
    "read_patch",
]
_HOMES = {
    "ChangeOrigin": "client.reviews.desk",
    "Connection": "client.connection.connect",
    "Fate": "client.decisions",
    "FrozenQuestion": "client.decisions",
    "InboxContents": "client.views.inbox",
    "InboxEntry": "client.views.inbox",
    "LineComment": "policy.layers.answer",
    "LlmDoClient": "client.client",
    "LockedRun": "client.views.inbox",
    "Node": "client.views.run_view",
    "OfferedKind": "client.offers",
    "OpenQuestions": "client.views.inbox",
    "Preview": "client.reviews.contents",
    "Question": "client.history.questions",
    "QuestionOutcome": "client.decisions",
    "Review": "client.reviews.review",
    "ReviewAnswer": "policy.layers.answer",
    "ReviewChange": "client.reviews.review",
    "ReviewChoice": "client.reviews.choice",
    "RunSummary": "client.client",
    "RunView": "client.views.run_view",
    "ShownDiff": "client.reviews.contents",
    "connect": "client.connection.connect",
    "offered_kinds": "client.offers",
    "read_kinds": "client.offers",
    "read_origin": "client.reviews.desk",
    "read_patch": "client.reviews.patch",
}


def __getattr__(name: str) -> Any:
    """Return the public name, from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"llm_do_temporal.{_HOMES[name]}"), name)
