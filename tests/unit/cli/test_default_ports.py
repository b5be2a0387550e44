"""The ports at which commands listen by default."""

from __future__ import annotations

import inspect

from llm_do_temporal.client.embedded import server
from llm_do_temporal.extension import installed
from llm_do_temporal.ui import page_server


def test_commands_that_listen_beside_each_other_have_ports_of_their_own() -> None:
    temporal_ui = server.DEFAULT_PORT + 1000
    ports = [server.DEFAULT_PORT, temporal_ui, page_server.DEFAULT_PORT]
    for command in (command for extension in installed() for command in extension.commands()):
        port = inspect.signature(command.function).parameters.get("port")
        ports += [port.default] if port is not None else []
    assert len(set(ports)) == len(ports)
