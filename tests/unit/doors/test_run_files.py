"""Files of runs with many invocations, as doors list them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.doors import files


class _Reads:
    """Readings of histories, of which each lasts until the loop has nothing else to begin."""

    def __init__(self) -> None:
        self.now = self.most = self.total = 0

    async def read(self, _client: object, _run: str, _path: str) -> tuple[()]:
        self.now, self.total = self.now + 1, self.total + 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return ()


class _Client:
    """Client of a server with one run, of many invocations."""

    temporal: Any = SimpleNamespace(data_converter=None)

    def __init__(self, invocations: int) -> None:
        self._nodes = {str(number): SimpleNamespace(path=f"item-{number}") for number in range(invocations)}

    async def view(self, _run: str) -> Any:
        return SimpleNamespace(nodes=self._nodes)


@pytest.mark.parametrize("invocations", [1, 17, 10_000])
async def test_few_histories_are_read_at_once(monkeypatch: pytest.MonkeyPatch, invocations: int) -> None:
    reads = _Reads()

    async def given(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(files, "read_files", reads.read)
    monkeypatch.setattr(files, "_given", given)
    assert await files.list_files(cast("LlmDoClient", _Client(invocations)), "run") == []
    assert (reads.total, reads.most) == (invocations, min(invocations, 16))
