"""Origins of what a fork has reused: answers name theirs, results of calls are found by the keys of their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.local_activities import local_effect
from llm_do_temporal.client.history.payloads import as_object, first_object
from llm_do_temporal.messages.activities import REUSE_CALL
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.conversation import REUSED, TURN_KEYS
from llm_do_temporal.messages.experiments.source import Reused
from llm_do_temporal.policy.identity import digest_of
from llm_do_temporal.policy.reuse.keys import call_key
from llm_do_temporal.telemetry.contents import arguments_of, parts_of


def origin_of_turn(response: Mapping[str, Any]) -> Reused | None:
    """Return where an answer was taken from; None: a model was asked."""
    return _reused(as_object(response.get("metadata")).get(REUSED))


def origin_line(details: Mapping[str, Any]) -> str:
    """Return where an entry with these details was taken from, like `RUN main turn 3`; empty: it was made anew."""
    origin = _reused(details.get("reused"))
    return "" if origin is None else origin.place


@dataclass(frozen=True)
class ReusedStep:
    """Turn or call of a fork that was taken from another run."""

    what: str
    """`turn 3`, or the tool of a call."""
    origin: str
    """Place in the other run, like `RUN main turn 3`."""


@dataclass(frozen=True)
class LookUp:
    """Look-up of a call in the record of another run, with what it came to."""

    key: str
    tool: str = ""
    """Tool of the recorded call; empty: there is none to reuse."""
    is_delegation: bool = False
    """Whether it was found by the inputs of a delegation."""
    child: str = ""
    """Path of the invocation that the recorded call began; empty: it began none."""
    origin: Reused | None = None
    """Place of the recorded call; None: there is none to reuse."""
    note: str = ""
    """Reason why a recorded call is carried out anew; empty: there is no such call."""
    saved: Saved | None = None
    """Usage of the recorded delegation; None: it was none."""
    is_local: bool = True
    """Whether it ran within the workflow's task, as one event."""

    @property
    def place(self) -> str:
        """Place of the recorded call in words; empty: there is none to reuse."""
        return "" if self.origin is None else self.origin.place


class LookUps:
    """Finds the look-ups that have ended, given the events of one invocation in their order."""

    def __init__(self) -> None:
        self._run = ""
        """Run that is looked in; empty: the invocation belongs to no fork."""
        self._asked: set[int] = set()

    def begun(self, given: Mapping[str, Any]) -> None:
        """Take in the start of the invocation, as `Beginnings` tells it."""
        self._run = str(as_object(given.get("fork")).get("run") or "")

    def take(self, event: HistoryEvent) -> LookUp | None:
        """Take in the next event; return the look-up that it ends, None where it ends none."""
        if not self._run:
            return None
        if event.HasField("workflow_execution_started_event_attributes"):
            self._asked.clear()
        if event.activity_task_scheduled_event_attributes.activity_type.name == REUSE_CALL.name:
            self._asked.add(event.event_id)
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id in self._asked:
            self._asked.discard(completed.scheduled_event_id)
            return self._read(first_object(completed.result.payloads), is_local=False)
        local = local_effect(event)
        if local is None or local.activity != REUSE_CALL.name or local.failure is not None:
            return None
        return self._read(first_object(local.result), is_local=True)

    def _read(self, found: Mapping[str, Any], *, is_local: bool) -> LookUp:
        recorded = as_object(found.get("call"))
        place = {"run": self._run, "path": recorded.get("path"), "turn": recorded.get("turn")}
        return LookUp(
            key=str(found.get("key") or ""),
            tool=str(recorded.get("tool") or ""),
            is_delegation=bool(recorded.get("result")),
            child=str(recorded.get("child") or ""),
            origin=_reused(place) if recorded else None,
            note=str(found.get("note") or ""),
            saved=_saved(recorded.get("saved")),
            is_local=is_local,
        )


class CallOrigins:
    """Finds the results of calls that were taken from another run, given the events of one invocation in order."""

    def __init__(self) -> None:
        self._look_ups = LookUps()
        self._calls: dict[str, str] = {}
        """Ids of the newest answer's calls, by their content keys."""
        self._tools: dict[str, str] = {}
        """Their tools, by their ids."""
        self._found: dict[str, dict[str, Any]] = {}
        """Details of results, by the ids of their calls."""

    def begun(self, given: Mapping[str, Any]) -> None:
        """Take in the start of the invocation, as `Beginnings` tells it."""
        self._look_ups.begun(given)

    def answered(self, response: Mapping[str, Any]) -> None:
        """Take in an answer of the model: what it calls may be looked up next."""
        self._calls.clear()
        self._tools.clear()
        self._found.clear()
        by = str(as_object(as_object(response.get("metadata")).get(TURN_KEYS)).get("turn") or "")
        seen: Counter[str] = Counter()
        for part in parts_of(dict(response)) if by else ():
            args = arguments_of(part)
            if part.get("part_kind") == "tool-call" and isinstance(args, dict):
                tool, given = str(part.get("tool_name") or ""), cast("dict[str, Any]", args)
                same = digest_of([tool, given])
                seen[same] += 1
                call = str(part.get("tool_call_id") or "")
                self._calls[call_key(by, tool, given, seen[same])] = call
                self._tools[call] = tool

    def take(self, event: HistoryEvent) -> None:
        """Take in the next event."""
        found = self._look_ups.take(event)
        call = None if found is None else self._calls.get(found.key) or self._delegation(found)
        if found is None or call is None:
            return
        if found.origin is not None:
            child = {"child": found.child} if found.child else {}
            self._found[call] = {"reused": found.origin.model_dump(include={"run", "path", "turn"}) | child}
        elif found.note:
            self._found[call] = {"anew": found.note}

    def details_of(self, call: str) -> dict[str, Any]:
        """Return `reused` for a result that was taken from another run, `anew` with the reason where it could not be;
        nothing where there was none to take."""
        return self._found.get(call, {})

    def _delegation(self, found: LookUp) -> str | None:
        """Return the first call of this worker without an origin: delegations are found by their inputs, too."""
        free = (call for call, tool in self._tools.items() if tool == found.tool and call not in self._found)
        return next(free, None) if found.is_delegation else None


def _reused(value: Any) -> Reused | None:
    told = as_object(value)
    try:
        return Reused.model_validate({name: told[name] for name in told if name != "child"}) if told else None
    except ValidationError:
        return None


def _saved(value: Any) -> Saved | None:
    try:
        spent = None if value is None else Usage.model_validate(value)
    except ValidationError:
        return None
    if spent is None:
        return None
    names = ("requests", "input_tokens", "output_tokens", "cost_usd")
    return Saved.model_validate({name: getattr(spent, name) for name in names}).plus(spent.saved)
