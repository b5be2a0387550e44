"""`approval_callback` of `run_worker`: a function of the program that started a run answers its questions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from llm_do_temporal import Decision, Question, WorkerRunResult, run_worker
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.delegation import delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place


def decision(kind: str, **more: object) -> Decision:
    return Decision.model_validate({"decision": kind, **more})


def approves(_: Question) -> Decision:
    return decision("approve")


async def answered(place: Place, callback: Callable[[Question], object], mode: str | None = None) -> WorkerRunResult:
    """A run of `main` that this function answers."""
    place.started.append(f"own-{place.queue}")
    return await run_worker(
        "main",
        "go",
        workshop=place.folder,
        connection=place.client,
        id=place.started[-1],
        approval_callback=callback,  # pyright: ignore[reportArgumentType]
        mode=mode,
    )


async def test_a_function_approves_rejects_and_changes_what_the_whole_tree_asks(place: Place) -> None:
    asked: list[tuple[str, str, str]] = []
    threads: set[int] = set()

    def answer(question: Question) -> Decision:
        threads.add(threading.get_ident())
        path = question.args.get("path", "")
        asked.append((question.request.path, question.request.tool, path))
        if path == "/b.txt":
            return decision("reject", note="not there", by="the script")
        return decision("modify", args={"path": "/d.txt", "content": "d"}) if path == "/c.txt" else decision("approve")

    child = scripted(write_call("/c.txt"), "Written.")
    main = scripted([write_call("/a.txt"), write_call("/b.txt")], call("child", input="go"), "Done.")
    place.worker("child", child, toolsets=FILESYSTEM)
    place.worker("main", main, toolsets={**FILESYSTEM, **delegation_to("child")})
    result = await answered(place, answer)
    assert result.output == "Done."
    assert [*sorted(asked[:2]), *asked[2:]] == [
        ("main", "write_file", "/a.txt"),
        ("main", "write_file", "/b.txt"),
        ("main", "child", ""),
        ("main/child-1", "write_file", "/c.txt"),
    ]
    assert sorted(path.name for path in place.folder.glob("*.txt")) == ["a.txt", "d.txt"]
    assert tool_results(main, "write_file")[1] == "Rejected by the script: not there"
    # It may wait for somebody without holding up anything.
    assert threading.get_ident() not in threads


async def test_what_the_function_leaves_alone_waits_for_somebody_else(place: Place) -> None:
    left = asyncio.Event()

    async def answer(question: Question) -> Decision | None:
        if question.args["path"] == "/a.txt":
            left.set()
            return None
        return approves(question)

    main = scripted([write_call("/a.txt"), write_call("/b.txt")], "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    running = asyncio.create_task(answered(place, answer))
    await left.wait()
    run = place.started[-1]
    await place.completed(run, "write /b.txt")
    (waits,) = await place.pending(run)
    await place.decide(run, "reject", id=waits.id, by="ada")
    assert (await running).output == "Done."
    assert sorted(tool_results(main, "write_file")) == ["Rejected by ada", "Wrote /b.txt (2 bytes)."]


async def test_whoever_answers_first_wins(place: Place) -> None:
    async def answer(question: Question) -> Decision:
        await place.decide(question.run, "reject", id=question.id, by="ada")
        return approves(question)

    main = scripted(write_call(), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    assert (await answered(place, answer)).output == "Done."
    assert tool_results(main, "write_file") == ["Rejected by ada"]


@pytest.mark.parametrize("mode", ["approve_all", "strict"])
async def test_where_nobody_is_asked_the_function_is_not_either(place: Place, mode: str) -> None:
    def answer(question: Question) -> Decision:
        raise AssertionError(question.request.summary)

    place.worker("main", scripted(write_call(), "Done."), toolsets=FILESYSTEM)
    assert (await answered(place, answer, mode=mode)).output == "Done."


def raises(_: Question) -> Decision:
    raise LookupError("the list is gone")


def says_yes(_: Question) -> bool:
    return True


def leads_out(_: Question) -> Decision:
    return decision("modify", args={"path": "../x", "content": ""})


@pytest.mark.parametrize(
    ("callback", "error", "words"),
    [
        (raises, LookupError, "the list is gone"),
        (says_yes, UsageError, "approval_callback returned bool for 'a1'"),
        (leads_out, DecisionRefused, "policy refuses"),
    ],
)
async def test_what_goes_wrong_in_the_function_is_raised_and_the_run_goes_on_waiting(
    place: Place, callback: Callable[[Question], object], error: type[Exception], words: str
) -> None:
    main: ScriptedModel = scripted(write_call(), "Done.")
    place.worker("main", main, toolsets=FILESYSTEM)
    with pytest.raises(error, match=words):
        await answered(place, callback)
    run = place.started[-1]
    await place.pending_is(run, "a1")
    await place.decide(run)
    await place.client.result(run)
    assert (place.folder / "a.txt").exists()
