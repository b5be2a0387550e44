"""One file, several ways to name it."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.place import Place

ALL = "approve_all"


def told(model: ScriptedModel) -> list[str]:
    return [result.text for result in model.requests[-1].results("reader")]


def caller(place: Place, *paths: str, **keys: Any) -> tuple[ScriptedModel, ScriptedModel]:
    """A worker that hands these paths to a reader, and the reader."""
    main = scripted(call("reader", input="Read.", attachments=list(paths)), "Done.")
    reader = scripted("Read.")
    place.worker("reader", reader)
    place.worker("main", main, toolsets={"delegation": {"reader": {}}}, **keys)
    place.write("input/deck.txt", "We sell kelp.")
    return main, reader


@pytest.mark.parametrize("keys", [{}, {"sandbox": {"restrict": "/input"}}])
async def test_a_path_of_the_host_inside_the_tree_is_that_file(place: Place, keys: dict[str, Any]) -> None:
    main, reader = caller(place, str(place.folder / "input/deck.txt"), **keys)
    run = await place.start("main", mode=ALL)
    await place.client.result(run)
    assert told(main) == ["Read."]
    assert "Attached file: /input/deck.txt" in reader.requests[0].prompt
    assert str(place.folder) not in reader.requests[0].prompt


async def test_what_a_person_and_the_result_name_is_the_virtual_path(place: Place) -> None:
    place.workshop(sandbox={"root": ".", "read_approval": True})
    caller(place, str(place.folder / "input/deck.txt"))
    run = await place.start("main")
    (sharing,) = await place.pending(run)
    assert sharing.request.args == {"path": "/input/deck.txt", "bytes": 13, "target_worker": "reader"}
    await place.decide(run)
    await place.pending_is(run, "a2")
    (calling,) = await place.pending(run)
    assert calling.request.capabilities[0].payload["attachments"] == ["/input/deck.txt"]
    await place.decide(run)
    await place.client.result(run)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"sandbox": {"restrict": "/other"}}, "{folder}/input/deck.txt"),
        ({"sandbox": {"restrict": "/input"}}, "/etc/passwd"),
        ({}, "/etc/passwd"),
        ({}, "{folder}/../outside.txt"),
        ({}, "{folder}/.llm-do/blobs"),
        ({}, "{folder}-other/deck.txt"),
    ],
)
async def test_a_path_outside_the_tree_is_refused_as_ever(place: Place, keys: dict[str, Any], path: str) -> None:
    place.write("other/x.txt", "x")
    place.write("../outside.txt", "x")
    main, _ = caller(place, path.format(folder=place.folder), **keys)
    run = await place.start("main", mode=ALL)
    await place.client.result(run)
    assert any(words in told(main)[0] for words in ("outside this", "does not exist", "contains '..'", ".llm-do"))
    assert len((await place.client.view(run)).nodes) == 1


async def test_every_spelling_of_a_file_is_an_entry_of_its_own(place: Place) -> None:
    paths = ["input/deck.txt", "/input/deck.txt", str(place.folder / "input/deck.txt"), "./input//deck.txt"]
    main, reader = caller(place, *paths)
    await place.run("main", mode=ALL)
    assert told(main) == ["Read."]
    assert reader.requests[0].prompt.count("Attached file: /input/deck.txt") == 4


@pytest.mark.parametrize(
    ("attachments", "path"),
    [
        ({"path_map": {"path/to/deck.txt": "/input/deck.txt"}}, "path/to/deck.txt"),
        ({"path_map": {"path/to/deck.txt": "input/deck.txt"}}, "./path/to/deck.txt"),
        ({"base_path": "/input"}, "deck.txt"),
        ({"base_path": "/input"}, "/input/deck.txt"),
    ],
)
async def test_a_worker_may_have_spellings_of_its_own(place: Place, attachments: dict[str, Any], path: str) -> None:
    main, reader = caller(place, path, attachments=attachments)
    await place.run("main", mode=ALL)
    assert told(main) == ["Read."]
    assert "Attached file: /input/deck.txt" in reader.requests[0].prompt


async def test_an_alias_opens_nothing_that_the_tree_does_not(place: Place) -> None:
    main, _ = caller(place, "deck", attachments={"path_map": {"deck": "../outside.txt"}})
    place.write("../outside.txt", "x")
    await place.run("main", mode=ALL)
    assert "contains '..'" in told(main)[0]
