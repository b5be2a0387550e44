"""Workflows of other namespaces call workers, durably, through the endpoints of Nexus that an operator names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_do_temporal.extension import Extension

_ENDPOINTS = "nexus_endpoints"


class NexusExtension(Extension):
    """See the module."""

    name = "nexus"

    def service_settings(self) -> Sequence[str]:
        """See Extension."""
        return (_ENDPOINTS,)

    def nexus_handlers(
        self, client: Any, workshop: Path, queue: str, settings: Mapping[str, Sequence[str]], *, sets_attributes: bool
    ) -> Sequence[object]:
        """See Extension. There are none without endpoints."""
        if not settings[_ENDPOINTS]:
            return ()
        from llm_do_temporal.client.client import LlmDoClient
        from llm_do_temporal.doors.service import DoorService
        from llm_do_temporal.extensions.nexus.handler import LlmDoHandler

        doors = DoorService(LlmDoClient(client, task_queue=queue), workshop)
        return (LlmDoHandler(doors, settings[_ENDPOINTS], sets_attributes=sets_attributes),)


EXTENSION = NexusExtension()
