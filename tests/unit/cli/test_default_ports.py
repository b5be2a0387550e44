"""The ports at which commands listen by default."""

from __future__ import annotations

import inspect

from llm_do_temporal.cli.commands.doors.mcp import mcp
from llm_do_temporal.client.embedded import server
from llm_do_temporal.ui import codec_server, page_server


def test_commands_that_listen_beside_each_other_have_ports_of_their_own() -> None:
    temporal_ui = server.DEFAULT_PORT + 1000
    by_http = inspect.signature(mcp).parameters["port"].default
    ports = [server.DEFAULT_PORT, temporal_ui, page_server.DEFAULT_PORT, codec_server.DEFAULT_PORT, by_http]
    assert len(set(ports)) == len(ports)
