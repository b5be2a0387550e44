"""Temporal servers that are none of ours, and the plain `temporal` command."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from llm_do_temporal.client.embedded.server import accepts
from tests.support.patience import eventually
from tests.support.ports import unused_port

PROGRAMS = Path(sysconfig.get_path("scripts"))


def is_healthy(address: str) -> bool:
    """Whether a Temporal server answers there; it listens a moment before it can."""
    command = [str(PROGRAMS / "temporal"), "operator", "cluster", "health", "--address", address]
    return accepts(address) and subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def temporal_server(*arguments: str) -> Generator[str]:
    """The address of a Temporal server that nobody of ours started; `arguments` are more of its command's.

    It chooses more ports by itself, and ends where somebody is quicker to take one of them: then another is started.
    """
    server, address = eventually(lambda: _started(*arguments), "the server serves")
    try:
        yield address
    finally:
        server.kill()
        server.wait()


def _started(*arguments: str) -> tuple[subprocess.Popen[bytes], str] | None:
    port = str(unused_port())
    command = [str(PROGRAMS / "temporal"), "server", "start-dev", "--headless", "--port", port, "--log-level", "never"]
    server = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL)
    address = f"127.0.0.1:{port}"
    try:
        eventually(lambda: is_healthy(address) or server.poll() is not None, "the server serves, or has ended")
        return (server, address) if server.poll() is None else None
    except BaseException:
        server.kill()
        server.wait()
        raise
