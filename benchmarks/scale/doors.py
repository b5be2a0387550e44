"""Times of the doors through which people look: the commands, the client in one process, and the page over HTTP."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median

import httpx2

from benchmarks.processes import NotMeasured
from benchmarks.scale.site import Site

TIMES = 5
MS = 1_000
_TAG = re.compile(r"<[^>]*>?|^[^<]*>")


@dataclass(frozen=True)
class Opened:
    """An address of the page, opened several times; each in ms up to the last byte."""

    first: float
    """The first time."""
    first_byte: float
    """Median time up to the first byte."""
    median: float
    size: int
    """Bytes of the answer."""


class Browser:
    """A person who is signed in at the page."""

    def __init__(self, site: Site) -> None:
        self._client = httpx2.Client(base_url=site.page, headers={"Origin": site.page}, timeout=120)
        answer = self._client.post("/sign-in", data={"token": site.cluster.place.token(), "to": "/"})
        if answer.status_code != 303:
            raise NotMeasured(f"nobody can sign in at the page: {answer.status_code}")

    def open(self, address: str, times: int = TIMES) -> Opened:
        """Open an address so often. Raises NotMeasured for an error in place of a page."""
        bytes_first: list[float] = []
        whole: list[float] = []
        size = 0
        for _ in range(times):
            began = time.monotonic()
            with self._client.stream("GET", address) as answer:
                bytes_first.append((time.monotonic() - began) * MS)
                size = len(answer.read())
                whole.append((time.monotonic() - began) * MS)
                if answer.status_code != 200:
                    said = _TAG.sub(" ", answer.text.partition("<main")[2].partition("</main>")[0])
                    raise NotMeasured(f"{address} answers {answer.status_code}: {' '.join(said.split())}")
        return Opened(whole[0], median(bytes_first), median(whole), size)

    def find(self, address: str, mark: str) -> str | None:
        """Return what stands in quotes after `mark` in the page at this address; None where it is not there."""
        _, found, rest = self._client.get(address).text.partition(mark)
        return rest.partition('"')[0].replace("&amp;", "&") if found else None

    def close(self) -> None:
        """Leave."""
        self._client.close()


async def called(what: Callable[[], Awaitable[object]], times: int = TIMES) -> float:
    """Median of several calls, in ms."""
    took: list[float] = []
    for _ in range(times):
        began = time.monotonic()
        await what()
        took.append((time.monotonic() - began) * MS)
    return median(took)


async def commanded(site: Site, *words: str, times: int = TIMES) -> float:
    """Median of several runs of a command of ours, in ms, the start of Python included."""
    return median([await asyncio.to_thread(site.run_command, *words) for _ in range(times)]) * MS
