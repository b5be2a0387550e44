"""Runs that wait for an approval."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.place import Place

FILESYSTEM: dict[str, Any] = {"filesystem": {}}


def write_call(path: str = "/a.txt", content: str = "hi") -> Call:
    return call("write_file", path=path, content=content)


async def start_parked(place: Place, *turns: Any, toolsets: dict[str, Any] = FILESYSTEM) -> tuple[str, ScriptedModel]:
    """Start a run of a worker that plays these turns, and return its id and model once it waits for an approval."""
    main = scripted(*turns)
    place.worker("main", main, toolsets=toolsets)
    run = await place.start("main")
    await place.pending(run)
    return run, main


async def rejected_reason(place: Place, run: str) -> str:
    """Return the reason of the one question of a run, which is rejected, once the run has ended."""
    (asked,) = await place.pending(run)
    await place.decide(run, "reject")
    await place.client.result(run)
    return asked.request.reason or ""
