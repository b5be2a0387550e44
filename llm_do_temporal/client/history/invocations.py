"""Invocations in histories: where each begins, what models are told, what it lacks, what was taken from another run.

The entry invocation runs in the workflow of its run and begins once its worker is loaded; every other one begins with
its workflow. Readers see the same start either way: the input of `LlmDoWorker`, as JSON. Results of calls that a fork
has reused are found by the keys of their calls; reused answers name their origins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any, Literal, cast

from pydantic import ValidationError
from temporalio.api.common.v1 import Memo, Payload
from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.events import (
    Activities,
    as_list,
    as_object,
    decode_json,
    first_object,
    local_effect,
    read_message,
    shortened,
)
from llm_do_temporal.desk.entry import entry_invocation
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import (
    KEEP_CONVERSATION,
    LIST_EXTERNAL_TOOLS,
    LOAD_RUN,
    REQUEST_MODEL,
    LoadedRun,
)
from llm_do_temporal.messages.base import INVOCATION_MEMO, RUN_WORKFLOW
from llm_do_temporal.messages.budget import Saved, Usage
from llm_do_temporal.messages.conversation import NOT_GIVEN, REUSED, TURN_KEYS, Reused
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.identity import call_key, digest_of
from llm_do_temporal.storage.external_storage import is_kept_outside
from llm_do_temporal.telemetry.contents import (
    arguments_of,
    conversation_part,
    new_messages,
    parts_of,
    request_messages,
    scrubbed,
    told_parts,
)

_OUTPUT = "final_result"
"""Name of the call that gives a structured result; it calls nothing."""
LackKind = Literal["tools", "files"]
_LOOK_UP = "reuse_call"
"""Activity by which a fork looks a call up."""


@dataclass(frozen=True)
class Beginning:
    """Beginning of an invocation, or of a later run of its workflow."""

    given: dict[str, Any]
    """The invocation's start, an InvokeWorkerInput as JSON; the facts of its memo where that is out of reach."""
    before: str | None = None
    """The run of the workflow that is continued; None where the invocation is new."""
    is_outside: bool = False
    """Whether the start is kept outside of the history, and not at hand."""

    @property
    def continued(self) -> dict[str, Any]:
        """The state that the invocation goes on from, as JSON; empty for a new one."""
        return as_object(self.given.get("continued"))


class Beginnings:
    """Finds the beginnings in the events of one workflow, given in their order."""

    def __init__(self) -> None:
        self.is_entry = False
        """Whether it is the workflow of a run, whose invocation, if it has one, is the entry invocation."""
        self._loading: HistoryEvent | None = None
        """The start of a run whose entry worker is not loaded yet."""
        self._loads: set[int] = set()

    def take(self, event: HistoryEvent) -> Beginning | None:
        """Return the beginning that the next event makes; None for other events."""
        if event.HasField("workflow_execution_started_event_attributes"):
            return self._started(event)
        if self._loading is None:
            return None
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == LOAD_RUN.name:
            self._loads.add(event.event_id)
        completed, local = event.activity_task_completed_event_attributes, local_effect(event)
        loaded = completed.result.payloads if completed.scheduled_event_id in self._loads else None
        if local is not None and local.activity == LOAD_RUN.name and local.failure is None:
            loaded = local.result
        if loaded is not None and not any(map(is_kept_outside, (*loaded, *_input(self._loading)))):
            return self._entered(self._loading, decode_json(loaded[0]) if loaded else None)
        told = told_in(event.workflow_properties_modified_event_attributes.upserted_memo)
        if not told:
            return None
        self._loading = None
        return Beginning(told, is_outside=True)

    def _started(self, event: HistoryEvent) -> Beginning | None:
        started = event.workflow_execution_started_event_attributes
        self.is_entry = started.workflow_type.name == RUN_WORKFLOW
        self._loading, self._loads = None, set()
        given, before = first_object(started.input.payloads), started.continued_execution_run_id or None
        if self.is_entry and (before is None or (given and not given.get("continued"))):
            # A run that has read what it is given goes on as new, and loads its worker again.
            self._loading = event
            return None
        if self.is_entry:
            continued = as_object(given.get("continued"))
            if given and (continued.get("batch") or not continued):
                return None
            given = as_object(continued.get("entry"))
        is_outside = any(map(is_kept_outside, started.input.payloads))
        return Beginning(given or told_in(started.memo), before, is_outside)

    def _entered(self, started: HistoryEvent, loaded: Any) -> Beginning | None:
        """Return the beginning of the entry invocation; None for a batch, and where the run is refused."""
        self._loading = None
        run, at = started.workflow_execution_started_event_attributes.workflow_id, started.event_time.ToDatetime(UTC)
        try:
            start = StartRunInput.model_validate(decode_json(_input(started)[0]))
            if start.batch is not None or start.reads is not None:
                return None
            entry = entry_invocation(run, start, LoadedRun.model_validate(loaded), started_at=at)
        except (LlmDoError, ValidationError, IndexError):
            return None
        return Beginning(entry.model_dump(mode="json"))


def told_in(memo: Memo) -> dict[str, Any]:
    """Return the memo's facts of an invocation; empty where it has none."""
    return first_object([memo.fields[INVOCATION_MEMO]]) if INVOCATION_MEMO in memo.fields else {}


def _input(started: HistoryEvent) -> Sequence[Payload]:
    return started.workflow_execution_started_event_attributes.input.payloads


class RequestParts:
    """Finds the parts in the events of one history of an invocation, given in their order."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def take(self, event: HistoryEvent) -> list[dict[str, Any]] | None:
        """Return the parts that the next event adds; None where they are kept outside of the history."""
        attributes = event.activity_task_scheduled_event_attributes
        name, payloads = attributes.activity_type.name, attributes.input.payloads
        if name not in (REQUEST_MODEL.name, KEEP_CONVERSATION.name):
            return []
        request, is_outside = first_object(payloads), any(map(is_kept_outside, payloads))
        if name == REQUEST_MODEL.name:
            number, is_first = cast("int | None", conversation_part(request).get("number")), not self._told
            if number in self._told:
                return []
            self._told.add(number or event.event_id)
            if is_first and is_outside:
                return []  # it begins with the prompt, or with what stands for all that was said before
        if is_outside:
            return None
        messages = request_messages(request)
        # What comes before the first answer is the prompt, or stands for all that was said before.
        goes_on = conversation_part(request).get("answer") or any(one.get("kind") == "response" for one in messages)
        return [part for message in new_messages(messages) for part in told_parts(message)] if goes_on else []


def is_result(part: Mapping[str, Any]) -> bool:
    """Whether a part is the result of a tool call."""
    kind = part.get("part_kind")
    return kind == "tool-return" or (kind == "retry-prompt" and bool(part.get("tool_name")))


def is_failed(part: Mapping[str, Any]) -> bool:
    """Whether the result of a tool call tells the model of a refusal or a failure."""
    return part.get("part_kind") == "retry-prompt" or part.get("outcome") not in (None, "success")


def asked_calls(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls in an answer: `tool`, `args` for reading along, and id as `call`."""
    return [
        {
            "tool": str(part.get("tool_name")),
            "args": shortened(arguments_of(part)),
            "call": str(part.get("tool_call_id") or ""),
        }
        for part in parts
        if part.get("part_kind") == "tool-call"
    ]


def failed_calls(parts: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the calls that were refused or failed: `tool`, id as `call`, and the `reason` that the model is told."""
    return [
        {
            "tool": str(part.get("tool_name") or ""),
            "call": str(part.get("tool_call_id") or ""),
            "reason": scrubbed(part.get("content"), binary=False),
        }
        for part in parts or ()
        if is_result(part) and is_failed(part)
    ]


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
        self._activities = Activities(_LOOK_UP)

    def begun(self, given: Mapping[str, Any]) -> None:
        """Take in the start of the invocation, as `Beginnings` tells it."""
        self._run = str(as_object(as_object(given.get("parts")).get("forks")).get("run") or "")

    def take(self, event: HistoryEvent) -> LookUp | None:
        """Take in the next event; return the look-up that it ends, None where it ends none."""
        if not self._run:
            return None
        if self._activities.take(event) is not None:
            result = event.activity_task_completed_event_attributes.result
            return self._read(first_object(result.payloads), is_local=False)
        local = local_effect(event)
        if local is None or local.activity != _LOOK_UP or local.failure is not None:
            return None
        return self._read(first_object(local.result), is_local=True)

    def _read(self, found: Mapping[str, Any], *, is_local: bool) -> LookUp:
        recorded = as_object(found.get("call"))
        place = {"run": self._run, "path": recorded.get("path"), "turn": recorded.get("turn")}
        spent = read_message(Usage, recorded.get("saved"))
        names = ("requests", "input_tokens", "output_tokens", "cost_usd")
        saved = Saved() if spent is None else Saved.model_validate({name: getattr(spent, name) for name in names})
        return LookUp(
            key=str(found.get("key") or ""),
            tool=str(recorded.get("tool") or ""),
            is_delegation=bool(recorded.get("result")),
            child=str(recorded.get("child") or ""),
            origin=_reused(place) if recorded else None,
            note=str(found.get("note") or ""),
            saved=None if spent is None else saved.plus(spent.saved),
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
        if found is None:
            return
        # Delegations are found by their inputs, too: then it is the first call of this worker without an origin.
        free = (call for call, tool in self._tools.items() if tool == found.tool and call not in self._found)
        call = self._calls.get(found.key) or (next(free, None) if found.is_delegation else None)
        if call is None:
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


def _reused(value: Any) -> Reused | None:
    told = as_object(value)
    return read_message(Reused, {name: told[name] for name in told if name != "child"}) if told else None


def spent_by(response: Mapping[str, Any], model: str, calls: list[str]) -> Usage:
    """Return what an answer of this model, with calls of these tools, has spent; of a reused one what it has saved."""
    called = len([name for name in calls if name != _OUTPUT])
    origin = origin_of_turn(response)
    if origin is not None:
        return Usage(tool_calls=called, cost_usd=Decimal(0), saved=origin.saved)
    usage = as_object(response.get("usage"))
    # US dollars as the model's activity wrote them.
    cost = None if usage.get("cost") is None else Decimal(str(usage["cost"]))
    return Usage(
        requests=1,
        tool_calls=called,
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cost_usd=cost,
        unpriced=() if cost is not None else (model,),
        costs={model: cost} if cost else {},
        estimated=int(usage.get("unmeasured_requests") or 0),
    )


def model_aliases(invocation: Mapping[str, Any]) -> dict[str, str]:
    """Return the models that the aliases of an invocation's workshop stand for, by the aliases' names."""
    aliases = as_object(as_object(as_object(invocation.get("settings")).get("models")).get("aliases"))
    return {name: str(as_object(alias).get("model")) for name, alias in aliases.items() if isinstance(alias, dict)}


class Lacks:
    """Finds what is missing in the events of one history, given in their order."""

    def __init__(self) -> None:
        self._activities = Activities(LIST_EXTERNAL_TOOLS.name, REQUEST_MODEL.name)
        self._files: set[str] = set()

    def take(self, event: HistoryEvent) -> list[tuple[LackKind, str]]:
        """Return what the next event, and none before it, shows to be missing, with the reason; mostly nothing."""
        begun = self._activities.take(event)
        if begun is None:
            return []
        found = first_object(event.activity_task_completed_event_attributes.result.payloads)
        if begun.activity_task_scheduled_event_attributes.activity_type.name == LIST_EXTERNAL_TOOLS.name:
            return [("tools", one) for toolset in as_list(found.get("toolsets")) for one in warnings_of(toolset)]
        lines = map(str, as_list(as_object(found.get("metadata")).get(NOT_GIVEN)))
        new = [one for one in lines if one not in self._files]
        self._files.update(new)
        return [("files", one) for one in new]


def warnings_of(found: Any) -> list[str]:
    """Return the warnings of a worker's definition, or of the listing of a toolset; both are JSON."""
    return list(map(str, as_list(as_object(found).get("warnings"))))
