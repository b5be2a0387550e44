"""Commands of runs that work on a layer: nobody is asked before the review, and the check's outcome is part of it."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.extensions.review.messages import CheckResult, shown_review
from llm_do_temporal.testing import call, scripted
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from tests.support.workshops.layered_commands import HAS_OVERLAYS

RULES = [{"pattern": "mv"}, {"pattern": "cat"}]
TOOLSETS: dict[str, Any] = {**FILESYSTEM, "shell": {"rules": RULES}}
CHECK = "grep -q good b.txt"

if HAS_OVERLAYS:

    async def test_commands_and_file_tools_work_on_one_layer_and_the_check_is_part_of_the_question(
        place: Place,
    ) -> None:
        place.workshop(check_command=CHECK)
        main = scripted(
            write_call("/a.txt", "bad"),
            call("shell", command="mv a.txt b.txt"),
            call("read_file", path="/b.txt"),
            call("submit_changes"),
            call("edit_file", path="/b.txt", old_text="bad", new_text="good"),
            call("shell", command="cat b.txt"),
            "Done.",
        )
        place.worker("main", main, toolsets=TOOLSETS, review="changes")
        run = await place.start("main")
        (first,) = await place.pending(run)
        assert first.request.tool == "submit_changes"
        shown = shown_review(first.request)
        assert shown is not None
        assert shown.check == CheckResult(command=CHECK, exit_code=1)
        assert not (place.folder / "b.txt").exists()
        await place.decide(run, "modify", args={**first.request.args, "accept": [], "rest": "keep"})
        (second,) = await place.pending(run)
        shown = shown_review(second.request)
        assert shown is not None
        assert shown.check == CheckResult(command=CHECK, exit_code=0)
        await place.decide(run, id=second.id)
        await place.client.result(run)
        assert (place.folder / "b.txt").read_text() == "good"
        assert not (place.folder / "a.txt").exists()
        results = [one.data for one in main.requests[-1].results("shell")]
        assert [one["exit_code"] for one in results] == [0, 0]
        assert results[1]["stdout"] == "good"
        await place.replay()
