"""Decisions of a run on calls like one that is asked about. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from llm_do_temporal.client import Question
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput

MOST_SHOWN = 5


@dataclass(frozen=True)
class Precedents:
    """Calls of the same tool at the same place."""

    place: str
    """Folder, program or worker that they share; empty where it is the tool alone."""
    counts: dict[DecisionKind, int]
    """Decisions by kind; kinds that nobody chose are not there."""
    waiting: int
    """Other calls that wait for a decision."""
    newest: list[Question]
    """The newest decided ones, newest first, at most MOST_SHOWN."""


def precedents_of(question: Question, questions: Sequence[Question]) -> Precedents:
    """Return what became of the other calls, among the questions of the run, that are like this one."""
    place = place_of(question.request)
    like = [one for one in questions if one.id != question.id and one.request.tool == question.request.tool]
    like = [one for one in like if place_of(one.request) == place]
    decided = [(one, one.verdict) for one in like if one.verdict is not None]
    counts = {kind: sum(verdict.decision is kind for _, verdict in decided) for kind in DecisionKind}
    newest = sorted(decided, key=lambda pair: pair[1].at, reverse=True)[:MOST_SHOWN]
    return Precedents(
        place=place,
        counts={kind: count for kind, count in counts.items() if count},
        waiting=sum(one.is_open for one in like),
        newest=[one for one, _ in newest],
    )


def place_of(request: RequestApprovalInput) -> str:
    """Return the folder, the program or the worker that a call is about; empty if it is about none of these."""
    for use in request.capabilities:
        payload: dict[str, Any] = dict(use.payload)
        argv = payload.get("argv")
        if isinstance(argv, list | tuple) and argv:
            return str(argv[0])  # pyright: ignore[reportUnknownArgumentType]
        if use.name.startswith("sandbox.") and isinstance(payload.get("path"), str):
            return str(PurePosixPath(payload["path"]).parent)
        if use.name == "worker.call":
            return str(payload.get("worker", ""))
    return ""
