"""Forks: a run that is to be done once more, with changes, and with everything reused that these leave as it was.

Nothing is started before the whole plan is known: what is reused, what runs, and what it may cost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client

from llm_do_temporal.client.connections import translated
from llm_do_temporal.client.forks.definitions import ChangedDefinitions, changed_definitions
from llm_do_temporal.client.forks.index import IndexOptions, build_index
from llm_do_temporal.client.forks.run_record import RunRecord, read_run_record
from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.desk.changes import check_change
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.experiments.answers import ScriptedAnswer
from llm_do_temporal.messages.experiments.forks import ForkIndex, RecordedRead
from llm_do_temporal.messages.experiments.source import ForkSource
from llm_do_temporal.messages.json_values import read_json
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.models import check_models
from llm_do_temporal.policy.reuse.changes import (
    ChangedDecision,
    cut_at,
    cut_of_decision,
    cut_of_paths,
    cut_of_result,
    cut_of_workers,
    read_decisions,
    read_step,
)
from llm_do_temporal.policy.reuse.estimate import ForkEstimate, estimate_fork
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs

_FITTING = "Write all arguments that the call is to have, not only those that change."


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """Changes of a fork, as they were typed."""

    at: tuple[str, ...] = ()
    """Turns from which an invocation is done anew, as PATH@TURN."""
    worker: Path | None = None
    """Worker file that is used for the worker of its name."""
    settings: tuple[str, ...] = ()
    """Keys of worker files with other values, as [WORKER:]KEY=VALUE."""
    model: str | None = None
    """Model of workers that name none."""
    decide: tuple[str, ...] = ()
    """Decisions that are others, like a3=reject:"the reason"."""
    results: tuple[str, ...] = ()
    """Results of calls that are others, as PATH@TURN=VALUE or PATH@TURN#N=@FILE."""
    no_reuse: tuple[str, ...] = ()
    """Paths of invocations of which nothing is reused."""
    then: bool = True
    """Whether files count as the other run read them; else as they are now."""
    by: str = ""
    """Name of whoever forks; empty: the login name."""


@dataclass(frozen=True)
class ForkPlan:
    """Fork that can be started."""

    run: str
    """Id of the other run."""
    start: StartRunInput
    """Start of the fork, without its record."""
    index: ForkIndex
    estimate: ForkEstimate
    then: bool = True
    """Whether files count as the other run read them; else as they are now."""
    warnings: tuple[str, ...] = ()

    def prepared(self, blobs: BlobStore) -> StartRunInput:
        """Put the record into the blob store, and return what is sent to start the fork."""
        digest = blobs.put_bytes(self.index.model_dump_json().encode())
        return self.start.model_copy(update={"fork": ForkSource(run=self.run, index=digest, then=self.then)})


async def plan_fork(client: Client, run: str, request: ForkRequest, workshop: Path | None) -> ForkPlan:
    """Read the run, and apply the changes to what was read. Raises UsageError, DefinitionError, KeyMismatch.

    `workshop` is the folder in which changed workers are read; None: no worker can be changed.
    """
    async with translated(run):
        record = await read_run_record(client, run)
    source, before = record.start.fork, None
    if source is not None and workshop is not None:
        before = ForkIndex.model_validate_json(workshop_blobs(workshop).read(source.index))
    return plan_of(record, request, workshop, before)


def plan_of(
    record: RunRecord, request: ForkRequest, workshop: Path | None, before: ForkIndex | None = None
) -> ForkPlan:
    """Return the plan of a fork of a run that was read; `before` is the record that this run reused itself.

    Raises UsageError, DefinitionError.
    """
    outline = record.outline()
    if not request.then and (request.worker or request.settings):
        raise UsageError(
            "with --files now workers are read from the workshop as they are now, so none can be changed by a flag",
            next_step="Save the change in the worker's file, or leave --files now out.",
        )
    aliases = record.loaded.settings.models.aliases if request.then and record.loaded is not None else None
    doubts = check_models(aliases, [request.model])
    changed = changed_definitions(record, request.worker, request.settings, request.model, workshop)
    cut = cut_of_workers(outline, changed.surely, sure=True).plus(cut_of_workers(outline, changed.perhaps, sure=False))
    for text in request.at:
        cut = cut.plus(cut_at(outline, read_step(text)))
    cut = cut.plus(cut_of_paths(outline, request.no_reuse))
    decisions = read_decisions(outline, request.decide)
    for decision in decisions:
        cut = cut.plus(cut_of_decision(outline, decision))
    results: dict[str, Any] = {}
    for text in request.results:
        step, value = _read_result(text)
        key, around = cut_of_result(outline, read_step(step))
        if key in results:
            raise UsageError(f"the result of '{step}' is given twice", next_step="Keep one of the two.")
        results[key], cut = value, cut.plus(around)
    answers = tuple(_answer(record, one, request) for one in decisions)
    options = IndexOptions(request.then, results, before, bool(changed.surely or changed.perhaps))
    index = build_index(record, cut, options).model_copy(update=_definitions(record, changed, request))
    start = record.start.model_copy(
        update={
            "aside": True,
            "started_by": request.by or login_name(),
            "script": (*answers, *(one for one in record.start.script if one.content_key not in cut.asked)),
            "fork": None,
            "review_branch": "",
            "model": request.model or record.start.model,
        }
    )
    estimate = estimate_fork(outline, cut, then=request.then, other_models=frozenset(changed.other_models))
    return ForkPlan(record.run, start, index, estimate, request.then, (*changed.warnings, *doubts))


def _definitions(record: RunRecord, changed: ChangedDefinitions, request: ForkRequest) -> dict[str, Any]:
    """Return the fields of the index about definitions: as they were then, with the changes."""
    if not request.then:
        return {}
    read = {key: RecordedRead(result=result) for key, result in record.reads.items()}
    return {"loaded": changed.loaded, "reads": {**read, **changed.reads}}


def _answer(record: RunRecord, changed: ChangedDecision, request: ForkRequest) -> ScriptedAnswer:
    question = next(one for one in record.questions if one.id == changed.id)
    args = _object(changed.more, f"{changed.id}=modify") if changed.decision == "modify" else None
    try:
        check_change(question, Decision(decision=DecisionKind(changed.decision), args=args))
    except DecisionRefused as refused:
        raise UsageError(f"'{changed.id}=modify' cannot be: {refused.message}", next_step=_FITTING) from refused
    return ScriptedAnswer(
        tool=question.request.tool,
        content_key=question.request.content_key,
        decision=changed.decision,
        args=args,
        note=changed.more if changed.decision == "reject" else "",
        by=request.by or login_name(),
    )


def _object(text: str, whose: str) -> dict[str, Any]:
    try:
        value = read_json(_text_of(text, whose))
    except ValueError as error:
        raise UsageError(f"the arguments of '{whose}' are no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"the arguments of '{whose}' are no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _read_result(text: str) -> tuple[str, Any]:
    """Return the step and the value of a result that was typed: JSON where it is JSON, else the text itself."""
    step, equals, given = text.partition("=")
    if not equals:
        raise UsageError(
            f"'{text[:80]}' says no result", next_step="Write PATH@TURN=VALUE, or PATH@TURN#N=@FILE for a file."
        )
    content = _text_of(given, step)
    try:
        return step, json.loads(content)
    except ValueError:
        return step, content


def _text_of(given: str, whose: str) -> str:
    """Return the text that was typed, or that of the file behind an @. Raises UsageError."""
    if not given.startswith("@"):
        return given
    return read_given(Path(given[1:]), f"the file '{given[1:]}' for '{whose}'")
