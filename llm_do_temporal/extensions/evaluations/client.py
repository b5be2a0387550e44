"""Experiments that the server knows: their list, progress, records, what one had when it ended, and two compared.

A list needs neither a history nor a record. A record is read from its blob, however old it is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, WorkflowFailureError
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from llm_do_temporal.client.connections import ended_with, is_missing, translated
from llm_do_temporal.client.history.events import activity_of, first_object, read_events, read_message
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, ended_at, every_part, read_field
from llm_do_temporal.client.views.tree import state_of
from llm_do_temporal.errors import EffectFailed, KeyMismatch, RunFailed, UsageError
from llm_do_temporal.extensions.evaluations.messages import (
    EVALUATION_MEMO,
    EVALUATION_WORKFLOW,
    JUDGE_CASE,
    RECORD_VERSION,
    SCORE_CASE,
    EvaluationMemo,
    EvaluationPlan,
    ExperimentRecord,
    RunEvaluationInput,
    ScoredCase,
)
from llm_do_temporal.extensions.evaluations.policy.experiment import differences, refusals
from llm_do_temporal.extensions.evaluations.policy.figures import (
    CaseDelta,
    Comparison,
    MetricComparison,
    compare_cases,
)
from llm_do_temporal.extensions.evaluations.policy.scores import CaseResult
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of

MOST_LISTED = 2_000
"""Experiments that are listed; of more, the newest."""
_DIGEST_CHARS = 4
"""Fewest characters by which a digest may be named."""
SHOWN_DIGITS = 12
"""Characters of a digest that people are shown."""
_BEFORE = re.compile(r"(?P<name>.+)@(?P<back>-?\d{1,4})")


@dataclass(frozen=True)
class ExperimentListing:
    """Experiment as a list shows it."""

    workflow: str
    """Workflow id."""
    state: str
    """State of its workflow: `running`, `completed`, `failed`, …"""
    started_at: datetime
    ended_at: datetime | None
    """End of the experiment; None: it goes on."""
    facts: EvaluationMemo
    missing_key: str = ""
    """The id of the encryption key without which nothing more is known."""

    @property
    def short_digest(self) -> str:
        """Beginning of the digest, by which people name it."""
        return self.digits[:SHOWN_DIGITS]

    @property
    def digits(self) -> str:
        """The digest without its version."""
        return self.facts.digest.rpartition("-")[2]

    @property
    def total(self) -> int:
        """Number of cases, times their repeats."""
        return self.facts.cases * self.facts.repeats


async def list_experiments(client: Client) -> list[ExperimentListing]:
    """Return the experiments that the server knows, the newest first. Raises ConnectionFailed.

    A server lists what it knew some moments ago: whatever was under way then is looked at by itself.
    """
    found: list[ExperimentListing] = []
    async with translated():
        async for part in every_part(client, f"WorkflowType = '{EVALUATION_WORKFLOW}' AND {NEWEST_EXECUTION}"):
            found += [await _listing(info, client.data_converter) for info in part.found]
            if len(found) >= MOST_LISTED:
                break
    found.sort(key=lambda one: one.started_at, reverse=True)
    # An experiment that goes on after its end, to try cases again, is another execution with the same id.
    newest = {one.workflow: one for one in reversed(found)}
    listed = [one for one in found if newest[one.workflow] is one][:MOST_LISTED]
    return [one if one.ended_at else await read_listing(client, one.workflow) or one for one in listed]


async def read_listing(client: Client, workflow: str) -> ExperimentListing | None:
    """Return the newest execution of an experiment as it is now; None: there is none. Raises ConnectionFailed."""
    try:
        async with translated(workflow):
            info = (await client.get_workflow_handle(workflow).describe()).raw_info
    except UsageError:
        return None
    return await _listing(info, client.data_converter)


async def _listing(info: WorkflowExecutionInfo, converter: DataConverter) -> ExperimentListing:
    missing = ""
    try:
        facts = read_message(EvaluationMemo, await read_field(info, EVALUATION_MEMO, converter))
    except KeyMismatch as error:
        facts, missing = None, error.key
    workflow = info.execution.workflow_id
    if facts is None:
        facts = EvaluationMemo(name=workflow, digest="", worker="")
    began = facts.started_at or info.start_time.ToDatetime(UTC)
    return ExperimentListing(workflow, state_of(info), began, ended_at(info), facts, missing)


def named(experiments: Sequence[ExperimentListing], name: str) -> list[ExperimentListing]:
    """Return the experiments of an evaluation, in their order."""
    return [one for one in experiments if one.facts.name == name]


def find_experiment(experiments: Sequence[ExperimentListing], reference: str) -> ExperimentListing:
    """Return the experiment that is meant; `experiments` are the newest first.

    A reference is the name of an evaluation (its newest experiment), `NAME@-1` (the one before that), the beginning of
    a digest, or a workflow id. Raises UsageError.
    """
    whole = next((one for one in experiments if one.workflow == reference), None)
    if whole is not None:
        return whole
    if before := _BEFORE.fullmatch(reference):
        return _before(experiments, before["name"], int(before["back"]))
    if found := named(experiments, reference):
        return found[0]
    if len(reference) >= _DIGEST_CHARS:
        found = [one for one in experiments if reference in (one.facts.digest, one.digits[: len(reference)])]
        if len(found) > 1:
            digests = ", ".join(one.short_digest for one in found[:5])
            raise UsageError(
                f"'{reference}' begins the digests of {len(found)} experiments", next_step=f"Name one of: {digests}."
            )
        if found:
            return found[0]
    raise UsageError(f"there is no experiment '{reference}'", next_step=_known(experiments))


def _before(experiments: Sequence[ExperimentListing], name: str, back: int) -> ExperimentListing:
    found = named(experiments, name)
    if not found:
        raise UsageError(f"there is no experiment of '{name}'", next_step=_known(experiments))
    if back > 0 or -back >= len(found):
        count = "1 experiment" if len(found) == 1 else f"{len(found)} experiments"
        raise UsageError(
            f"'{name}@{back}' names none of the {count} of '{name}'",
            next_step=f"The newest is '{name}', the oldest '{name}@-{len(found) - 1}'."
            if len(found) > 1
            else f"The only one is '{name}'.",
        )
    return found[-back]


def _known(experiments: Sequence[ExperimentListing]) -> str:
    names = list(dict.fromkeys(one.facts.name for one in experiments))
    if not names:
        return "There are none yet: `eval FILE` runs an evaluation."
    more = ", …" if len(names) > 5 else ""
    return f"There are experiments of: {', '.join(names[:5])}{more}; `eval list` has all of them."


@dataclass(frozen=True)
class Experiment:
    """Experiment with its record."""

    listing: ExperimentListing
    record: ExperimentRecord


async def read_experiment(client: Client, reference: str) -> Experiment:
    """Return the experiment that is meant, with its record; see `find_experiment` for references.

    Raises ConnectionFailed, EffectFailed for a record that is not there any more, UsageError for an experiment that
    does not exist, has no record yet or whose blobs are not known here, and KeyMismatch.
    """
    return await read_listed(client, find_experiment(await list_experiments(client), reference))


async def read_pair(client: Client, one: str, other: str) -> tuple[Experiment, Experiment]:
    """Return both experiments. Raises like `read_experiment`."""
    experiments = await list_experiments(client)
    listed = find_experiment(experiments, one), find_experiment(experiments, other)
    return await read_listed(client, listed[0]), await read_listed(client, listed[1])


async def read_listed(client: Client, listing: ExperimentListing) -> Experiment:
    """Return the experiment with its record. Raises like `read_experiment`."""
    listing = await read_listing(client, listing.workflow) or listing
    if listing.missing_key:
        raise KeyMismatch(
            f"experiment '{listing.workflow}' cannot be read: its key '{listing.missing_key}' is missing here",
            key=listing.missing_key,
        )
    if not listing.facts.record:
        done = f"{listing.facts.done:,} of {listing.total:,} are done"
        raise UsageError(
            f"experiment '{listing.workflow}' has no results yet: {done}, and it is {listing.state}",
            next_step="`eval FILE` goes on with it and waits for its end.",
        )
    blobs = blobs_of(client.data_converter)
    if blobs is None:
        raise UsageError(
            f"the results of experiment '{listing.workflow}' are in the workshop's blobs, which are not known here",
            next_step="Name the workshop with --workshop DIR.",
        )
    return Experiment(listing, await asyncio.to_thread(read_record, blobs, listing.facts.record))


def read_record(blobs: BlobStore, digest: str) -> ExperimentRecord:
    """Return the record that is kept as this blob. Raises EffectFailed."""
    unreadable = EffectFailed(
        f"blob '{digest}' is no record of an experiment that this version reads",
        next_step="A record is read by the version that wrote it, or a later one.",
    )
    try:
        record = ExperimentRecord.model_validate_json(blobs.read(digest))
    except ValidationError as error:
        raise unreadable from error
    if record.version > RECORD_VERSION:
        raise unreadable
    return record


async def read_progress(client: Client, workflow: str) -> tuple[str, EvaluationMemo]:
    """Return the state of an experiment and the facts about it. Raises ConnectionFailed, UsageError."""
    async with translated(workflow):
        described = await client.get_workflow_handle(workflow).describe()
        facts = await described.memo_value(EVALUATION_MEMO, type_hint=EvaluationMemo)
    return state_of(described.raw_description.workflow_execution_info), facts


async def read_failure(client: Client, workflow: str) -> RunFailed:
    """Return the error that an experiment has ended with. Raises ConnectionFailed."""
    try:
        async with translated(workflow):
            await client.get_workflow_handle(workflow).result()
    except WorkflowFailureError as failure:
        error = ended_with(failure)
        return error if isinstance(error, RunFailed) else RunFailed(error.message, next_step=error.next_step)
    return RunFailed(f"experiment '{workflow}' has not completed")


M = TypeVar("M", bound=BaseModel)


async def read_remains(client: Client, listing: ExperimentListing, blobs: BlobStore) -> list[CaseResult]:
    """Return the results that an experiment which has ended had, the newest of each unit last.

    Raises ConnectionFailed, EffectFailed for a record that is not there any more, and KeyMismatch.
    """
    recorded = (await read_listed(client, listing)).record.results if listing.facts.record else ()
    if listing.state == "completed":
        return list(recorded)
    taken, newer = await _named_blobs(client, listing.workflow, blobs)
    before = await asyncio.to_thread(_kept, blobs, taken)
    since = await asyncio.to_thread(_kept, blobs, newer)
    return [*before, *recorded, *since]


async def _named_blobs(client: Client, workflow: str, blobs: BlobStore) -> tuple[list[str], list[str]]:
    """Return the blobs of results that the plan has taken over, and of those in the newest history; none where the
    server does not keep it any longer."""
    taken, newer, scored = list[str](), list[str](), set[int]()
    handle = client.get_workflow_handle(workflow)
    async with translated():
        try:
            async for event in read_events(handle, wait=False, converter=client.data_converter):
                begun = event.workflow_execution_started_event_attributes.input.payloads
                if begun:
                    start = RunEvaluationInput.model_validate(first_object(begun))
                    plan = await asyncio.to_thread(_read_blob, EvaluationPlan, blobs, start.plan)
                    taken += [] if plan is None else plan.taken.values()
                    newer += [] if start.continued is None else start.continued.newer
                kind = event.activity_task_scheduled_event_attributes.activity_type.name
                if kind in (SCORE_CASE.name, JUDGE_CASE.name):
                    scored.add(event.event_id)
                ended = event.activity_task_completed_event_attributes.result.payloads
                if ended and activity_of(event) in scored:
                    newer.append(ScoredCase.model_validate(first_object(ended)).result)
        except RPCError as error:
            if not is_missing(error):
                raise
    return taken, newer


def _kept(blobs: BlobStore, digests: list[str]) -> list[CaseResult]:
    return [found for digest in digests if (found := _read_blob(CaseResult, blobs, digest)) is not None]


def _read_blob(kind: type[M], blobs: BlobStore, digest: str) -> M | None:
    """Return what is kept as this blob; None where it is gone, or of another version: what it told is done anew."""
    try:
        return kind.model_validate_json(blobs.read(digest))
    except (EffectFailed, ValidationError):
        return None


@dataclass(frozen=True)
class ComparedExperiments:
    """Two experiments and their comparison; the second one is judged."""

    one: ExperimentRecord
    other: ExperimentRecord
    comparison: Comparison
    differences: tuple[str, ...]
    """Differences of their identities, in words."""

    @property
    def is_worse(self) -> bool:
        """Whether the second experiment is worse by any metric."""
        return any(metric.verdict == "worse" for metric in self.comparison.metrics)

    @property
    def lost(self) -> list[tuple[MetricComparison, CaseDelta]]:
        """Cases that got worse, each with its metric, the worst of each metric first."""
        return [(metric, delta) for metric in self.comparison.metrics for delta in metric.deltas if delta.delta < 0]

    @property
    def cases(self) -> list[str]:
        """Cases of both, those first that lost most by any metric."""
        worst: dict[str, float] = {}
        for metric in self.comparison.metrics:
            for delta in metric.deltas:
                worst[delta.case] = min(worst.get(delta.case, 0.0), delta.delta)
        shared = {case.id for case in self.other.spec.cases}
        order = [case.id for case in self.one.spec.cases if case.id in shared]
        return sorted(order, key=lambda case: worst.get(case, 0.0))

    def as_json(self) -> dict[str, Any]:
        """Return the object that `eval compare --json` prints."""
        return {
            "a": experiment_json(self.one),
            "b": experiment_json(self.other),
            "differences": list(self.differences),
            **self.comparison.model_dump(mode="json"),
        }


def compare_records(one: ExperimentRecord, other: ExperimentRecord) -> ComparedExperiments:
    """Compare two experiments. Raises UsageError where judge or cases differ, and for an experiment by itself."""
    if one.digest == other.digest:
        raise UsageError(
            f"'{one.workflow}' and '{other.workflow}' are the same experiment",
            next_step="Name another one; `eval list` has them.",
        )
    reasons = refusals(one.identity, other.identity)
    if reasons:
        raise UsageError(
            f"'{one.workflow}' and '{other.workflow}' cannot be compared: {'. '.join(reasons)}",
            next_step="Scores say which version is better only where cases, evaluators and judge are the same.",
        )
    comparison = compare_cases(one.results, other.results)
    return ComparedExperiments(one, other, comparison, differences(one.identity, other.identity))


def experiment_json(record: ExperimentRecord) -> dict[str, Any]:
    """Return the facts by which an experiment is known."""
    return {
        "experiment": record.workflow,
        "name": record.name,
        "digest": record.digest,
        "worker": record.spec.worker,
        "worker_version": record.worker_version,
        "model": record.model,
        "judge": None if record.spec.judge is None else record.spec.judge.worker,
        "cases": len(record.spec.cases),
        "repeats": record.spec.repeats,
        "state": record.state,
        "started_at": record.started_at.isoformat(),
        "ended_at": None if record.ended_at is None else record.ended_at.isoformat(),
    }
