"""The server that a host starts is the one it uses, whoever else starts one at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.embedded import host
from llm_do_temporal.client.embedded.host import await_server, server_command, spawn
from llm_do_temporal.errors import ConnectionFailed
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import held_port


@pytest.mark.embedded("two of them are started here")
async def test_a_server_of_somebody_else_at_the_same_address_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_START_SECONDS", PATIENCE_SECONDS)
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    with held_port() as port:
        address = f"127.0.0.1:{port}"
        first = spawn(server_command(address, theirs, None), tmp_path / "theirs.log")
        try:
            await await_server(first, address, theirs, tmp_path / "theirs.log")
            second = spawn(server_command(address, ours, None), tmp_path / "ours.log")
            with pytest.raises(ConnectionFailed, match="address already in use"):
                await await_server(second, address, ours, tmp_path / "ours.log")
        finally:
            first.kill()
            first.wait()
