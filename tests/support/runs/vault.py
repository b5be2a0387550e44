"""A workshop whose encryption keys change."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.encryption.codec import encrypting
from llm_do_temporal.encryption.keys import KEYS_VARIABLE, key_ring
from llm_do_temporal.service.build import ServiceSettings, build_worker
from llm_do_temporal.storage.external_storage import keeping_big_payloads
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.runs.place import Place

OLD_KEY = f"old:{base64.b64encode(b'o' * 32).decode()}"
NEW_KEY = f"new:{base64.b64encode(b'n' * 32).decode()}"
SECRET = "violet walrus"


class Vault:
    """A workshop whose keys change."""

    def __init__(self, server: WorkflowEnvironment, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._server = server
        self._monkeypatch = monkeypatch

    def use(self, *keys: str) -> None:
        """Give keys: from here on clients, services and replays of this process have these."""
        self._monkeypatch.setenv(KEYS_VARIABLE, ",".join(keys))
        self.place.client = LlmDoClient(self.connected(), task_queue=self.place.queue)

    def connected(self) -> Client:
        """A client with the keys that are in use."""
        config = self._server.client.config()
        converter = encrypting(config["data_converter"], key_ring())
        config["data_converter"] = keeping_big_payloads(converter, workshop_blobs(self.place.folder))
        return Client(**config)

    @asynccontextmanager
    async def serving(self, *keys: str) -> AsyncGenerator[None]:
        """A worker service with these keys."""
        self.use(*keys)
        async with build_worker(self.connected(), self.place.folder, ServiceSettings(task_queue=self.place.queue)):
            yield

    async def raw(self) -> list[WorkflowHistory]:
        """Return the histories of all runs as the server has them: encrypted."""
        return await self.place.histories()
