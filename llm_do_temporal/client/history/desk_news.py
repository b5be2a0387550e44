"""News between a run's desk and an invocation: questions, withdrawals, votes and decisions.

Owns how a history tells them. To and from the workflows of other invocations they are signals. The entry invocation
and the desk are in one workflow, where the result of the local activity `record_at_desk` has the news.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.local_activities import local_effect
from llm_do_temporal.client.history.payloads import decode_json, first_object
from llm_do_temporal.messages.activities import LOAD_RUN, NOTIFY, READ_INPUTS, RECORD_AT_DESK
from llm_do_temporal.messages.base import (
    DELIVER_DECISION_SIGNAL,
    DELIVER_VOTES_SIGNAL,
    REQUEST_APPROVAL_SIGNAL,
    WITHDRAW_APPROVALS_SIGNAL,
)
from llm_do_temporal.storage.external_storage import is_kept_outside

NewsKind = Literal["asked", "withdrawn", "decided", "voted", "held", "undone", "ignored"]
"""Kinds of news: the fields of the message DeskRecord."""
DESK_ACTIVITIES = frozenset({LOAD_RUN.name, READ_INPUTS.name, NOTIFY.name, RECORD_AT_DESK.name})
"""Activities of a run itself, which are no effects of its entry invocation."""
_TO_DESK: Mapping[str, NewsKind] = {REQUEST_APPROVAL_SIGNAL: "asked", WITHDRAW_APPROVALS_SIGNAL: "withdrawn"}
_FROM_DESK: Mapping[str, NewsKind] = {DELIVER_DECISION_SIGNAL: "decided", DELIVER_VOTES_SIGNAL: "voted"}
_OF_DESK: tuple[NewsKind, ...] = ("held", "undone", "ignored")
"""News that the desk tells no invocation: of decisions that have not taken effect, and of signals that it ignored."""
_KINDS: tuple[NewsKind, ...] = ("asked", "withdrawn", "decided", "voted", *_OF_DESK)


@dataclass(frozen=True)
class DeskNews:
    """News as one event tells it."""

    kind: NewsKind
    value: Any
    """The message, as JSON: RequestApprovalInput, WithdrawApprovalsInput, DeliverDecisionInput, DeliverVotesInput,
    HoldNews, UndoNews or IgnoredDecision."""
    is_outside: bool = False
    """Whether the message is kept outside of the history, and not at hand."""

    @property
    def message(self) -> dict[str, Any]:
        """The message; empty where it is none, or cannot be read here."""
        return cast("dict[str, Any]", self.value) if isinstance(self.value, dict) else {}


def news_at_desk(event: HistoryEvent) -> DeskNews | None:
    """Return the news that this event of a run's history brings to the desk, or has from it; None for other events.

    A record that is kept outside and not at hand may be any news: it stands for a question.
    """
    return _received(event, _TO_DESK) or _sent(event, _FROM_DESK) or _recorded(event)


def news_at_invocation(event: HistoryEvent, *, is_entry: bool) -> DeskNews | None:
    """Return the news that this event of an invocation's history has from it, or brings to it; None for other events.

    `is_entry` says that the history is that of a run: signals in it are news of other invocations, or of nobody. A
    record that is kept outside and not at hand tells nothing.
    """
    if not is_entry:
        return _sent(event, _TO_DESK) or _received(event, _FROM_DESK)
    news = _recorded(event)
    return None if news is None or news.is_outside or news.kind in _OF_DESK else news


def ignored_signal(event: HistoryEvent) -> str | None:
    """Return why a signal to a run was ignored, if this event of the run's history records one; else None."""
    news = _recorded(event)
    return str(news.message.get("reason") or "") if news is not None and news.kind == "ignored" else None


def _received(event: HistoryEvent, kinds: Mapping[str, NewsKind]) -> DeskNews | None:
    signal = event.workflow_execution_signaled_event_attributes
    return _signalled(kinds.get(signal.signal_name), signal.input.payloads)


def _sent(event: HistoryEvent, kinds: Mapping[str, NewsKind]) -> DeskNews | None:
    signal = event.signal_external_workflow_execution_initiated_event_attributes
    return _signalled(kinds.get(signal.signal_name), signal.input.payloads)


def _signalled(kind: NewsKind | None, payloads: Sequence[Payload]) -> DeskNews | None:
    """Return the news in a signal; None where it has not one value, as both sides ignore it too."""
    if kind is None or len(payloads) != 1:
        return None
    return DeskNews(kind, decode_json(payloads[0]), is_kept_outside(payloads[0]))


def _recorded(event: HistoryEvent) -> DeskNews | None:
    local = local_effect(event)
    if local is None or local.activity != RECORD_AT_DESK.name or not local.result:
        return None
    if is_kept_outside(local.result[0]):
        return DeskNews("asked", None, is_outside=True)
    record = first_object(local.result)
    return next((DeskNews(kind, record[kind]) for kind in _KINDS if record.get(kind) is not None), None)
