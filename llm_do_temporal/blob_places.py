"""Where a workshop keeps its blobs: its own folder, another folder, or object storage.

Owns `blobs:` of `workshop.yaml` and the variable that overrides it. Used by everybody who needs a workshop's blobs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import ValidationError, field_validator, model_validator

from llm_do_temporal.blobs import LocalBlobStore, ManagedBlobStore, blob_folder
from llm_do_temporal.encryption.keys import KeyRing, key_ring
from llm_do_temporal.encryption.sealing import Seal
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import Strict

BLOBS_VARIABLE = "LLM_DO_BLOBS_URL"
CLIENT_PATIENCE = timedelta(seconds=8)
"""How long a person waits for a store that does not answer."""
SERVICE_PATIENCE = timedelta(minutes=2)
"""How long a worker service keeps trying within one attempt of an activity."""
READ_PATIENCE = timedelta(seconds=1.5)
"""How long a worker service keeps asking for what an activity is to do, or a workflow is to go on with.

Nothing can tell the server meanwhile that somebody is at it, so the server is left to try again.
"""
READ_SILENCE = timedelta(seconds=1.5)
"""How long it waits for a store that says nothing at all."""
_ENDPOINT_KEYS = {"s3": "endpoint", "az": "endpoint", "abfs": "endpoint", "abfss": "endpoint", "gs": "base_url"}
_SCHEMES = (*_ENDPOINT_KEYS, "file")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_CREDENTIALS = "credentials are taken from the provider's own variables, such as AWS_ACCESS_KEY_ID"


class BlobSettings(Strict):
    """`blobs:` of `workshop.yaml`."""

    url: str
    """`s3://BUCKET/PREFIX`, `gs://…`, `az://CONTAINER/…`, `abfss://…`, or `file:///FOLDER`."""
    endpoint: str | None = None
    """Address of a store that speaks like the provider's."""
    region: str | None = None
    """Of S3."""

    @field_validator("url")
    @classmethod
    def _is_place(cls, url: str) -> str:
        parts = _split(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(
                f"'{url}' names no store that is known; it begins with one of: {'://, '.join(_SCHEMES)}://"
            )
        if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
            raise ValueError(f"'{url}' is not like file:///FOLDER")
        if parts.scheme != "file" and not parts.hostname:
            raise ValueError(f"'{url}' names no bucket; it is like {parts.scheme}://BUCKET/PREFIX")
        return url

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and (_split(endpoint).scheme not in ("http", "https") or not _split(endpoint).hostname):
            raise ValueError(f"'{endpoint}' is not like https://HOST:PORT")
        return endpoint

    @model_validator(mode="after")
    def _fits(self) -> BlobSettings:
        if self.endpoint is not None and self.scheme == "file":
            raise ValueError("a folder has no endpoint; take it out")
        if self.region is not None and self.scheme != "s3":
            raise ValueError("only s3:// has a region; take it out")
        return self

    @property
    def scheme(self) -> str:
        """What kind of store it is."""
        return urlsplit(self.url).scheme


def blob_settings(workshop: Path) -> BlobSettings | None:
    """What the environment says of the workshop's blobs, else its file; None: they are in the workshop's folder.

    Raises UsageError for a variable that cannot be used, DefinitionError for a file.
    """
    url = os.environ.get(BLOBS_VARIABLE)
    try:
        # Most workshops say nothing of it, and reading the file takes a client longer than all else it does.
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
    """The address of the workshop's blobs where others may have theirs, too; None: they are below its own folder.

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
    """The blobs of a workshop, sealed with these keys; None: those that the environment names.

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
    from llm_do_temporal.object_blobs import ObjectBlobStore

    return ObjectBlobStore(settings.url, _config(settings), seal, patience=patience or CLIENT_PATIENCE, silence=silence)


def _folder(settings: BlobSettings) -> Path:
    """Of a store that is one."""
    return Path(unquote(urlsplit(settings.url).path))


def _config(settings: BlobSettings) -> dict[str, Any]:
    config: dict[str, Any] = {} if settings.region is None else {"region": settings.region}
    endpoints = [settings.endpoint or "", *(os.environ.get(name, "") for name in _ENDPOINT_VARIABLES)]
    if settings.endpoint is not None:
        config[_ENDPOINT_KEYS[settings.scheme]] = settings.endpoint
    return config | {"allow_http": next(filter(None, endpoints), "").startswith("http://")}


def _of_file(workshop: Path) -> BlobSettings | None:
    from llm_do_temporal.definitions.workshop import load_workshop

    return load_workshop(workshop).config.blobs


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    # In an address of Azure's own kind the container stands before the '@'.
    if parts.password is not None or (parts.username is not None and parts.scheme not in ("abfs", "abfss")):
        raise ValueError(f"an address holds no credentials; {_CREDENTIALS}")
    if parts.query or parts.fragment:
        raise ValueError("'?' and '#' have no meaning in the address of a blob store; leave them out")
    return parts
