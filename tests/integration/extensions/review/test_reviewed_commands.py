"""Commands and new workers in runs that work on a layer: what asks before the review, what does not, and the check."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.activities.commands import LayerGrounds
from llm_do_temporal.errors import LayerUnavailable
from llm_do_temporal.extensions.review.messages import CheckResult, shown_review
from llm_do_temporal.extensions.review.policy.review import Section
from llm_do_temporal.testing import call, scripted
from tests.support.extensions.review.reviewed import digest, section
from tests.support.runs.delegation import last_tool_result, tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place
from tests.support.workshops.layered_commands import HAS_OVERLAYS

SHELL: dict[str, Any] = {"filesystem": {}, "shell": {"default": {"approval_required": True}}}


async def test_a_command_works_on_the_layer_without_being_asked_about(place: Place) -> None:
    (place.folder / "old.txt").write_text("old\n")
    main = scripted(
        write_call("/new.txt", "new\n"),
        call("shell", command="cat new.txt"),
        call("shell", command="rm old.txt"),
        "Ok.",
    )
    place.worker("main", main, toolsets=SHELL, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert question.request.summary == "review 1: 2 changes (1 added, 1 deleted)"
    assert "new" in main.requests[2].results("shell")[0].text
    assert (place.folder / "old.txt").exists()
    await place.decide(run)
    await place.client.result(run)
    assert not (place.folder / "old.txt").exists()
    assert (place.folder / "new.txt").read_text() == "new\n"
    await place.replay()


async def test_where_commands_have_no_layer_they_ask_and_say_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ground(*_given: object) -> None:
        raise LayerUnavailable("overlays are off on this machine")

    monkeypatch.setattr(LayerGrounds, "ground", no_ground)
    place.workshop(sandbox={"root": "files"})
    (place.folder / "files").mkdir()
    main = scripted(call("shell", command="touch made.txt"), "Ok.")
    place.worker("main", main, toolsets=SHELL, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert question.request.tool == "shell"
    assert "works on the files themselves" in question.request.reason
    assert "overlays are off on this machine" in question.request.reason
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "files" / "made.txt").exists()


async def test_a_command_with_a_network_asks_as_ever_and_works_on_the_layer(place: Place) -> None:
    tools = {**SHELL, "shell": {**SHELL["shell"], "network": True}}
    place.worker("main", scripted(call("shell", command="touch made.txt"), "Ok."), toolsets=tools, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert question.request.tool == "shell"
    await place.decide(run, id=question.id)
    (review,) = await place.pending(run)
    assert not (place.folder / "made.txt").exists()
    await place.decide(run, id=review.id)
    await place.client.result(run)
    assert (place.folder / "made.txt").exists()


async def test_a_command_asks_where_people_decide_what_is_read(place: Place) -> None:
    (place.folder / "files").mkdir()
    (place.folder / "files/secret.txt").write_text("secret\n")
    place.workshop(sandbox={"root": "files", "read_approval": True})
    main = scripted(call("shell", command="cat secret.txt"), "Ok.")
    place.worker("main", main, toolsets=SHELL, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert question.request.tool == "shell"
    assert len(main.requests) == 1
    await place.decide(run, "reject", id=question.id, note="no")
    assert (await place.client.result(run)).output == "Ok."
    await place.replay()


async def test_the_check_is_shown_with_the_question_and_runs_on_the_accepted_part(place: Place) -> None:
    place.workshop(check_command="test -e a.txt -a ! -e b.txt")
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.", "Fine.")
    place.worker("main", main, toolsets=SHELL, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    shown = shown_review(question.request)
    assert shown is not None
    assert shown.check is not None
    assert shown.check.exit_code == 1
    await place.decide(run, "modify", args={"changes": digest(question), "accept": ["a.txt"]})
    assert (await place.client.result(run)).output == "Fine."
    assert (place.folder / "a.txt").exists()
    assert not (place.folder / "b.txt").exists()


async def test_a_worker_that_was_made_can_be_called_once_it_was_accepted(place: Place) -> None:
    create = call("worker_create", name="helper", instructions="Help.", description="Helps.", model="offline-helper")
    main = scripted(create, call("submit_changes"), call("helper", input="go"), last_tool_result)
    place.workshop(models={"offline-helper": place.script("helper_script", scripted("Helped."))})
    place.worker("main", main, toolsets={"delegation": {"worker_create": {}}}, review="changes")
    run = await place.start("main")
    (question,) = await place.pending(run)

    assert section(question) is Section.WORKERS
    assert question.request.capabilities[0].name == "worker.create"
    assert not list(place.folder.rglob("helper.worker"))
    assert "helper" not in main.requests[1].tools
    await place.decide(run, id=question.id)
    (called,) = await place.pending(run)
    assert called.request.tool == "helper"
    await place.decide(run, id=called.id)
    assert (await place.client.result(run)).output == "Helped."
    assert tool_results(main, "submit_changes")
    await place.replay()


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
