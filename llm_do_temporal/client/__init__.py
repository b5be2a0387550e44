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
    from llm_do_temporal.client.reviews.choice import ReviewChoice
    from llm_do_temporal.client.reviews.desk import ChangeOrigin, read_origin, read_patch
    from llm_do_temporal.client.reviews.review import Preview, Review, ReviewChange, ShownDiff
    from llm_do_temporal.client.views.inbox import InboxContents, InboxEntry, LockedRun, OpenQuestions
    from llm_do_temporal.client.views.run_list import RunSummary
    from llm_do_temporal.client.views.run_view import Node, RunView
    from llm_do_temporal.extensions.review.policy.answer import LineComment, ReviewAnswer

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
    "ChangeOrigin": "llm_do_temporal.client.reviews.desk",
    "Connection": "llm_do_temporal.client.connections",
    "Fate": "llm_do_temporal.client.decisions",
    "FrozenQuestion": "llm_do_temporal.client.decisions",
    "InboxContents": "llm_do_temporal.client.views.inbox",
    "InboxEntry": "llm_do_temporal.client.views.inbox",
    "LineComment": "llm_do_temporal.extensions.review.policy.answer",
    "LlmDoClient": "llm_do_temporal.client.client",
    "LockedRun": "llm_do_temporal.client.views.inbox",
    "Node": "llm_do_temporal.client.views.run_view",
    "OfferedKind": "llm_do_temporal.client.decisions",
    "OpenQuestions": "llm_do_temporal.client.views.inbox",
    "Preview": "llm_do_temporal.client.reviews.review",
    "Question": "llm_do_temporal.client.history.questions",
    "QuestionOutcome": "llm_do_temporal.client.decisions",
    "Review": "llm_do_temporal.client.reviews.review",
    "ReviewAnswer": "llm_do_temporal.extensions.review.policy.answer",
    "ReviewChange": "llm_do_temporal.client.reviews.review",
    "ReviewChoice": "llm_do_temporal.client.reviews.choice",
    "RunSummary": "llm_do_temporal.client.views.run_list",
    "RunView": "llm_do_temporal.client.views.run_view",
    "ShownDiff": "llm_do_temporal.client.reviews.review",
    "connect": "llm_do_temporal.client.connections",
    "offered_kinds": "llm_do_temporal.client.decisions",
    "read_kinds": "llm_do_temporal.client.decisions",
    "read_origin": "llm_do_temporal.client.reviews.desk",
    "read_patch": "llm_do_temporal.client.reviews.desk",
}
_ADDED = added_names(__name__)
__all__ += [*_ADDED]  # pyright: ignore[reportUnsupportedDunderAll] - those that are installed
__getattr__ = late_names(__name__, _HOMES | _ADDED)
