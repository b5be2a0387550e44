"""Content of PDFs, parsed in another process with limits on time, memory and result.

Owns the helper process (see `pdf.helper`): it is started with the first file and ends with this process. Each file is
parsed by a fork of it, which is killed when its time is over or when the caller gives up. Called by model turns and
by the page, always in a thread. Nothing here, and nowhere else in this package, parses a PDF in its own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
HELPER = Path(__file__).with_name("helper.py")
SECONDS = 60
"""Longest time for one file on a busy machine: a deck takes a fraction of a second, a thousand pages about twenty."""
CPU_SECONDS = 30
MEMORY_BYTES = 1 << 30
"""Address space: a file of 32 MiB takes a few hundred."""
RESULT_BYTES = 64 << 20
AT_ONCE = 4
"""Files parsed side by side by one process; more wait."""
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
_ENDING_SECONDS = 2.0
_POLL_SECONDS = 0.1
"""Seconds between two looks of a waiting order whether its caller has given up."""


@dataclass(frozen=True)
class Order:
    """Work to be done with a file, and its limits."""

    work: str
    """`text`; `pages`: the file written anew with its pages alone; `flaw`: what readers would stumble over."""
    pages: int
    """Most pages; a file with more is refused, unless `first_pages` says to leave out the rest."""
    characters: int = 0
    """Most characters of text; the rest is left out."""
    first_pages: bool = False
    pictures: bool = False
    """Whether to say which pages have pictures."""


@dataclass(frozen=True)
class PdfText:
    """The text of a PDF."""

    count: int
    """Number of pages of the file."""
    texts: tuple[str, ...]
    """Text of each page that was read, the first ones first."""
    pictures: tuple[bool, ...]
    is_whole: bool
    """False where the text was longer than the order allows."""


class PdfFailure(Exception):
    """A file cannot be read."""

    def __init__(self, kind: str, message: str) -> None:
        """`kind` is the name of the parser's error; `Refused`, `TooMuch` and `TooLarge` are ours."""
        super().__init__(message)
        self.kind = kind


class _Child:
    """A process that is not ours to wait for; ended by a handle that no other process can come to have."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._handle: int | None = None
        if sys.platform == "linux":
            with contextlib.suppress(ProcessLookupError):  # it is done already
                self._handle = os.pidfd_open(process)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif sys.platform != "linux":
                os.kill(self._process, signal.SIGKILL)

    def forget(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


class Leash:
    """The children that work for one caller; they end when it lets go."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._children: set[_Child] = set()
        self.is_cut = False

    @contextlib.contextmanager
    def holding(self, child: _Child) -> Generator[None]:
        """Hold a child in the block; at its end it is killed, which does not matter to a child that is done."""
        with self._guard:
            self._children.add(child)
            if self.is_cut:
                child.kill()
        try:
            yield
        finally:
            with self._guard:
                self._children.discard(child)
                child.kill()
                child.forget()

    def cut(self) -> None:
        """End them all, and let no other begin."""
        with self._guard:
            self.is_cut = True
            for child in self._children:
                child.kill()


_leash: ContextVar[Leash | None] = ContextVar("leash", default=None)
_room = threading.BoundedSemaphore(AT_ONCE)


@contextlib.contextmanager
def leashed() -> Generator[None]:
    """End with the block whatever is being parsed by threads that begin in it, and have its context."""
    leash = Leash()
    token = _leash.set(leash)
    try:
        yield
    finally:
        leash.cut()
        _leash.reset(token)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`asyncio.to_thread`, and whatever is being parsed in it ends when this is cancelled."""
    with leashed():
        return await asyncio.to_thread(work, *args, **kwargs)


def pdf_text(data: bytes, order: Order) -> PdfText:
    """The text of a PDF. Raises PdfFailure. It blocks: from async code use `in_thread`."""
    found = json.loads(_made(data, order))
    wanted = min(found["count"], order.pages)
    texts = tuple(found["texts"])
    whole = len(texts) == wanted and sum(map(len, texts)) < order.characters
    return PdfText(found["count"], texts, tuple(found["pictures"]), is_whole=whole)


def pdf_flaw(data: bytes, most: int) -> str:
    """Flaw that readers of a PDF would stumble over in its first pages, at most `most`, as a clause; empty for none.

    Raises PdfFailure. It blocks, too.
    """
    return _made(data, Order("flaw", most)).decode()


def pdf_pages(data: bytes, most: int) -> bytes:
    """The pages of a PDF as a PDF, with nothing in it that acts. Raises PdfFailure. It blocks, too."""
    return _made(data, Order("pages", most))


def _made(data: bytes, order: Order) -> bytes:
    """Return the result that a child wrote for the file."""
    leash = _leash.get() or Leash()
    with _turn(leash), _memory() as given, _memory() as result:
        view = memoryview(data)
        while view:
            view = view[os.write(given, view) :]
        state = _carried_out(order, given, result, leash)
        if state is None:  # the helper is gone, or about to be
            _helper.wait_for_end()
            state = _carried_out(order, given, result, leash)
        made = os.pread(result, min(os.fstat(result).st_size, RESULT_BYTES), 0)
    if state == b"d":
        return made
    if state != b"f":
        raise PdfFailure("TooMuch", f"reading it takes more than {CPU_SECONDS} s or {MEMORY_BYTES >> 20} MiB")
    kind, message = json.loads(made)
    if kind in ("MemoryError", "TooLarge"):
        raise PdfFailure("TooMuch", f"reading it takes more than {MEMORY_BYTES >> 20} MiB")
    raise PdfFailure(kind, message)


def _carried_out(order: Order, given: int, result: int, leash: Leash) -> bytes | None:
    """Let a child carry out the order, and return its last byte; empty for a killed child, None where none began."""
    limits = {"cpu_seconds": CPU_SECONDS, "memory_bytes": MEMORY_BYTES, "result_bytes": RESULT_BYTES}
    until = time.monotonic() + SECONDS
    ours, its = socket.socketpair()
    with ours, its:
        _helper.send(json.dumps(asdict(order) | limits).encode(), [given, result, its.fileno()])
        its.close()
        said = b""
        while not said.endswith(b"\n"):
            if not (more := _received(ours, until)):
                return None if not said and time.monotonic() < until else b""
            said += more
        with leash.holding(_Child(int(said))):
            return _received(ours, until)


def _received(told: socket.socket, until: float) -> bytes:
    """Return the next byte; empty when the child has ended, or its time is over."""
    readable, _, _ = select.select([told], [], [], max(0.0, until - time.monotonic()))
    return told.recv(1) if readable else b""


@contextlib.contextmanager
def _turn(leash: Leash) -> Generator[None]:
    """Wait until there is room for another child."""
    while not _room.acquire(timeout=_POLL_SECONDS):
        if leash.is_cut:
            raise PdfFailure("TooMuch", "nobody waits for it any more")
    try:
        yield
    finally:
        _room.release()


@contextlib.contextmanager
def _memory() -> Generator[int]:
    """Open a file that is on no disk: the content of a PDF may be encrypted everywhere else."""
    if sys.platform != "linux":
        with tempfile.TemporaryFile() as file:
            yield file.fileno()
        return
    descriptor = os.memfd_create("pdf", os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Helper:
    """The process that forks; started when it is needed, and again where it has ended."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._orders: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, order: bytes, descriptors: list[int]) -> None:
        """Let it fork for this."""
        with self._guard:
            if self._orders is None or self._process is None or self._process.poll() is not None:
                self._start()
            try:
                socket.send_fds(self._connection(), [order], descriptors)
            except OSError:
                self._start()
                socket.send_fds(self._connection(), [order], descriptors)

    def wait_for_end(self) -> None:
        """Give a helper that was killed the time to be gone, so that the next order finds another."""
        with self._guard, contextlib.suppress(subprocess.TimeoutExpired):
            if self._process is not None:
                self._process.wait(_ENDING_SECONDS)

    def _connection(self) -> socket.socket:
        assert self._orders is not None
        return self._orders

    def _start(self) -> None:
        if self._orders is not None:
            self._orders.close()
        self._orders, its = socket.socketpair(socket.AF_UNIX, _KIND)
        with its:
            # Isolated mode and an empty environment: no keys, and nothing of the folder it is started in.
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(HELPER)],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=tempfile.gettempdir(),
                env={},
                start_new_session=True,
            )


_helper = _Helper()


def _forget() -> None:
    """A fork has a helper of its own: the guard may be held by a thread that it does not have."""
    global _helper, _room
    _helper, _room = _Helper(), threading.BoundedSemaphore(AT_ONCE)


os.register_at_fork(after_in_child=_forget)
