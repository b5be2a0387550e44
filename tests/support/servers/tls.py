"""TLS with certificates on both sides, in front of a server that has none."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme


@dataclass(frozen=True)
class Certificates:
    """An authority, and files of what it has signed for a client."""

    authority: trustme.CA
    folder: Path

    @property
    def flags(self) -> dict[str, str]:
        """What a client has to know, as the variables of the `temporal` CLI."""
        return {
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(self.folder / "client.pem"),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(self.folder / "client.key"),
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(self.folder / "authority.pem"),
        }


def make_certificates(folder: Path) -> Certificates:
    """Make them in a folder, which is made too."""
    folder.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    client = authority.issue_cert("worker@example.com")
    client.cert_chain_pems[0].write_to_path(folder / "client.pem")
    client.private_key_pem.write_to_path(folder / "client.key")
    return Certificates(authority, folder)


@contextmanager
def mutual_tls(address: str, certificates: Certificates) -> Generator[str]:
    """An address that speaks TLS and passes on to another one what comes from clients of this authority."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(_serve(address, certificates.authority), loop).result()
        yield f"localhost:{port}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_end(asyncio.all_tasks(loop)))


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(address: str, authority: trustme.CA) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    return int(server.sockets[0].getsockname()[1])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
