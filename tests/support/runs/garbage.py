"""Blobs that nothing needs, and their collection."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from llm_do_temporal.storage.blobs import LocalBlobStore, blob_folder
from tests.support.runs.place import Place

if TYPE_CHECKING:
    from llm_do_temporal.extensions.maintenance.removal import Collected


def blobs_of(place: Place) -> LocalBlobStore:
    return LocalBlobStore(blob_folder(place.folder))


async def collect_garbage(place: Place, age: timedelta = timedelta(0), *, dry_run: bool = False) -> Collected:
    from llm_do_temporal.extensions.maintenance.removal import collect

    return await collect(place.client.temporal, blobs_of(place), older_than=age, dry_run=dry_run)


def plant_garbage(place: Place) -> str:
    """Put a blob that no run ever needed, a year old, and return its digest."""
    digest = blobs_of(place).put_bytes(b"nobody needs this")
    (path,) = blob_folder(place.folder).rglob(digest)
    last_year = path.stat().st_mtime - 31_536_000
    os.utime(path, (last_year, last_year))
    return digest
