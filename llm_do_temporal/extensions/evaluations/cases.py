"""Facts of a case, read from the histories of its run and from its layer, and from nothing else.

Owns what of a history is a call and what became of it. Called by the activity that scores a case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.history.events import first_object, read_message
from llm_do_temporal.client.history.invocations import Beginnings
from llm_do_temporal.client.history.questions import news_at_invocation
from llm_do_temporal.client.record.facts import Story
from llm_do_temporal.client.views.follower import Follower
from llm_do_temporal.client.views.run_view import RunView
from llm_do_temporal.client.views.transcripts import Entry, Transcriber
from llm_do_temporal.errors import EffectFailed
from llm_do_temporal.extensions.evaluations.messages import CaseReading
from llm_do_temporal.extensions.evaluations.policy.scores import (
    CaseCall,
    CaseError,
    CaseFacts,
    CaseFile,
    CaseUsage,
    Outcome,
)
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.policy.files.sandbox import Tree, path_in_tree
from llm_do_temporal.policy.layers.layer import CarriedLayer, LayerNode, NodeKind, changes_of
from llm_do_temporal.policy.models import cut_reason
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore

OUTPUT_TOOL = "final_result"
"""Name under which a model gives a structured result: no call of a tool."""
MAX_TEXT_BYTES = 64 * 1024
"""Largest file whose text is kept with the facts."""
_UNKNOWN = "the outcome of '"
"""Begin of the words by which a model is told that a call may have happened."""
_DECISIONS: Mapping[str, Any] = {"approve": "approved", "reject": "rejected", "modify": "changed"}
_ENDS = {
    "cancelled": ("RunCancelled", "it was cancelled"),
    "terminated": ("RunTerminated", "it was terminated"),
    "timed out": ("RunTimedOut", "it did not end in time"),
}


class CaseReader:
    """Reader of the cases of one workshop."""

    def __init__(self, client: Client, blobs: BlobStore) -> None:
        self._client = client
        self._contents = LayerContents(blobs)

    async def read(self, run: str) -> CaseReading:
        """Return what the histories of a run that has ended tell. Raises EffectFailed, ConnectionFailed, UsageError."""
        case = _Case(run)
        follower = Follower(self._client, run, wait=False, tap=case.take)
        async with translated(run):
            async for _ in follower.events():
                pass
        view, facts = follower.view, case.story.facts
        if view.ended_at is None:
            raise EffectFailed(f"run '{run}' has not ended")
        usage = view.usage
        files = await asyncio.to_thread(self._files, case)
        read = CaseFacts(
            output=facts.output if facts.has_result else None,
            truncated=cut_reason(facts.truncated),
            error=None if facts.has_result else _error(view, case),
            usage=CaseUsage(
                turns=usage.requests,
                tool_calls=usage.tool_calls,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost=None if usage.unpriced or usage.cost_usd is None else float(usage.cost_usd),
            ),
            seconds=None if view.started_at is None else max(0.0, (view.ended_at - view.started_at).total_seconds()),
            calls=case.calls(),
            files=files,
        )
        return CaseReading(facts=read, definitions=case.definitions)

    def _files(self, case: _Case) -> dict[str, CaseFile]:
        if case.layer is None:
            return {}
        files: dict[str, CaseFile] = {}
        for change in changes_of(self._contents.whole(case.layer)):
            if change.old_path is not None:
                files[path_in_tree(case.tree, change.old_path)] = CaseFile(sha256=None)
            path = path_in_tree(case.tree, change.path)
            if change.now is None:
                files[path] = CaseFile(sha256=None)
            elif change.now.kind is NodeKind.FILE:
                text = self._text(change.now, change.path)
                files[path] = CaseFile(sha256=change.now.sha256, bytes=change.now.bytes, text=text)
        return files

    def _text(self, node: LayerNode, path: str) -> str | None:
        if node.bytes > MAX_TEXT_BYTES:
            return None
        try:
            return self._contents.read(node, path).decode()
        except (EffectFailed, UnicodeDecodeError):
            return None


@dataclass
class _Invocation:
    """Calls of one invocation, as far as its histories have been read."""

    path: str
    transcriber: Transcriber = field(default_factory=Transcriber)
    beginnings: Beginnings = field(default_factory=Beginnings)
    calls: list[_Call] = field(default_factory=list["_Call"])
    questions: dict[str, _Call | None] = field(default_factory=dict[str, "_Call | None"])
    """Calls that were asked about, by the keys of the questions; None: about no call that is known."""


@dataclass
class _Call:
    """Call, and what has become of it so far."""

    entry: Entry
    call: CaseCall
    result: Entry | None = None


class _Case:
    """Facts that are taken from the events of one run's histories."""

    def __init__(self, run: str) -> None:
        self.story = Story(run)
        self.layer: CarriedLayer | None = None
        self.tree = Tree()
        self.definitions: dict[str, str] = {}
        self.error_type = ""
        self._run = run
        self._invocations: dict[str, _Invocation] = {}

    def take(self, workflow_id: str, event: HistoryEvent) -> None:
        """Take in the next event of the workflow with this id."""
        self.story.take(workflow_id, event)
        path = ENTRY_PATH if workflow_id == self._run else workflow_id.removeprefix(f"{self._run}/")
        invocation = self._invocations.setdefault(workflow_id, _Invocation(path))
        begun = invocation.beginnings.take(event)
        if begun is not None:
            self._begin(begun.given, is_entry=workflow_id == self._run)
        for entry in invocation.transcriber.apply(event):
            if entry.kind == "call" and entry.name != OUTPUT_TOOL:
                args = cast("dict[str, Any]", entry.value) if isinstance(entry.value, dict) else {}
                invocation.calls.append(_Call(entry, CaseCall(tool=entry.name, args=args, path=invocation.path)))
            elif entry.kind == "result":
                open_calls = (one for one in invocation.calls if one.entry.call == entry.call and one.result is None)
                called = next(open_calls, None)
                if called is not None:
                    called.result = entry
        news = news_at_invocation(event, is_entry=invocation.beginnings.is_entry)
        if news is not None and news.kind == "asked":
            _ask(invocation, news.message)
        elif news is not None and news.kind == "decided":
            _decide(invocation, news.message)
        if workflow_id == self._run:
            self._end(event)

    def _begin(self, given: Mapping[str, Any], *, is_entry: bool) -> None:
        worker = given.get("worker")
        if isinstance(worker, dict):
            pinned = cast("dict[str, Any]", worker)
            self.definitions[str(pinned.get("source") or "")] = str(pinned.get("sha256") or "")
        if is_entry:
            self.tree = read_message(Tree, given.get("tree")) or self.tree

    def _end(self, event: HistoryEvent) -> None:
        failure = event.workflow_execution_failed_event_attributes.failure
        self.error_type = failure.application_failure_info.type or self.error_type
        completed = event.workflow_execution_completed_event_attributes.result.payloads
        if completed:
            self.layer = read_message(CarriedLayer, first_object(completed).get("layer"))

    def calls(self) -> tuple[CaseCall, ...]:
        """Return the calls of all invocations, in the order in which they began."""
        made = [call for invocation in self._invocations.values() for call in invocation.calls]
        made.sort(key=lambda one: one.entry.at)
        return tuple(one.call.model_copy(update={"outcome": _outcome(one)}) for one in made)


def _ask(invocation: _Invocation, asked: Mapping[str, Any]) -> None:
    tool, args = asked.get("tool"), asked.get("args")
    about = [one for one in invocation.calls if one.call.tool == tool and one.result is None]
    exact = [one for one in about if one.call.args == args]
    free = [one for one in exact or about if one not in invocation.questions.values()] or exact or about
    call = free[0] if free else None
    if call is not None:
        uses = cast("list[dict[str, Any]]", asked.get("capabilities") or [])
        call.call = call.call.model_copy(update={"capabilities": tuple(str(use.get("name")) for use in uses)})
    invocation.questions[str(asked.get("key") or "")] = call


def _decide(invocation: _Invocation, delivered: Mapping[str, Any]) -> None:
    call = invocation.questions.get(str(delivered.get("key") or ""))
    verdict = cast("dict[str, Any]", delivered.get("verdict") or {})
    if call is None:
        return
    changes: dict[str, Any] = {"decision": _DECISIONS.get(str(verdict.get("decision")))}
    if verdict.get("decision") == "modify":
        changes["args"] = verdict.get("args") or {}
    call.call = call.call.model_copy(update=changes)


def _outcome(one: _Call) -> Outcome:
    if one.call.decision == "rejected":
        return "refused"
    if one.result is None:
        # No model was told any more: the run ended with, or within, this turn.
        return "unknown"
    if str(one.result.value).startswith(_UNKNOWN):
        return "unknown"
    return "failed" if one.result.failed else "done"


def _error(view: RunView, case: _Case) -> CaseError:
    kind, words = _ENDS.get(view.status, (case.error_type or "RunFailed", ""))
    return CaseError(type=kind, message=case.story.facts.error or words or f"it ended as '{view.status}'")
