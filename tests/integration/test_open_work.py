"""Work for which a background host stays, as the embedded server counts it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from llm_do_temporal.client.embedded.host import await_server, has_open_work, server_command, spawn
from llm_do_temporal.extension import run_starters
from llm_do_temporal.messages.base import RUN_WORKFLOW
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import held_port


async def counted(client: Client, expected: bool) -> None:
    """Wait until work is open, or none is: the server counts a workflow a moment after its start or end."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await has_open_work(client) is not expected:
            pass


@pytest.mark.embedded("one is started here")
async def test_open_runs_and_experiments_are_work(tmp_path: Path) -> None:
    with held_port() as port:
        address, log = f"127.0.0.1:{port}", tmp_path / "server.log"
        server = spawn(server_command(address, tmp_path / "temporal.db", None), log)
        try:
            client = await await_server(server, address, tmp_path / "temporal.db", log)
            assert not await has_open_work(client)
            for workflow in (*(one.workflow for one in run_starters()), RUN_WORKFLOW):
                handle = await client.start_workflow(workflow, id=workflow, task_queue="nobody-polls-this")
                await counted(client, expected=True)
                await handle.terminate()
                await counted(client, expected=False)
        finally:
            server.kill()
            server.wait()
