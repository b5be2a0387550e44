"""Runs whose changes stay aside: as a patch, and as the files that are told of them."""

from __future__ import annotations

import asyncio
import subprocess
from functools import partial

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.forks.client_differences import read_account, read_difference
from llm_do_temporal.testing import call, scripted
from tests.support.runs.parked import start_parked, write_call
from tests.support.runs.place import Place


@pytest.mark.extension("review")
async def test_a_patch_of_what_stayed_aside_makes_the_same_files(place: Place) -> None:
    from llm_do_temporal.client import read_patch

    place.write("old.txt", "one\ntwo\n")
    edit = call("edit_file", path="/old.txt", old_text="two", new_text="2")
    model = scripted([edit, call("write_file", path="/new.txt", content="new\n")], "Done.")
    place.worker("main", model, toolsets={"filesystem": {}})
    run = await place.start("main", aside=True)
    assert (await place.client.result(run)).output == "Done."
    patch = await read_patch(place.client, run, place.folder)
    assert (place.folder / "old.txt").read_text() == "one\ntwo\n"

    files = (await read_account(place.client.temporal, run)).files
    assert [(one.path, one.base is None) for one in files] == [("new.txt", True), ("old.txt", False)]
    assert (await read_difference(place.client.temporal, run, run)).difference.is_same

    git = partial(subprocess.run, ["git", "apply", "-"], cwd=place.folder, input=patch, text=True, check=True)
    await asyncio.to_thread(git)
    assert (place.folder / "old.txt").read_text() == "one\n2\n"
    assert (place.folder / "new.txt").read_text() == "new\n"
    with pytest.raises(UsageError, match=r"'old\.txt' is no longer as it was"):
        await read_patch(place.client, run, place.folder)


@pytest.mark.extension("review")
async def test_a_run_that_waits_for_something_else_has_no_patch_yet(place: Place) -> None:
    from llm_do_temporal.client import read_patch

    run, _ = await start_parked(place, write_call(), "Done.")
    with pytest.raises(UsageError, match=f"run '{run}' has no changes that wait for a review"):
        await read_patch(place.client, run, place.folder)
    await place.decide(run)
    await place.client.result(run)
