"""Calls that were asked about again, as past calls from which rules are learned."""

from __future__ import annotations

import pytest

from llm_do_temporal.client.history.events import read_chain
from llm_do_temporal.extensions.rules.trial import CallAnswer, past_calls_of
from tests.support.runs.parked import FILESYSTEM, start_parked, write_call
from tests.support.runs.place import Place


@pytest.mark.parametrize("is_changed", [False, True], ids=["approved", "modified"])
async def test_an_approval_whose_call_was_not_carried_out_teaches_nothing(place: Place, *, is_changed: bool) -> None:
    place.write("b.txt", "b\n")
    run, _ = await start_parked(place, write_call("/a.txt"), "Done.", toolsets=FILESYSTEM)
    if is_changed:
        args = {"path": "/b.txt", "content": "hi"}
        await place.decide(run, "modify", id="a1", by="ann", args=args)
    else:
        place.write("a.txt", "somebody else's")
        await place.decide(run, id="a1", by="ann")
    await place.pending(run, 1)
    await place.decide(run, id="a2", by="ann")
    await place.client.result(run)
    past = await past_calls_of(run, read_chain(place.client.temporal, run, None, wait=False))
    first = CallAnswer.MODIFIED if is_changed else CallAnswer.NONE
    assert [one.answer for one in past] == [first, CallAnswer.APPROVED]
