"""The file tools through a worker: what they do, and that every refusal is a result for the model."""

from __future__ import annotations

import asyncio
from typing import Any

from llm_do_temporal.testing import Call, ScriptedModel, call, scripted
from tests.support.runs.delegation import APPROVE_ALL, delegation_to, tool_results
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place


async def played(place: Place, *turn: Call, **keys: Any) -> ScriptedModel:
    """A finished run of a worker that makes these calls, one a turn."""
    main = scripted(*turn, "Done.")
    place.worker("main", main, toolsets=FILESYSTEM, **keys)
    assert (await place.run("main", mode=APPROVE_ALL)).output == "Done."
    return main


async def test_a_worker_writes_reads_edits_and_lists(place: Place) -> None:
    main = await played(
        place,
        call("write_file", path="notes/todo.md", content="- buy milk\n- sleep\n"),
        call("edit_file", path="/notes/todo.md", old_text="milk", new_text="bread"),
        call("read_file", path="notes/todo.md"),
        call("read_file", path="notes/todo.md", offset=2, max_chars=9),
        call("list_files", path="/notes", pattern="*.md"),
    )
    assert (place.folder / "notes/todo.md").read_text() == "- buy bread\n- sleep\n"
    (whole, part) = [result.data for result in main.requests[-1].results("read_file")]
    assert whole == {"content": "- buy bread\n- sleep\n", "truncated": False, "total_chars": 20}
    assert part == {"content": "buy bread", "truncated": True, "total_chars": 20}
    (listing,) = [result.data for result in main.requests[-1].results("list_files")]
    assert listing == {"files": [{"path": "/notes/todo.md", "bytes": 20}], "truncated": False}


ONLY_SRC = {"sandbox": {"restrict": "/src"}}
NAMED = {"sandbox": {"paths": {"input": {"root": "src", "mode": "ro"}, "output": {"root": "out", "mode": "rw"}}}}


REFUSED: list[tuple[dict[str, Any], list[tuple[Call, str]]]] = [
    (
        {},
        [
            # out of the tree
            (call("read_file", path="../secret"), "contains '..'"),
            (call("read_file", path="/src/../../secret"), "contains '..'"),
            (call("read_file", path="/etc/passwd"), "'/etc/passwd' does not exist"),
            (call("read_file", path="/link-out/secret.txt"), "leads out of this worker's files"),
            (call("write_file", path="/link-out/new.txt", content="x"), "nothing is written through links"),
            # what is not a text file, or not there
            (call("read_file", path="/missing.txt"), "does not exist"),
            (call("read_file", path="/src"), "is a folder"),
            (call("read_file", path="/image.png"), "is not UTF-8 text"),
            (call("write_file", path="/src", content="x"), "is a folder"),
            (call("edit_file", path="/src/app.txt", old_text="absent", new_text="x"), "does not occur"),
            (call("list_files", path="/missing"), "does not exist"),
        ],
    ),
    (
        {"sandbox": {"readonly": True}},
        [
            (call("write_file", path="/a.txt", content="x"), "'/a.txt' is read-only"),
            (call("edit_file", path="/src/app.txt", old_text="app", new_text="b"), "is read-only"),
        ],
    ),
    (
        ONLY_SRC,
        [
            (call("read_file", path="/other.txt"), "it can reach /src (read-write)"),
            (call("read_file", path="/app.txt"), "is outside this worker's files"),
        ],
    ),
    (
        {"sandbox": {"suffixes": [".txt"], "max_file_bytes": 10}},
        [
            (call("read_file", path="/image.png"), "has a suffix that is not allowed here; allowed: .txt"),
            (call("write_file", path="/a.md", content="x"), "has a suffix that is not allowed here"),
            (call("write_file", path="/a.txt", content="x" * 11), "has 11 bytes; the limit here is 10"),
            (call("read_file", path="/src/app.txt"), "the limit here is 10"),
        ],
    ),
    (
        NAMED,
        [
            (call("read_file", path="src/app.txt"), "it can reach /input (read-only), /output (read-write)"),
            (call("write_file", path="input:app.txt", content="x"), "'/input/app.txt' is read-only; writable: /output"),
        ],
    ),
]


async def test_refusals_are_results_for_the_model_and_nothing_changes(place: Place) -> None:
    place.write("src/app.txt", "an app, with text\n")
    (place.folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    outside = place.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (place.folder / "link-out").symlink_to(outside)
    workers = [scripted([one for one, _ in refused], "Done.") for _, refused in REFUSED]
    for number, (keys, _) in enumerate(REFUSED):
        place.worker(f"main{number}", workers[number], toolsets=FILESYSTEM, **keys)
    before = contents(place)
    await asyncio.gather(*(place.run(f"main{number}", mode=APPROVE_ALL) for number in range(len(REFUSED))))
    for main, (_, refused) in zip(workers, REFUSED, strict=True):
        answers = main.requests[-1].results("read_file", "write_file", "edit_file", "list_files")
        for (one, message), answer in zip(refused, answers, strict=True):
            assert message in answer.text, one
            assert not answer.ok
            assert str(place.folder) not in answer.text
    assert contents(place) == before


def contents(place: Place) -> dict[str, bytes]:
    """Every file in the workshop and beside it, but for what the product keeps for itself."""
    files = (path for path in place.folder.parent.rglob("*") if path.is_file() and ".llm-do" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


async def test_a_restricted_worker_keeps_the_names_of_its_files(place: Place) -> None:
    place.write("src/app.txt", "app")
    main = await played(place, call("read_file", path="/src/app.txt"), call("list_files"), **ONLY_SRC)
    assert main.requests[-1].results("read_file")[0].data["content"] == "app"
    assert main.requests[-1].results("list_files")[0].data["files"] == [{"path": "/src/app.txt", "bytes": 3}]


async def test_named_folders_have_three_spellings_and_only_the_writable_one_takes_files(place: Place) -> None:
    place.write("src/app.txt", "app")
    paths = ("input/app.txt", "/input/app.txt", "input:app.txt")
    reads = [call("read_file", path=path) for path in paths]
    main = await played(place, *reads, call("write_file", path="output:new/report.txt", content="ok"), **NAMED)
    assert [result.data["content"] for result in main.requests[-1].results("read_file")] == ["app"] * 3
    assert set(main.requests[0].tools) == {"read_file", "list_files", "write_file", "edit_file"}
    assert (place.folder / "out/new/report.txt").read_text() == "ok"


async def test_without_a_workshop_sandbox_there_are_no_files(place: Place) -> None:
    (place.folder / "workshop.yaml").write_text("name: bare\n", encoding="utf-8")
    main = await played(place, call("read_file", path="workshop.yaml"), call("list_files"))
    assert "this worker has no file access" in tool_results(main, "read_file")[0]
    assert "this worker has no file access" in tool_results(main, "list_files")[0]


async def test_a_child_has_no_more_than_its_caller(place: Place) -> None:
    place.write("src/app.txt", "app")
    place.write("other.txt", "other")
    child = scripted([call("read_file", path="/other.txt"), write_call("/src/new.txt")], "Tried.")
    greedy = scripted("Never.")
    modest = scripted([call("read_file", path="/src/deep/a.txt"), call("read_file", path="/src/app.txt")], "Tried.")
    place.write("src/deep/a.txt", "deep")
    place.worker("child", child, toolsets=FILESYSTEM)
    place.worker("greedy", greedy, toolsets=FILESYSTEM, sandbox={"readonly": False})
    place.worker("modest", modest, toolsets=FILESYSTEM, sandbox={"restrict": "/src/deep"})
    main = scripted([call(name, input="go") for name in ("child", "greedy", "modest")], "Done.")
    toolsets = delegation_to("child", "greedy", "modest")
    place.worker("main", main, toolsets=toolsets, sandbox={"restrict": "/src", "readonly": True})
    await place.run("main", mode=APPROVE_ALL)
    assert "is outside this worker's files" in tool_results(child, "read_file")[0]
    assert "is read-only" in tool_results(child, "write_file")[0]
    assert "a worker cannot make it writable" in tool_results(main, "greedy")[0]
    assert greedy.requests == []
    # One that narrows has less than its caller: the caller's `/src/app.txt` is not among its files.
    reached, outside = tool_results(modest, "read_file")
    assert '"deep"' in reached
    assert "is outside this worker's files" in outside
    assert set(modest.requests[0].tools) == {"read_file", "list_files"}
