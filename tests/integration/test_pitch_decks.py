"""The main job on the workshop that ships, with the scripts that need no key."""

from __future__ import annotations

from llm_do_temporal.messages.approvals import Decision, DecisionKind
from tests.support.runs.parked import install_shipped_workshop
from tests.support.runs.place import Place


async def test_every_deck_is_evaluated_and_the_evaluations_differ(place: Place) -> None:
    decks = install_shipped_workshop(place)
    result = await place.run("pitch_orchestrator", "evaluate every deck", mode="approve_all")
    written = {path.stem: path.read_text() for path in (place.folder / "files/evaluations").glob("*.md")}
    assert sorted(written) == decks
    assert len(set(written.values())) == len(decks) >= 4
    assert all(deck in str(result.output) for deck in decks)
    assert result.usage.requests >= 3 + 2 * len(decks) - len(decks)


async def test_python_coordinates_and_every_write_still_asks(place: Place) -> None:
    decks = install_shipped_workshop(place)
    run = await place.start("pitch_orchestrator_coded", "evaluate every deck")
    rejected, *others = await place.pending(run, len(decks))
    assert {one.request.tool for one in (rejected, *others)} == {"write_file"}
    await place.decide(run, "reject", id=rejected.id, note="not this quarter", by="ada")
    for one in others:
        await place.decide(run, id=one.id)
    result = await place.client.result(run)
    written = {f"/evaluations/{path.name}" for path in (place.folder / "files/evaluations").glob("*.md")}
    assert written == {one.request.args["path"] for one in others}
    assert all(path in str(result.output) for path in written)
    assert str(result.output).count("Rejected by ada: not this quarter") == 1


async def test_writes_ask_and_the_answers_reach_the_model_and_the_files(place: Place) -> None:
    decks = install_shipped_workshop(place)
    run = await place.start("pitch_orchestrator", "evaluate every deck")
    waiting = await place.pending(run, len(decks))
    assert {one.request.tool for one in waiting} == {"write_file"}
    rejected, changed, *others = waiting
    await place.client.decide(
        run, Decision(id=rejected.id, decision=DecisionKind.REJECT, note="not this quarter", by="ada")
    )
    args = {**changed.request.args, "content": "rewritten by hand\n"}
    await place.client.decide(run, Decision(id=changed.id, decision=DecisionKind.MODIFY, args=args))
    for one in others:
        await place.client.decide(run, Decision(id=one.id, decision=DecisionKind.APPROVE))
    result = await place.client.result(run)
    assert "not this quarter" in str(result.output)
    assert (place.folder / "files" / changed.request.args["path"].lstrip("/")).read_text() == "rewritten by hand\n"
    assert not (place.folder / "files" / rejected.request.args["path"].lstrip("/")).exists()
