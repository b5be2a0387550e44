"""Reading transcripts: whole, or in parts with the newest first. Needs no worker service, and takes ended runs too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError

from llm_do_temporal.client.connection.errors import is_missing
from llm_do_temporal.client.history.events import read_chain, read_events, read_first
from llm_do_temporal.client.views.transcripts import Entry, Transcriber

ENOUGH_TURNS = 20
"""Least number of turns in the part that is opened first, where there are so many."""


@dataclass(frozen=True)
class Page:
    """A part of the conversation of one invocation."""

    entries: tuple[Entry, ...]
    before: str | None
    """The run of the workflow that holds the part before this one; None: this is the beginning."""
    run_id: str
    """The run of the workflow in which the last entry stands."""
    last_event: int
    """Id of the last event that was read in the history of that run."""
    has_begun: bool = True
    """Whether an invocation has begun: in the workflow of a run none has before its worker is loaded, or ever has if it
    is a batch."""


async def read_page(client: Client, workflow_id: str, run_id: str | None = None) -> Page:
    """The part of a conversation that is the history of one run of its workflow; None: the newest. Raises RPCError."""
    transcriber, entries, last = Transcriber(), list[Entry](), 0
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in read_events(handle, wait=False, converter=client.data_converter):
        entries += transcriber.apply(event)
        last = event.event_id
    return Page(tuple(entries), transcriber.before, run_id or transcriber.run_id, last, transcriber.has_begun)


async def read_newest(client: Client, workflow_id: str, *, turns: int = ENOUGH_TURNS) -> Page:
    """The newest part of a conversation, and those before it until there are so many turns. Raises RPCError."""
    page = await read_page(client, workflow_id)
    while page.before is not None and sum(entry.kind == "turn" for entry in page.entries) < turns:
        earlier = await read_page(client, workflow_id, page.before)
        page = Page((*earlier.entries, *page.entries), earlier.before, page.run_id, page.last_event)
    return page


async def read_on(client: Client, workflow_id: str, run_id: str, after: int) -> Page:
    """Return the part of a conversation after this event of this run of its workflow. Raises RPCError."""
    transcriber, entries, last = Transcriber(), list[Entry](), after
    async for event in read_chain(client, workflow_id, run_id, wait=False):
        told = transcriber.apply(event)
        if transcriber.run_id != run_id or event.event_id > after:
            entries += told
            last = event.event_id
    return Page(tuple(entries), transcriber.before, transcriber.run_id or run_id, last)


async def read_transcript(client: Client, workflow_id: str, *, from_turn: int = 0) -> AsyncIterator[Entry]:
    """The conversation of an invocation from this turn on, in order. Raises RPCError."""
    transcriber = Transcriber()
    async for event in read_chain(client, workflow_id, await _run_of(client, workflow_id, from_turn), wait=False):
        for entry in transcriber.apply(event):
            if entry.turn >= from_turn:
                yield entry


async def read_part_with(client: Client, workflow_id: str, turn: int) -> Page:
    """The part of a conversation that has this turn in it, or the newest one. Raises RPCError."""
    return await read_page(client, workflow_id, await _run_of(client, workflow_id, turn))


async def _run_of(client: Client, workflow_id: str, turn: int) -> str | None:
    """The run of the workflow that has this turn, or the earliest that is still kept."""
    run_id = later = None
    while True:
        begun = Transcriber()
        try:
            begun.apply(await read_first(client, workflow_id, run_id))
        except RPCError as error:
            if not is_missing(error) or later is None:
                raise
            return later
        if begun.before is None or begun.turn < turn:
            return begun.run_id
        later, run_id = begun.run_id, begun.before
