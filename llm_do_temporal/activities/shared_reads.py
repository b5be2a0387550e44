"""Reads of files that several ask for at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Read(Generic[T]):
    lock: Lock = field(default_factory=Lock)
    waiting: int = 0
    found: tuple[int, T] | None = None
    """When the last read began, and what it found."""


class SharedReads(Generic[T]):
    """Lets those who ask while a read is under way share the next one.

    What anybody gets was read after they asked, so it is what a read of their own would have found.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._reads: dict[str, _Read[T]] = {}
        self._ticks = count()

    def get(self, key: str, read: Callable[[], T]) -> T:
        """What `read` finds, here or in another thread that reads the same. Raises what `read` raises."""
        with self._guard:
            asked = next(self._ticks)
            one = self._reads.setdefault(key, _Read())
            one.waiting += 1
        try:
            with one.lock:
                if one.found is None or one.found[0] < asked:
                    begun = next(self._ticks)
                    one.found = begun, read()
                return one.found[1]
        finally:
            with self._guard:
                one.waiting -= 1
                if not one.waiting:
                    del self._reads[key]
