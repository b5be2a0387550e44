"""The one facade that the command line, the web page and programmers use.

Speaks to Temporal only. Never imports workflow or activity code, nor Pydantic AI: whoever asks what is
pending must not wait for them.
"""

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
