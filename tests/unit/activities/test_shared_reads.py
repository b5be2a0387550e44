"""Reads that several ask for at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from llm_do_temporal.activities.shared_reads import SharedReads


class Slow:
    """Something to read that waits until it is let go, and notes each read."""

    def __init__(self) -> None:
        self.begun, self.go_on = Event(), Event()
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        number = self.reads
        self.begun.set()
        self.go_on.wait()
        return number


def test_those_who_ask_during_a_read_share_the_next_one() -> None:
    reads, slow, asked = SharedReads[int](), Slow(), [Event() for _ in range(5)]

    def ask(event: Event) -> int:
        event.set()
        return reads.get("a", slow.read)

    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(reads.get, "a", slow.read)
        assert slow.begun.wait(30)
        others = [pool.submit(ask, event) for event in asked]
        assert all(event.wait(30) for event in asked)
        slow.go_on.set()
        assert first.result() == 1
        assert all(other.result() >= 2 for other in others)
    assert reads.get("a", lambda: 100) == 100


def test_reads_one_after_the_other_are_reads_of_their_own() -> None:
    reads = SharedReads[int]()
    assert [reads.get("a", lambda number=number: number) for number in range(3)] == [0, 1, 2]


def test_a_read_that_fails_is_nobody_elses() -> None:
    reads = SharedReads[int]()

    def fails() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        reads.get("a", fails)
    assert reads.get("a", lambda: 1) == 1


def test_reads_of_other_things_do_not_wait() -> None:
    reads, slow = SharedReads[int](), Slow()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(reads.get, "a", slow.read)
        assert slow.begun.wait(30)
        assert reads.get("b", lambda: 2) == 2
        slow.go_on.set()
        assert first.result() == 1
