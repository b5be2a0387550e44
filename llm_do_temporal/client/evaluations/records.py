"""Records of experiments, read from the blobs in which they are kept, however old they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio.client import Client

from llm_do_temporal.client.evaluations.listings import (
    ExperimentListing,
    find_experiment,
    list_experiments,
    read_listing,
)
from llm_do_temporal.errors import EffectFailed, KeyMismatch, UsageError
from llm_do_temporal.messages.experiments.results import RECORD_VERSION, ExperimentRecord
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.external_storage import blobs_of


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
    try:
        record = ExperimentRecord.model_validate_json(blobs.read(digest))
    except ValidationError as error:
        raise _unreadable(digest) from error
    if record.version > RECORD_VERSION:
        raise _unreadable(digest)
    return record


def _unreadable(digest: str) -> EffectFailed:
    return EffectFailed(
        f"blob '{digest}' is no record of an experiment that this version reads",
        next_step="A record is read by the version that wrote it, or a later one.",
    )
