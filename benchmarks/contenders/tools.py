"""The tools of every contender. Copied into the workshop of ours as its `tools.py`; the peers import it.

`lookup` is the one that is called; nine more are only described to the model. The last three leave a line in the file
that `BENCH_EFFECTS` names when they start, which is how a measurement sees them.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from llm_do_temporal.tools import idempotent

_TEXT = "The quick brown fox jumps over the lazy dog. " * 400
HELD_SECONDS = 3600


@idempotent
async def lookup(key: str, size: int = 2048) -> str:
    """Look up what is known under a key; returns a text of this many characters."""
    return f"{key}: {_TEXT}"[:size]


@idempotent
async def search(query: str, limit: int = 10) -> str:
    """Search all documents of the archive and return the best matches, with their titles."""
    return f"{limit} matches for {query}"


@idempotent
async def fetch_page(url: str, as_text: bool = True) -> str:
    """Fetch a page of the intranet, as text without its markup unless that is asked for."""
    return f"{url} {as_text}"


@idempotent
async def list_entries(folder: str, recursive: bool = False) -> str:
    """List the entries of a folder of the archive, with their sizes and dates."""
    return f"{folder} {recursive}"


@idempotent
async def compare(left: str, right: str) -> str:
    """Compare two documents of the archive and describe how they differ."""
    return f"{left} {right}"


@idempotent
async def convert(amount: float, source: str, target: str) -> str:
    """Convert an amount of money from one currency to another at the rate of today."""
    return f"{amount} {source} {target}"


@idempotent
async def translate(text: str, language: str) -> str:
    """Translate a text into another language, keeping its formatting."""
    return f"{language}: {text}"


@idempotent
async def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@idempotent
async def find_person(name: str, company: str = "") -> str:
    """Find a person by name, and by company where that is known."""
    return f"{name} {company}"


@idempotent
async def schedule(title: str, day: str, minutes: int = 30) -> str:
    """Propose a time for a meeting on a day, of this many minutes."""
    return f"{title} {day} {minutes}"


async def guarded(key: str) -> str:
    """Do something that a person must approve first."""
    _leave("guarded", key)
    return "done"


async def once(key: str) -> str:
    """Do something that must not happen twice. The first time it is asked, it never ends."""
    return await _hold("once", key)


@idempotent
async def again(key: str) -> str:
    """Do something that may happen twice. The first time it is asked, it never ends."""
    return await _hold("again", key)


def effects(tool: str, key: str, path: Path | None = None) -> list[float]:
    """When this call was started so far, in seconds since the epoch."""
    file = path or Path(os.environ["BENCH_EFFECTS"])
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [float(line.split()[2]) for line in lines if line.split()[:2] == [tool, key]]


async def _hold(tool: str, key: str) -> str:
    first = not effects(tool, key)
    _leave(tool, key)
    if first:
        await asyncio.sleep(HELD_SECONDS)
    return "done"


def _leave(tool: str, key: str) -> None:
    with Path(os.environ["BENCH_EFFECTS"]).open("a", encoding="utf-8") as file:
        file.write(f"{tool} {key} {time.time()}\n")
