"""TCP relay that falls silent on demand: connections stay, no byte passes, and whoever connects anew hears nothing.

That is what a cut network looks like from either end. What was sent meanwhile arrives when it is mended, late, as
what TCP sends again does. It needs no root and no settings of a machine.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

Address = tuple[str, int]
_CHUNK_BYTES = 65_536


class Relay:
    """A listener that passes on to `target` what it is sent, and back, unless the connection is cut."""

    def __init__(self, target: Address, listen: Address = ("127.0.0.1", 0)) -> None:
        """`listen` with port 0: any that is free."""
        self._target = target
        self._whose: Callable[[int], bool] | None = None
        self._lines: set[_Line] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._carry, *listen))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self, whose: Callable[[int], bool] = lambda _: True) -> None:
        """Pass nothing on any more for clients whose port is such; by default for nobody."""
        self._do(self._set(whose))

    def mend(self) -> None:
        """Pass on again, beginning with what came meanwhile."""
        self._do(self._set(None))

    def close(self) -> None:
        """End all connections, and listen no more."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _set(self, whose: Callable[[int], bool] | None) -> None:
        self._whose = whose
        for line in self._lines:
            self._judge(line)

    def _judge(self, line: _Line) -> None:
        if self._whose is not None and self._whose(line.client):
            line.open.clear()
        else:
            line.open.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        line = _Line(writer.get_extra_info("peername")[1], task)
        self._lines.add(line)
        self._judge(line)
        try:
            await line.open.wait()
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
        else:
            await asyncio.gather(_pump(reader, back, line.open), _pump(there, writer, line.open))
        finally:
            self._lines.discard(line)

    async def _end(self) -> None:
        self._server.close()
        tasks = [line.task for line in self._lines]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@dataclass(eq=False)
class _Line:
    client: int
    """Its port."""
    task: asyncio.Task[None]
    open: asyncio.Event = field(default_factory=asyncio.Event)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
    with suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            await is_open.wait()
            sink.write(chunk)
            await sink.drain()
    # The end of a connection is news, too.
    await is_open.wait()
    sink.close()


def ports_of(pid: int | None) -> Callable[[int], bool]:
    """Whether a port is one from which this process has connected."""

    def belongs(port: int) -> bool:
        if pid is None:
            return False
        connections = psutil.Process(pid).net_connections("tcp")
        return any(one.laddr.port == port for one in connections)

    return belongs
