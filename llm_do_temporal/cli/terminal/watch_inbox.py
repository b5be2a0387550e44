"""`approvals watch`: staying with the inbox until the person leaves, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from rich.console import Console

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.session import opened
from llm_do_temporal.cli.terminal.attend import ConnectionLost, while_served
from llm_do_temporal.cli.terminal.inbox import Inbox
from llm_do_temporal.cli.terminal.lines import Interrupt
from llm_do_temporal.cli.text import PROGRAM, say, visible_line
from llm_do_temporal.errors import ConnectionFailed, UsageError

_RETRY_SECONDS = 1.0
_SIGNALLED = 128
"""Added to the number of the signal, as shells do."""


def check_terminal(run: str | None) -> None:
    """Raise UsageError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
        words = " ".join(["approvals", *([] if run is None else [run]), "--json"])
        raise UsageError("approvals watch needs a terminal", next_step=f"`{PROGRAM} {words}` lists what waits.")


async def mind(location: Location, run: str | None) -> int:
    """Show the inbox until the person leaves; returns the exit code."""
    interrupt = Interrupt()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt.raise_it, number)
    showing = asyncio.create_task(_show(location, run, interrupt))
    leaving = asyncio.create_task(interrupt.happened.wait())
    try:
        await asyncio.wait({showing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            showing.result()
            return 0
        return 0 if interrupt.number is signal.SIGINT else _SIGNALLED + interrupt.number
    finally:
        for task in (showing, leaving):
            task.cancel()
        await asyncio.gather(showing, leaving, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _show(location: Location, run: str | None, interrupt: Interrupt) -> None:
    """Show the inbox, connecting again whenever the connection is lost; the first one must succeed."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    connected = False
    while True:
        try:
            async with opened(location) as session:
                if run is not None and not connected:
                    await session.client.status(run)
                if connected:
                    say("connected again")
                connected = True
                await while_served(session, Inbox(session.client, run, console, interrupt).show())
                return
        except (ConnectionLost, ConnectionFailed) as lost:
            if not connected:
                raise
            say(f"the connection was lost ({visible_line(str(lost), 200)}), connecting again …")
        await asyncio.sleep(_RETRY_SECONDS)
