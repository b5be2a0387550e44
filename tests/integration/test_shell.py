"""Commands through a worker: which run, which ask, which are refused, and what is left when a run is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import psutil
import pytest

from llm_do_temporal.activities.commands import LayerGrounds
from llm_do_temporal.errors import LayerUnavailable, RunCancelled
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, tool_results
from tests.support.runs.place import Place

LISTED = {
    "rules": [{"pattern": "cat", "approval_required": False}, {"pattern": "touch"}, {"pattern": "rm", "blocked": True}]
}


def shell(command: str, **more: Any) -> Call:
    return call("shell", command=command, **more)


def with_shell(place: Place, *turns: Any, **keys: Any) -> ScriptedModel:
    """A worker that plays these turns and has the `shell` of these keys."""
    main = scripted(*turns)
    place.worker("main", main, toolsets={"shell": keys or LISTED})
    return main


async def test_a_listed_command_runs_and_nobody_is_asked(place: Place) -> None:
    place.write("src/a.txt", "text of a\n")
    main = with_shell(place, shell("cat src/a.txt missing"), "Read.")
    run = await place.start("main")
    await place.client.result(run)
    (result,) = main.requests[-1].results("shell")
    assert (result.data["exit_code"], result.data["stdout"]) == (1, "text of a\n")
    assert "missing" in result.data["stderr"]
    assert (result.data["truncated"], result.data["timed_out"]) == (False, False)
    assert (await place.client.desk(run)).approvals == ()


async def test_a_capability_of_the_toolset_asks_beside_that_of_the_command(place: Place) -> None:
    place.write("a.txt", "text of a\n")
    main = with_shell(place, shell("cat a.txt"), "Read.", rules=LISTED["rules"], capabilities=["repo.read"])
    run = await place.start("main")
    (one,) = await place.pending(run)
    assert [use.name for use in one.request.capabilities] == ["proc.exec", "repo.read"]
    await place.decide(run)
    await place.client.result(run)
    assert main.requests[-1].results("shell")[0].data["stdout"] == "text of a\n"
    place.workshop(approvals={"rules": {"repo.read": "blocked"}})
    await place.run("main")
    assert "the workshop does not allow repo.read" in main.requests[-1].results("shell")[0].text


async def test_a_question_shows_the_exact_command_and_where_it_would_run(place: Place) -> None:
    place.workshop(sandbox={"root": "files"})
    place.write("files/out/a.txt", "")
    main = with_shell(place, shell("touch 'out/two words.txt' out/b.txt"), "Done.")
    run = await place.start("main")
    (one,) = await place.pending(run)
    (use,) = one.request.capabilities
    assert (use.name, use.payload) == ("proc.exec", {"argv": ["touch", "out/two words.txt", "out/b.txt"], "cwd": "/"})
    assert one.request.summary == "shell touch 'out/two words.txt' out/b.txt"
    assert not (place.folder / "files/out/b.txt").exists()
    await place.decide(run)
    await place.client.result(run)
    assert main.requests[-1].results("shell")[0].data["exit_code"] == 0
    assert (place.folder / "files/out/two words.txt").exists()


async def test_what_an_approved_command_makes_is_judged_as_write_file_would_be(place: Place) -> None:
    place.workshop(sandbox={"root": "."})
    place.write("data/a.txt", "")
    main = with_shell(place, shell("touch data/new.txt data/new.worker"), "Done.")
    run = await place.start("main")
    (one,) = await place.pending(run)
    assert one.request.summary == "shell touch data/new.txt data/new.worker"
    await place.decide(run)
    await place.client.result(run)
    (answer,) = main.requests[-1].results("shell")
    assert answer.data["exit_code"] == 0
    assert (place.folder / "data/new.txt").exists()
    if working_bwrap() is not None:
        assert "'/data/new.worker' is one of the files that define workers" in answer.data["note"]
        assert not (place.folder / "data/new.worker").exists()


async def test_where_a_command_can_make_no_file_the_question_and_the_result_say_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(*_given: object) -> None:
        raise LayerUnavailable("overlays are off on this machine")

    monkeypatch.setattr(LayerGrounds, "judged", not_here)
    main = with_shell(place, shell("touch new.txt"), "Done.")
    run = await place.start("main")
    (one,) = await place.pending(run)
    await place.decide(run)
    await place.client.result(run)
    if working_bwrap() is not None:
        says = "not make, rename or remove any there (overlays are off on this machine); make them with write_file"
        assert says in one.request.reason
        assert says in main.requests[-1].results("shell")[0].data["note"]
    assert (place.folder / "new.txt").exists() is (working_bwrap() is None)
    await place.replay()


async def test_a_rejected_command_does_not_run(place: Place) -> None:
    main = with_shell(place, shell("touch a.txt"), "Pity.")
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, "reject", note="no new files", by="ada")
    await place.client.result(run)
    assert tool_results(main, "shell") == ["Rejected by ada: no new files"]
    assert not (place.folder / "a.txt").exists()


CHANGED: list[tuple[str, str | None]] = [
    ("touch out/b.txt", None),
    ("rm a.txt", "'shell' is blocked: the worker's rule 'rm'"),
    ("touch b.txt; rm a.txt", "';' (a second command)"),
    ("dd if=x", "the workshop does not allow proc.exec.unlisted"),
]


async def test_a_changed_command_is_judged_again(place: Place) -> None:
    place.workshop(sandbox={"root": "files"})
    place.write("files/out/c.txt", "")
    main = with_shell(place, *[shell("touch a.txt")] * len(CHANGED), "Done.")
    run = await place.start("main")
    for number, (changed, _) in enumerate(CHANGED, 1):
        await place.pending_is(run, f"a{number}")
        await place.decide(run, "modify", args={"command": changed})
    await place.client.result(run)
    for (_, says), answer in zip(CHANGED, tool_results(main, "shell"), strict=True):
        assert (says or "It ran with") in answer
    assert (place.folder / "files/out/b.txt").exists()
    assert not list(place.folder.rglob("a.txt"))


NOT_RUN = [
    ("rm a.txt", "'shell' is blocked: the worker's rule 'rm' does not allow this command"),
    ("ls", "'shell' is blocked: the workshop does not allow proc.exec.unlisted"),
    ("cat a.txt | wc", "the command contains '|' (a pipe)"),
    ("no-such-program", "the workshop does not allow proc.exec.unlisted"),
]


@pytest.mark.parametrize("mode", [APPROVE_ALL, "interactive"])
async def test_no_mode_lets_a_blocked_or_unlisted_command_run(place: Place, mode: str) -> None:
    place.write("a.txt", "kept")
    main = with_shell(place, [shell(command) for command, _ in NOT_RUN], "Sorry.")
    run = await place.start("main", mode=mode)
    await place.client.result(run)
    for (_, says), told in zip(NOT_RUN, tool_results(main, "shell"), strict=True):
        assert says in told
    assert (place.folder / "a.txt").exists()
    assert (await place.client.desk(run)).approvals == ()


async def test_an_unlisted_command_asks_where_the_workshop_says_so(place: Place) -> None:
    place.workshop(approvals={"rules": {"proc.exec.unlisted": "needs_approval"}})
    main = with_shell(place, shell("ls"), "Done.")
    place.write("a.txt", "x")
    run = await place.start("main")
    (one,) = await place.pending(run)
    assert one.request.reason == "proc.exec.unlisted needs approval"
    await place.decide(run)
    await place.client.result(run)
    assert "a.txt" in main.requests[-1].results("shell")[0].data["stdout"].split()


async def test_strict_runs_what_is_listed_and_refuses_what_would_ask(place: Place) -> None:
    place.write("a.txt", "text")
    main = with_shell(place, [shell("cat a.txt"), shell("touch b.txt")], "Done.")
    await place.run("main", mode="strict")
    read, touched = main.requests[-1].results("shell")
    assert read.data["stdout"] == "text"
    assert touched.text == "Strict mode: shell requires approval"
    assert not (place.folder / "b.txt").exists()


async def test_a_command_that_cannot_work_asks_nobody(place: Place) -> None:
    main = with_shell(place, shell("no-such-program x"), "Sorry.", default={"approval_required": True})
    run = await place.start("main")
    await place.client.result(run)
    assert "there is no program 'no-such-program'" in tool_results(main, "shell")[0]
    assert (await place.client.desk(run)).approvals == ()


async def test_a_remembered_command_is_not_asked_again_in_the_same_folder_only(place: Place) -> None:
    place.write("files/a.txt", "")
    place.write("files/src/x", "")
    place.workshop(sandbox={"root": "files"}, approvals={"rules": {"worker.call": "pre_approved"}})
    same, other = scripted(shell("touch a.txt"), "Same."), scripted(shell("touch a.txt"), "Other.")
    place.worker("same", same, toolsets={"shell": LISTED})
    place.worker("other", other, toolsets={"shell": LISTED}, sandbox={"restrict": "/src"})
    main = scripted(shell("touch a.txt"), call("same", input="go"), call("other", input="go"), "Done.")
    place.worker("main", main, toolsets={"shell": LISTED, **delegation_to("same", "other")})
    run = await place.start("main")
    await place.pending(run)
    await place.decide(run, remember="session")
    (again,) = await place.pending(run)
    assert (again.id, again.request.worker, again.request.capabilities[0].payload["cwd"]) == ("a3", "other", "/src")
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "files/src/a.txt").exists()


async def test_cancelling_a_run_ends_its_command(place: Place) -> None:
    with_shell(place, shell("sleep 86399.25", timeout=300), "Never.", default={"approval_required": False})
    run = await place.start("main")
    while not sleeping("86399.25"):  # noqa: ASYNC110 - a process sets no event
        await asyncio.sleep(0.02)
    await place.client.cancel(run)
    with pytest.raises(RunCancelled):
        await place.client.result(run)
    assert not sleeping("86399.25")


def sleeping(seconds: str) -> bool:
    return any(one.info["cmdline"] == ["sleep", seconds] for one in psutil.process_iter(["cmdline"]))


async def test_the_environment_of_commands_is_what_the_workshop_passes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_NUMBER", "7")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    place.workshop(shell={"env": ["BUILD_NUMBER"]})
    main = with_shell(place, shell("env"), "Done.", default={"approval_required": False})
    await place.run("main")
    seen = main.requests[-1].results("shell")[0].data["stdout"]
    assert "BUILD_NUMBER=7" in seen
    assert "secret" not in seen
