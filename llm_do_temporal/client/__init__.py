"""The one facade that the command line, the web page and programmers use.

Speaks to Temporal only. Never imports workflow or activity code, nor Pydantic AI: whoever asks what is
pending must not wait for them.
"""

from llm_do_temporal.client.connecting import Connection, connect
from llm_do_temporal.client.inbox import InboxContents, InboxEntry, LockedRun
from llm_do_temporal.client.questions import Question
from llm_do_temporal.client.runs import LlmDoClient, RunSummary
from llm_do_temporal.client.view import Node, RunView

__all__ = [
    "Connection",
    "InboxContents",
    "InboxEntry",
    "LlmDoClient",
    "LockedRun",
    "Node",
    "Question",
    "RunSummary",
    "RunView",
    "connect",
]
