"""The server that a host starts is the one it uses, whoever else starts one at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.processes import await_server, server_command, spawn
from llm_do_temporal.client.embedded.server import any_free_port
from llm_do_temporal.errors import ConnectionFailed


@pytest.mark.embedded("two of them are started here")
async def test_a_server_of_somebody_else_at_the_same_address_is_not_taken_for_ours(tmp_path: Path) -> None:
    address = f"127.0.0.1:{any_free_port()}"
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    first = spawn(server_command(address, theirs, None), tmp_path / "theirs.log")
    try:
        await await_server(first, address, theirs, tmp_path / "theirs.log")
        second = spawn(server_command(address, ours, None), tmp_path / "ours.log")
        with pytest.raises(ConnectionFailed, match="address already in use"):
            await await_server(second, address, ours, tmp_path / "ours.log")
    finally:
        first.kill()
        first.wait()
