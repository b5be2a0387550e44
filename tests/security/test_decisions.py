"""Decisions at a real server: what is remembered, what has changed meanwhile, and which question is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Decision
from llm_do_temporal.testing import Call, call, scripted
from tests.support.runs.place import Place

TWICE: dict[str, tuple[Callable[[], Call], str]] = {
    "a write over other bytes": (lambda: call("write_file", path="/a.txt", content="new"), "a.txt"),
    "a read of other bytes": (lambda: call("read_file", path="/notes/r.txt"), "notes/r.txt"),
    "a call with another attachment": (
        lambda: call("worker_call", worker_name="one", input_data="go", attachments=["/deck.pdf"]),
        "deck.pdf",
    ),
    "a call of a worker that was written anew": (
        lambda: call("worker_call", worker_name="one", input_data="go"),
        "workers/one.worker",
    ),
    "a template with other extra_context": (
        lambda: call("llm_worker_call", worker_name="templates/t.yaml", input="go", extra_context=["deck.pdf.txt"]),
        "deck.pdf.txt",
    ),
    "a template that was written anew": (
        lambda: call("llm_worker_call", worker_name="templates/t.yaml", input="go"),
        "templates/t.yaml",
    ),
}


def shop(place: Place, *turns: Any) -> None:
    """A worker that plays these turns, with files, a worker and a template to call."""
    place.workshop(
        approvals={"rules": {"sandbox.read": "needs_approval", "worker.call": "needs_approval"}},
    )
    place.write("a.txt", "old")
    place.write("notes/r.txt", "as it was")
    place.write("deck.pdf", "%PDF-1.4 as it was")
    place.write("deck.pdf.txt", "as it was")
    place.worker("one", scripted("1", "1"))
    one = place.script("t", scripted("1", "1"))
    place.write("templates/t.yaml", f"system: Judge.\nmodel: {one}\n")
    toolsets = {
        "filesystem": {},
        "delegation": {"allow_workers": ["one"], "templates": {"allow": ["templates/t.yaml"]}},
    }
    place.worker("main", scripted(*turns), toolsets=toolsets)


async def answer_until(place: Place, run: str, tool: str) -> Any:
    """Approve and remember whatever asks, until the tool has been asked about and allowed; its last question."""
    while True:
        (one, *_) = await place.pending(run)
        if one.request.tool == tool and one.request.args_schema is not None:
            return one
        await place.decide(run, id=one.id, remember="session")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", TWICE)
async def test_a_remembered_decision_does_not_cover_other_bytes(place: Place, what: str) -> None:
    make, changed = TWICE[what]
    shop(
        place, make(), call("list_files", path="/"), call("write_file", path="/gate.txt", content="x"), make(), "Done."
    )
    run = await place.start("main")
    first = await answer_until(place, run, make().tool)
    await place.decide(run, id=first.id, remember="session")
    between = await answer_until(place, run, "write_file")
    text = (place.folder / changed).read_text()
    place.write(changed, text + "\n# anew\n")
    await place.decide(run, id=between.id)
    again = await answer_until(place, run, make().tool)
    assert again.request.args == first.request.args
    assert again.request.digest != first.request.digest
    await place.decide(run, "reject", id=again.id, note="not this")
    await place.client.result(run)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("door", ["signal", "update"])
@pytest.mark.parametrize("named", ["another run's", "zeros", "empty"])
async def test_a_decision_about_something_else_is_not_taken(place: Place, door: str, named: str) -> None:
    write = call("write_file", path="/new.txt", content="x")
    place.worker("main", scripted(write, "Done."), toolsets={"filesystem": {}})
    run = await place.start("main")
    (asked,) = await place.pending(run)
    digest = {"zeros": "0" * 64, "empty": ""}.get(named)
    if digest is None:
        place.worker("other", scripted(write, "Done."), toolsets={"filesystem": {}})
        other = await place.start("other")
        digest = (await place.pending(other))[0].request.digest
        await place.decide(other, "reject", note="no")
        await place.client.result(other)
    if door == "signal":
        await place.signal(run, {"id": "a1", "decision": "approve", "digest": digest})
    else:
        with pytest.raises(DecisionRefused, match="something else"):
            await place.client.decide(run, Decision.model_validate({"decision": "approve", "digest": digest}))
    assert not (place.folder / "new.txt").exists()
    await place.decide(run, id="a1", digest=asked.request.digest)
    await place.client.result(run)
    assert (place.folder / "new.txt").read_text() == "x"
    if door == "signal":
        assert "something else" in (await place.client.desk(run)).ignored[0].reason


async def test_a_name_that_was_taken_meanwhile_is_not_taken_again(place: Place) -> None:
    create = call("worker_create", name="helper", instructions="Help.", description="Helps.")
    place.worker("main", scripted(create, "Done."), toolsets={"delegation": {"worker_create": {}, "allow_workers": []}})
    run = await place.start("main")
    await place.pending(run)
    taken = place.write("workers/helper.worker", "---\ndescription: mine\n---\nMine.\n").read_text()
    await place.decide(run, id="a1")
    await place.client.result(run)
    assert (place.folder / "workers/helper.worker").read_text() == taken
    assert not (place.folder / "workers/generated/helper.worker").exists()
