"""The queue of questions: those that wait for this person, in the order of asking."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from llm_do_temporal.client.open_questions import InboxEntry
from tests.support.people.inbox import NOW, Waiting, waiting_entry
from tests.support.people.signed_in import browser_with

ENTRY = waiting_entry(summary="write \u202ea")


async def told(entries: list[InboxEntry], query: str = "", user: str = "ada") -> dict[str, Any]:
    browser = await browser_with(Waiting(entries), user)
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
