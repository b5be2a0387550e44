"""Borrowers of a run: forks and later attempts that hold copies of its answers, and the borrowers of these.

Whatever a run reuses is copied before it starts, so nothing here keeps a run from being deleted: people are told who
has its words. Called by `delete`. Must not read a history: the memo says whom a run borrows from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from temporalio.client import Client

from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.views.memos import ended_at, read_begun
from llm_do_temporal.client.views.server_list import NEWEST_EXECUTION, every_part
from llm_do_temporal.errors import KeyMismatch
from llm_do_temporal.messages.base import RUN_WORKFLOW

_QUERY = f"WorkflowType = '{RUN_WORKFLOW}' AND {NEWEST_EXECUTION}"


@dataclass(frozen=True)
class Borrower:
    """Run that reuses answers of another one."""

    run: str
    of: str
    """Run that it was started from."""
    is_open: bool


@dataclass(frozen=True)
class Borrowers:
    """Borrowers of one run."""

    known: tuple[Borrower, ...]
    """Each after the one that it borrows from."""
    locked: int = 0
    """Runs of the server whose memo cannot be read with the keys here: any of them may be one."""


async def read_borrowers(client: Client, run: str) -> Borrowers:
    """Return the runs that borrow from this one, directly or from one another. Raises ConnectionFailed."""
    listed: dict[str, Borrower] = {}
    locked = 0
    async with translated():
        async for part in every_part(client, _QUERY):
            for info in part.found:
                try:
                    begun = await read_begun(info, client.data_converter)
                except KeyMismatch:
                    locked += 1
                    continue
                if begun.fork_of:
                    name = info.execution.workflow_id
                    listed[name] = Borrower(name, begun.fork_of, ended_at(info) is None)
    return Borrowers(borrowers_of(run, listed), locked)


def borrowers_of(run: str, listed: Mapping[str, Borrower]) -> tuple[Borrower, ...]:
    """Return those of `listed`, by their ids, that borrow from the run, each after the one that it borrows from.

    The run itself is none, whatever its memo says.
    """
    found: dict[str, Borrower] = {}
    lenders = [run]
    for lender in lenders:
        below = [one for one in listed.values() if one.of == lender and one.run != run and one.run not in found]
        for one in sorted(below, key=lambda one: one.run):
            found[one.run] = one
            lenders.append(one.run)
    return tuple(found.values())
