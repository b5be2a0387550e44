"""List of experiments, from what the server lists alone: neither a history nor a record is read for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.converter import DataConverter

from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.history.payloads import read_message
from llm_do_temporal.client.views.memos import ended_at, read_field
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, every_part
from llm_do_temporal.client.views.tree import state_of
from llm_do_temporal.errors import KeyMismatch, UsageError
from llm_do_temporal.messages.experiments.results import EVALUATION_MEMO, EVALUATION_WORKFLOW, EvaluationMemo

MOST_LISTED = 2_000
"""Experiments that are listed; of more, the newest."""
_DIGEST_CHARS = 4
"""Fewest characters by which a digest may be named."""
_SHOWN_DIGEST_CHARS = 12
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
        return self.digits[:_SHOWN_DIGEST_CHARS]

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
