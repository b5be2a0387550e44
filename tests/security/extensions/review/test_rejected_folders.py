"""Folders that a model makes or removes, and a person rejects over HTTP: nothing that is in them changes."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.testing import call, scripted
from tests.support.doors.http_client import person
from tests.support.runs.parked import write_call
from tests.support.runs.place import Place
from tests.support.workshops.layered_commands import HAS_OVERLAYS

WRITES = [write_call(f"/Z/{name}") for name in ("z", "secret/x.txt", "secret/deep/y.txt")]


async def answered(place: Place, turns: list[Any], **parts: Any) -> None:
    """Have a worker work on a layer over Z and old, answer its review so, and wait for the end of its run."""
    for name in ("Z/there", "old/o1", "old/o2"):
        (place.folder / name).parent.mkdir(exist_ok=True)
        (place.folder / name).write_text(name)
    toolsets: dict[str, Any] = {"filesystem": {}, "shell": {"rules": [{"pattern": "rm"}, {"pattern": "mv"}]}}
    place.worker("writer", scripted(*turns, "Done.", "Pity."), toolsets=toolsets, export=True, review="changes")
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    (head,) = (await ada.ask("GET", f"/runs/{run}/reviews")).body
    path = f"/runs/{run}/reviews/{head['id']}/answer"
    sent = await ada.ask("POST", path, json=parts, headers={"If-Match": f'"{head["digest"]}"'})
    assert sent.status == 200, sent.body
    await ada.until(run, "completed")


def left(place: Place) -> set[str]:
    """Return the files and folders of Z, old and new."""
    found = (one for top in ("Z", "old", "new") for one in [place.folder / top, *(place.folder / top).rglob("*")])
    return {str(one.relative_to(place.folder)) for one in found if one.exists()}


OLD = {"old", "old/o1", "old/o2"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("parts", "made"),
    [
        ({"all": True, "reject": ["Z/secret"]}, {"Z/z"}),
        ({"accept": ["Z/"], "reject": ["Z/secret"]}, {"Z/z"}),
        ({"accept": ["Z/"], "reject": ["Z/secret/deep"]}, {"Z/z", "Z/secret", "Z/secret/x.txt"}),
        ({"all": True, "reject": ["Z/secret/x.txt", "Z/secret/deep/", "Z/secret"]}, {"Z/z"}),
    ],
)
async def test_what_is_in_a_new_folder_is_not_made_where_the_folder_is_rejected(
    place: Place, parts: dict[str, Any], made: set[str]
) -> None:
    await answered(place, [WRITES], **parts)
    assert left(place) == {*OLD, "Z", "Z/there", *made}


if HAS_OVERLAYS:

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize(
        ("command", "parts", "there"),
        [
            ("rm -r old", {"all": True, "reject": ["old"]}, OLD),
            ("rm -r old", {"all": True, "reject": ["old/o1"]}, {"old", "old/o1"}),
            ("rm -r old", {"accept": ["old", "Z/z"]}, set[str]()),
            ("mv old new", {"all": True, "reject": ["old"]}, {*OLD, "new"}),
            ("mv old new", {"all": True, "reject": ["new"]}, OLD),
        ],
    )
    async def test_what_is_in_a_folder_stays_where_its_removal_is_rejected(
        place: Place, command: str, parts: dict[str, Any], there: set[str]
    ) -> None:
        await answered(place, [[write_call("/Z/z"), call("shell", command=command)]], **parts)
        assert left(place) == {"Z", "Z/there", "Z/z", *there}
