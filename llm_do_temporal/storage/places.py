"""Places of a workshop's blobs: its own folder, another folder, or object storage.

Owns `blobs:` of `workshop.yaml` and the variable that overrides it. Used wherever a workshop's blobs are needed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import ValidationError

from llm_do_temporal.definitions.keys.files import ENDPOINT_KEYS, BlobSettings
from llm_do_temporal.encryption.keys import KeyRing, Seal, key_ring
from llm_do_temporal.errors import UsageError
from llm_do_temporal.storage.blobs import LocalBlobStore, ManagedBlobStore, blob_folder

BLOBS_VARIABLE = "LLM_DO_BLOBS_URL"
CLIENT_PATIENCE = timedelta(seconds=8)
"""Time that a person waits for a store that does not answer."""
SERVICE_PATIENCE = timedelta(minutes=2)
"""Time that a worker service keeps trying within one attempt of an activity."""
READ_PATIENCE = timedelta(seconds=1.2)
"""Time that a worker service keeps asking for the input of an activity, or the history of a workflow.

No heartbeat can be sent meanwhile, so the rest is left to the server, which tries again.
"""
READ_SILENCE = timedelta(seconds=1.2)
"""Time that it waits for a store that sends no byte."""
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")


def blob_settings(workshop: Path) -> BlobSettings | None:
    """Return the settings of the workshop's blobs: of the environment, else of its file; None: they are in its folder.

    Raises UsageError for a variable that cannot be used, DefinitionError for a file.
    """
    url = os.environ.get(BLOBS_VARIABLE)
    try:
        # Most workshops have no such key, and reading the file takes a client longer than all else it does.
        configured = _of_file(workshop) if b"blobs" in (workshop / "workshop.yaml").read_bytes() else None
    except OSError:
        configured = None
    if not url:
        return configured
    if configured is not None and configured.url == url:
        return configured
    try:
        return BlobSettings(url=url)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{BLOBS_VARIABLE} cannot be used: {reason}") from None


def blobs_elsewhere(workshop: Path) -> str | None:
    """Return the address of blobs that other workshops may share; None: they are below the workshop's own folder.

    Raises like `blob_settings`.
    """
    settings = blob_settings(workshop)
    if settings is None:
        return None
    inside = settings.scheme == "file" and _folder(settings).resolve().is_relative_to(workshop.resolve())
    return None if inside else settings.url


def workshop_blobs(
    workshop: Path,
    ring: KeyRing | None = None,
    *,
    patience: timedelta | None = None,
    silence: timedelta | None = None,
) -> ManagedBlobStore:
    """Return the blobs of a workshop, sealed with the keys of `ring`; None: those that the environment names.

    With object storage each call keeps trying for as long as `patience`; None: as a person would. `silence` is for a
    store that is only read: see `ObjectBlobStore`. Raises UsageError and DefinitionError for settings that cannot be
    used, BlobsUnreachable for credentials that cannot.
    """
    seal = Seal(key_ring() if ring is None else ring)
    settings = blob_settings(workshop)
    if settings is None:
        return LocalBlobStore(blob_folder(workshop), seal)
    if settings.scheme == "file":
        return LocalBlobStore(_folder(settings), seal)
    from llm_do_temporal.storage.object_store import ObjectBlobStore

    return ObjectBlobStore(settings.url, _config(settings), seal, patience=patience or CLIENT_PATIENCE, silence=silence)


def _folder(settings: BlobSettings) -> Path:
    """Return the folder of a store with a `file:` address."""
    return Path(unquote(urlsplit(settings.url).path))


def _config(settings: BlobSettings) -> dict[str, Any]:
    config: dict[str, Any] = {} if settings.region is None else {"region": settings.region}
    endpoints = [settings.endpoint or "", *(os.environ.get(name, "") for name in _ENDPOINT_VARIABLES)]
    if settings.endpoint is not None:
        config[ENDPOINT_KEYS[settings.scheme]] = settings.endpoint
    return config | {"allow_http": next(filter(None, endpoints), "").startswith("http://")}


def _of_file(workshop: Path) -> BlobSettings | None:
    from llm_do_temporal.definitions.workshop import load_workshop

    return load_workshop(workshop).config.blobs
