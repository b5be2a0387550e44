"""A server that answers with whatever bytes it is given, as slowly as it is told, and never ends by itself."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Self

Pieces = Callable[[], Iterable[bytes]]
_READ_BYTES = 65536


class Dripping:
    """Sends the pieces one by one to everybody who connects, `pause` seconds apart, until it is closed."""

    def __init__(self, pieces: Pieces, *, pause: float = 0.05, reads: bool = True) -> None:
        self._pieces = pieces
        self._pause = pause
        self._reads = reads
        self._closing = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._serve)]
        self._connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/hook"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _serve(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listening.accept()
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._answer, args=(connection,)))
                self._threads[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if self._reads:
                connection.recv(_READ_BYTES)
            for piece in self._pieces():
                if self._closing.wait(self._pause):
                    return
                connection.sendall(piece)
            self._closing.wait()
