"""A proxy between a door and its Temporal server, which kills the door before or after any of its requests."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

import psutil

_PREFACE_BYTES = 24
"""Bytes with which every HTTP/2 client begins."""
_FRAME_HEADER_BYTES = 9
_HEADERS = 1
"""Type of the frame that begins a request, or its answer."""


class Moment(StrEnum):
    """A moment of a request at which whoever sends it dies."""

    BEFORE = "before the server has heard it"
    AFTER = "before its answer is heard"


class KillingProxy:
    """A proxy in front of a Temporal server, which kills the process that sends a certain request, once."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._count = 0
        self._fatal: tuple[int, Moment] | None = None
        self.killed: int | None = None
        """The process that was killed; None: not yet."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """The address that the door is given instead of the server's."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def arm(self, request: int, moment: Moment) -> None:
        """Kill whoever sends the request of this number, counted from now, 1 for the next one."""
        with self._lock:
            self._count, self._fatal, self.killed = 0, (request, moment), None

    def disarm(self) -> int:
        """Kill nobody, and return the number of requests since it was armed."""
        with self._lock:
            self._fatal = None
            return self._count

    def _accept(self) -> None:
        while True:
            try:
                client, peer = self._listener.accept()
            except OSError:
                return
            _Connection(self, client, socket.create_connection(self._server), peer[1]).begin()

    def sends(self, port: int) -> Moment | None:
        """Count a request, and say when its sender is to die; None: not because of it."""
        with self._lock:
            self._count += 1
            if self._fatal is None or self._count != self._fatal[0]:
                return None
            moment = self._fatal[1]
        if moment is Moment.BEFORE:
            self.kill(port)
        return moment

    def kill(self, port: int) -> None:
        """Kill the process that has connected from this port."""
        # Another process may have the same port of its own in a connection to somebody else.
        here = self._listener.getsockname()
        owner = next(
            one.pid
            for one in psutil.net_connections("tcp4")
            if one.pid and one.laddr and one.raddr and one.laddr[1] == port and tuple(one.raddr) == here
        )
        # Known before it is done: its client may miss it before this thread goes on.
        with self._lock:
            self._fatal, self.killed = None, owner
        os.kill(owner, signal.SIGKILL)


class _Connection:
    """One connection of a door, in both directions."""

    def __init__(self, proxy: KillingProxy, door: socket.socket, server: socket.socket, port: int) -> None:
        self._proxy = proxy
        self._door = door
        self._server = server
        self._port = port
        self._fatal_stream: int | None = None

    def begin(self) -> None:
        """Pass on, in two threads, until one side is gone."""
        for source, target, skip, seen in (
            (self._door, self._server, _PREFACE_BYTES, self._asked),
            (self._server, self._door, 0, self._answered),
        ):
            threading.Thread(target=self._pump, args=(source, target, skip, seen), daemon=True).start()

    def _asked(self, kind: int, stream: int) -> bool:
        """Return whether a frame of the door is passed on."""
        if kind != _HEADERS:
            return True
        moment = self._proxy.sends(self._port)
        if moment is Moment.AFTER:
            self._fatal_stream = stream
        return moment is not Moment.BEFORE

    def _answered(self, kind: int, stream: int) -> bool:
        """Return whether a frame of the server is passed on."""
        if kind != _HEADERS or stream != self._fatal_stream:
            return True
        self._proxy.kill(self._port)
        return False

    def _pump(self, source: socket.socket, target: socket.socket, skip: int, seen: Callable[[int, int], bool]) -> None:
        reader = source.makefile("rb")
        try:
            target.sendall(reader.read(skip))
            while header := reader.read(_FRAME_HEADER_BYTES):
                body = reader.read(int.from_bytes(header[:3]))
                if not seen(header[3], int.from_bytes(header[5:]) & 0x7FFFFFFF):
                    break
                target.sendall(header + body)
        except OSError:
            pass
        finally:
            for one in (self._door, self._server):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
