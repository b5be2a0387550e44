"""Finding the Temporal server: flag, then `TEMPORAL_*`, then a profile of `temporal.toml`, like the `temporal` CLI."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from temporalio.client import Client, PayloadLimitsConfig, TLSConfig
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig

from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import key_ring
from llm_do_temporal.errors import ConnectionFailed, UsageError
from llm_do_temporal.redaction.configured_keys import know_value, secrets_of
from llm_do_temporal.storage.external_storage import with_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.telemetry import tracing_interceptors

DEFAULT_NAMESPACE = "default"
CONNECT_SECONDS = 10
OUT_OF_REACH = "TMPRL1105"
"""The SDK's code of the error for a value that is kept outside where no place to look for it is known."""
_LIMITS = PayloadLimitsConfig(memo_warn_size=256 * 1024)
"""Sizes of which the SDK warns. A memo lists up to twenty questions, and the SDK's 2 KiB are passed by four."""
_OS_MESSAGE = re.compile(r'Os \{[^{}]*message: "([^"]+)"')

_EXCERPT = re.compile(r"\s*\d*\s*\|")
"""Line of the parser's message that quotes the file."""
_VALUE = re.compile(r"(invalid (?:type|value): [a-z -]+?) ?(?:\".*\"|`.*?`)(?=, expected|;|$)")
"""A value as the parser quotes it."""


@dataclass(frozen=True)
class Connection:
    """The connection flags of the command line; None leaves a value to the environment and the profile."""

    address: str | None = None
    namespace: str | None = None
    api_key: str | None = None
    tls: bool | None = None
    tls_cert_path: str | None = None
    tls_key_path: str | None = None
    tls_ca_path: str | None = None
    tls_server_name: str | None = None
    profile: str | None = None


def connect_config(connection: Connection) -> dict[str, Any]:
    """Arguments for `Client.connect`; without `target_host` when nothing names an address. Raises UsageError."""
    try:
        config: dict[str, Any] = dict(ClientConfig.load_client_connect_config(profile=connection.profile))
    except (RuntimeError, ValueError, OSError) as error:
        # Without the cause: it quotes the lines around the mistake, and a key may be one of them.
        raise UsageError(f"the Temporal configuration cannot be used: {_mistake(error)}") from None
    if connection.address:
        config["target_host"] = connection.address
    if connection.namespace:
        config["namespace"] = connection.namespace
    if connection.api_key:
        config["api_key"] = connection.api_key
    _know_keys(config)
    tls = _tls(connection, config.get("tls"))
    if tls is not None:
        config["tls"] = tls
    return config


def names_server(connection: Connection) -> bool:
    """Whether a flag, a variable or a profile names a server; if none does, the embedded one is used."""
    return bool(connect_config(connection).get("target_host"))


async def connect(connection: Connection, workshop: Path | None = None) -> Client:
    """A connected client, which reads and sends big values where the workshop is known, whose blob store keeps them.

    Raises ConnectionFailed when no server answers, UsageError for bad configuration.
    """
    return await _connect(connect_config(connection), workshop)


async def connect_embedded(address: str, workshop: Path | None = None) -> Client:
    """Return a client of the embedded server, whatever variables and profiles say about other servers."""
    return await _connect({"target_host": address, "namespace": DEFAULT_NAMESPACE}, workshop)


async def _connect(config: dict[str, Any], workshop: Path | None) -> Client:
    ring = key_ring()
    address = config.get("target_host") or "127.0.0.1:7233"
    config["target_host"] = address
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            client = await Client.connect(
                data_converter=encrypting(pydantic_data_converter, ring),
                interceptors=tracing_interceptors(),
                payload_limits=_LIMITS,
                **config,
            )
    except (RuntimeError, OSError, TimeoutError) as error:
        raise ConnectionFailed(
            f"no Temporal server answers at '{address}' ({_reason(error)})",
            next_step="Start one with `llm-do-temporal dev`, or name another with --address or TEMPORAL_ADDRESS.",
        ) from error
    return client if workshop is None else with_big_payloads(client, workshop_blobs(workshop, ring))


def out_of_reach() -> UsageError:
    """Return the error for a value that is kept in a blob store which is not at hand."""
    return UsageError(
        "what was asked for is kept in the blob store of its workshop, and no workshop is known here",
        next_step="Go to the workshop's folder, or name it with --workshop DIR.",
    )


def _reason(error: Exception) -> str:
    """Return the reason in an error's words, without the names of the transport's own types around it."""
    innermost = _OS_MESSAGE.search(str(error))
    if innermost is not None:
        return innermost[1]
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _know_keys(config: Mapping[str, Any]) -> None:
    """Have the API key taken out of all errors."""
    sent: dict[str, Any] = {**(config.get("rpc_metadata") or {}), "api_key": config.get("api_key")}
    for name, value in sent.items():
        for secret in secrets_of(name, value) if isinstance(value, str) else ():
            know_value(name, secret)


def _mistake(error: Exception) -> str:
    """Return the mistake in a configuration, and its place, without the parser's excerpt and without values."""
    if isinstance(error, OSError):
        return f"'{error.filename}': {os.strerror(error.errno or 0)}" if error.filename else str(error)
    said = "; ".join(line for line in str(error).splitlines() if line.strip() and not _EXCERPT.match(line))
    said = _VALUE.sub(r"\1", said.replace("Configuration loading error: ", ""))
    file = os.environ.get("TEMPORAL_CONFIG_FILE")
    return f"{said} (in '{file}')" if file and "TOML" in said else said


def _tls(connection: Connection, configured: TLSConfig | bool | None) -> TLSConfig | bool | None:
    """Return the TLS settings: each flag that is given, else the value that is configured."""
    given = {
        "client_cert": _bytes(connection.tls_cert_path),
        "client_private_key": _bytes(connection.tls_key_path),
        "server_root_ca_cert": _bytes(connection.tls_ca_path),
        "domain": connection.tls_server_name,
    }
    given = {field: value for field, value in given.items() if value is not None}
    if given:
        return replace(configured if isinstance(configured, TLSConfig) else TLSConfig(), **given)
    if connection.tls is False:
        return False
    return (configured or True) if connection.tls or connection.api_key else configured


def _bytes(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"the TLS file '{path}' cannot be read: {os.strerror(error.errno or 0)}") from error
