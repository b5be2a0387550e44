"""The list of runs, where what it tells is no longer there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from llm_do_temporal.client.views.run_list import ListedRun, read_all_spent
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent
from llm_do_temporal.errors import ConnectionFailed
from llm_do_temporal.messages.budget import Usage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SPENT = Spent(total=Usage(requests=3))


class Kept(Accounts):
    """Accounts of a server that answers with this where it is asked for the history of `gone`."""

    def __init__(self, status: RPCStatusCode) -> None:
        super().__init__(cast("Any", None))
        self._status = status

    async def read_one(self, branch: Branch, *, whole: bool = False) -> Spent:
        """See Accounts."""
        if branch.workflow_id == "gone":
            raise RPCError("no history", self._status, b"")
        return SPENT


def listed(run: str) -> ListedRun:
    return ListedRun(run, "r", "boss", "ann", "completed", (), 0, NOW, NOW)


async def test_a_run_whose_history_was_removed_does_not_hide_the_others() -> None:
    (gone, nothing), (kept, spent) = await read_all_spent(
        Kept(RPCStatusCode.NOT_FOUND), [listed("gone"), listed("kept")]
    )
    assert (gone.run, gone.has_history, nothing) == ("gone", False, Spent())
    assert (kept.run, kept.has_history, spent) == ("kept", True, SPENT)


async def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ConnectionFailed, match="does not answer"):
        await read_all_spent(Kept(RPCStatusCode.UNAVAILABLE), [listed("gone")])
