"""Runs that wait for a person, or whose text is being written, and the workshop that ships."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from llm_do_temporal.client.views.pending_work import tails
from llm_do_temporal.messages.conversation import LiveText
from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.patience import PATIENCE_SECONDS
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


SHIPPED = Path(__file__).parents[3] / "workers"


def install_shipped_workshop(place: Place) -> list[str]:
    """Put the shipped workshop in place and return the names of its decks."""
    shutil.copytree(SHIPPED, place.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".llm-do", "evaluations"))
    return sorted(path.stem for path in (place.folder / "files/pipeline").glob("*.pdf"))


STREAMED_MODEL = "openai-chat:gpt-test"
EIGHT_WORDS = "one two three four five six seven eight"


async def live_tail(place: Place, run: str, attempt: int = 1) -> LiveText:
    """Return the text that is being written in the run's entry worker, once there is any from this attempt."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await tails(place.client.temporal, await place.client.view(run))
            tail = found.get(run)
            if tail is not None and tail.attempt == attempt:
                return tail
