"""The queue of questions: those that wait for this person, in the order of asking."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from llm_do_temporal.client.views.inbox import InboxContents, InboxEntry
from llm_do_temporal.ui.app import build_app
from llm_do_temporal.ui.security.settings import UiSettings
from llm_do_temporal.ui.security.users import TokenAccess
from tests.support.people.browser import Browser
from tests.support.people.signed_in import BASE, TOKENS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENTRY = InboxEntry(
    run="r",
    run_worker="boss",
    started_by="ann",
    id="a1",
    worker="boss",
    path="main",
    tool="write_file",
    summary="write \u202ea",
    asked_at=NOW,
    deadline=None,
    votes=0,
    quorum=1,
    approvers=(),
)


@dataclass
class Waiting:
    """A client whose inbox has this in it."""

    entries: list[InboxEntry]

    async def inbox(self, run: str | None = None) -> InboxContents:
        """See LlmDoClient."""
        return InboxContents([one for one in self.entries if run in (None, one.run)], [], 0)


async def told(entries: list[InboxEntry], query: str = "", user: str = "ada") -> dict[str, Any]:
    app = build_app(UiSettings(TokenAccess(TOKENS), ("127.0.0.1:8234",)), cast("Any", Waiting(entries)))
    browser = Browser(app, BASE)
    await browser.open(f"/sign-in?token={TOKENS[user]}")
    return json.loads((await browser.open(f"/waiting{query}")).html)


async def test_a_page_that_is_open_is_told_what_is_new_without_anything_hidden() -> None:
    assert await told([]) == {"waiting": 0, "newest": None}
    newer = replace(ENTRY, id="a2", summary="newer", asked_at=NOW + timedelta(seconds=1))
    assert (await told([newer, ENTRY]))["newest"]["summary"] == "newer"
    alone = await told([ENTRY])
    assert alone == {
        "waiting": 1,
        "newest": {
            "address": "/runs/r/approvals/a1",
            "summary": "write \\u202ea",
            "asked": NOW.isoformat(),
        },
    }


async def test_questions_for_others_and_those_that_the_filter_holds_back_are_not_in_the_queue() -> None:
    for_bob = replace(ENTRY, id="a2", approvers=("bob",))
    elsewhere = replace(ENTRY, run="other", tool="shell")
    assert (await told([ENTRY, for_bob, elsewhere]))["waiting"] == 2
    assert (await told([ENTRY, for_bob, elsewhere], user="bob"))["waiting"] == 3
    assert (await told([ENTRY, for_bob, elsewhere], "?tool=shell"))["waiting"] == 1
    assert (await told([ENTRY, for_bob, elsewhere], "?run=r"))["waiting"] == 1
