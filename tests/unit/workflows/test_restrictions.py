"""Restrictions of authors' functions in workflow code: they hold in each step, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.worker.workflow_sandbox import RestrictedWorkflowAccessError

from llm_do_temporal.workflows.tools.python import Restrictions
from tests.support.patience import PATIENCE_SECONDS

FORBIDDEN = [
    "import time\n    time.time()",
    "from time import monotonic\n    monotonic()",
    "import datetime\n    datetime.datetime.now()",
    "from datetime import date\n    date.today()",
    "import random\n    random.random()",
    "import uuid\n    uuid.uuid4()",
    "import os\n    os.urandom(1)",
    "import secrets\n    secrets.token_hex()",
    "open('/etc/hostname')",
    "import pathlib\n    pathlib.Path('/etc/hostname').read_text()",
    "__import__('time').time()",
]


def function(body: str, restrictions: Restrictions, **names: Any) -> Callable[[], Awaitable[Any]]:
    """An author's function, loaded as a pinned one is."""
    text = f"async def work():\n    {body}\n"
    with restrictions.applied():
        exec(text, names)
    return names["work"]


@pytest.mark.parametrize("body", FORBIDDEN)
async def test_clocks_chance_and_files_are_refused(body: str) -> None:
    restrictions = Restrictions()
    with pytest.raises(RestrictedWorkflowAccessError):
        await restrictions.awaited(function(body, restrictions))


@pytest.mark.parametrize("body", FORBIDDEN)
async def test_they_are_refused_after_a_wait_too(body: str) -> None:
    restrictions = Restrictions()
    with pytest.raises(RestrictedWorkflowAccessError):
        await restrictions.awaited(function(f"await pause()\n    {body}", restrictions, pause=pause))


async def test_other_code_between_the_steps_is_not_restricted() -> None:
    restrictions, reached, go_on = Restrictions(), asyncio.Event(), asyncio.Event()
    body = "reached.set()\n    await go_on.wait()\n    return 'done'"
    work = asyncio.ensure_future(
        asyncio.wait_for(
            restrictions.awaited(function(body, restrictions, reached=reached, go_on=go_on)), PATIENCE_SECONDS
        )
    )
    await reached.wait()
    with open("/etc/hostname", encoding="utf-8") as file:  # the author's function waits now  # noqa: ASYNC230, PTH123
        assert file.read() is not None
    go_on.set()
    assert await work == "done"


async def test_an_error_of_what_is_awaited_can_be_caught_inside() -> None:
    restrictions = Restrictions()
    body = "try:\n        await fail()\n    except ValueError as error:\n        return str(error)"
    assert await restrictions.awaited(function(body, restrictions, fail=fail)) == "no"


async def test_a_cancellation_arrives_inside_and_ends_the_function() -> None:
    restrictions, seen, reached = Restrictions(), list[str](), asyncio.Event()
    body = "try:\n        reached.set()\n        await pause(10)\n    finally:\n        seen.append('cancelled')"
    awaitable = restrictions.awaited(function(body, restrictions, pause=asyncio.sleep, seen=seen, reached=reached))
    work = asyncio.ensure_future(asyncio.wait_for(awaitable, PATIENCE_SECONDS))
    await reached.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert seen == ["cancelled"]


async def test_loading_a_file_reads_no_clock_either_and_may_import_one() -> None:
    names: dict[str, Any] = {}
    with Restrictions().applied():
        exec("import time", names)
        with pytest.raises(RestrictedWorkflowAccessError):
            exec("BEGUN = time.time()", names)


async def pause() -> None:
    """Let other tasks run."""
    await asyncio.sleep(0)


async def fail() -> None:
    """Wait, and then fail."""
    await asyncio.sleep(0)
    raise ValueError("no")
