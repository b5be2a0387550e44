"""The guide of docs/how-to/migrate.md, followed: workers in the older form do the same before and after."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import yaml

from llm_do_temporal import Decision, Question, run_worker
from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.place import Place

GUIDE = (Path(__file__).parents[2] / "docs/how-to/migrate.md").read_text(encoding="utf-8")
READER: dict[str, Any] = {
    "sandbox": {
        "paths": {
            "input": {
                "root": "./pipeline",
                "mode": "ro",
                "suffixes": [".txt"],
                "max_file_bytes": 20,
                "read_approval": True,
            }
        }
    },
    "toolsets": {"filesystem": {}, "delegation": {"judge": {}}},
}
WRITER: dict[str, Any] = {
    "sandbox": {"paths": {"output": {"root": "./evaluations", "mode": "rw"}}},
    "toolsets": {"filesystem": {}},
}
RENAMED = {"/input": "/pipeline", "/output": "/evaluations"}
"""What the folders are called before and after."""


def of_the_guide(path_mode: str) -> dict[str, Any]:
    """What the guide says to write for one path with this mode."""
    (cell,) = re.findall(rf"^ *\| one path, `mode: {path_mode}` \| `(.+)` \|$", GUIDE, re.MULTILINE)
    written: dict[str, Any] = yaml.safe_load(cell)
    return written


def migrate(place: Place) -> None:
    """Do what the steps of the guide say, to the files as they stand."""
    (sandbox,) = re.findall(r"```yaml\n *# workshop.yaml\n(.+?)```", GUIDE, re.DOTALL)
    place.workshop(**yaml.safe_load(sandbox))
    for name in ("reader", "writer"):
        file = place.folder / f"workers/{name}.worker"
        _, front, text = file.read_text(encoding="utf-8").split("---\n")
        keys = yaml.safe_load(front)
        ((folder, path),) = keys["sandbox"]["paths"].items()
        root, mode = path.pop("root").removeprefix("."), path.pop("mode")
        narrowed = of_the_guide(mode)["sandbox"]
        assert narrowed["restrict"] == root, "the guide's example and this test speak of the same folders"
        # The other keys of the path, directly below `sandbox:`; then the paths in the instructions.
        keys["sandbox"] = {**narrowed, **path}
        text = text.replace(f" {folder}/", f" {root}/")
        file.write_text(f"---\n{yaml.safe_dump(keys)}---\n{text}", encoding="utf-8")


async def behaviour(place: Place, folders: dict[str, str]) -> dict[str, Any]:
    """All that can be told of a run: what was asked, what each model was told, and what lies in the folders."""
    read, write = folders["read"], folders["write"]
    reads = [f"{read}/deck.txt", f"{read}/notes.md", f"{read}/large.txt", f"{read}/../secret.txt", "/secret.txt"]
    models = {
        "main": scripted([call("reader", input="go")], [call("writer", input="go")], "Done."),
        "reader": scripted(
            call("list_files", path=read),
            *(call("read_file", path=path) for path in reads),
            call("judge", input="Judge it.", attachments=[f"{read}/deck.txt"]),
            "Read.",
        ),
        "judge": scripted(call("read_file", path=f"{read}/deck.txt"), "Judged."),
        "writer": scripted(
            call("write_file", path=f"{write}/deck.md", content="# Deck\n"),
            call("write_file", path="/elsewhere.md", content="x"),
            call("list_files"),
            "Written.",
        ),
    }
    for name, model in models.items():
        place.script(name, model)
    asked: list[Any] = []

    def approves(question: Question) -> Decision:
        uses = [(use.name, use.payload) for use in question.request.capabilities]
        asked.append((question.request.path, question.request.tool, uses))
        return Decision(decision=DecisionKind.APPROVE, by="ada")

    run = f"{place.queue}-{len(place.started)}"
    place.started.append(run)
    result = await run_worker(
        "main", "go", workshop=place.folder, connection=place.client, id=run, approval_callback=approves
    )
    return {
        "output": result.output,
        "asked": asked,
        "instructions": models["reader"].requests[0].instructions,
        "told": {name: told(model) for name, model in models.items()},
        "judged": models["judge"].requests[0].prompt,
        "evaluations": {path.name: path.read_text() for path in (place.folder / "evaluations").iterdir()},
    }


def told(model: ScriptedModel) -> list[str]:
    tools = ("reader", "writer", "judge", "list_files", "read_file", "write_file")
    return [result.text for result in model.requests[-1].results(*tools)]


async def test_workers_that_were_migrated_by_the_guide_behave_as_before(place: Place) -> None:
    place.write("pipeline/deck.txt", "We sell kelp.")
    place.write("pipeline/notes.md", "notes")
    place.write("pipeline/large.txt", "x" * 21)
    place.write("secret.txt", "a secret")
    place.workshop(sandbox=None)
    place.worker("main", place.script("main", scripted()), toolsets={"delegation": {"reader": {}, "writer": {}}})
    place.worker("reader", place.script("reader", scripted()), "Read input/deck.txt.", **READER)
    place.worker("judge", place.script("judge", scripted()), toolsets={"filesystem": {}})
    place.worker("writer", place.script("writer", scripted()), "Write output/deck.md.", **WRITER)
    warned = [problem.message for problem in check_workshop(place.folder) if "deprecated" in problem.message]
    assert ["`sandbox: {restrict: /pipeline}`" in text for text in warned] == [True, False]
    assert "`sandbox: {restrict: /evaluations}`" in warned[1]

    before = await behaviour(place, {"read": "/input", "write": "/output"})
    assert before["told"]["reader"][-1] == "Judged."
    assert "We sell kelp." in before["told"]["judge"][0]
    read = [(path, tool) for path, tool, uses in before["asked"] if uses[0][0] == "sandbox.read"]
    assert {("main/reader-1", "read_file"), ("main/reader-1", "judge"), ("main/reader-1/judge-1", "read_file")} == set(
        read
    )
    assert before["evaluations"] == {"deck.md": "# Deck\n"}
    (place.folder / "evaluations/deck.md").unlink()

    migrate(place)
    assert [str(problem) for problem in check_workshop(place.folder)] == []
    after = await behaviour(place, {"read": "/pipeline", "write": "/evaluations"})
    assert after.pop("instructions") == "Read /pipeline/deck.txt."
    assert before.pop("instructions") == "Read input/deck.txt."
    assert after == renamed(before)


def renamed(value: Any) -> Any:
    """The same with the names that the folders have afterwards."""
    if isinstance(value, dict):
        return {key: renamed(one) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [renamed(one) for one in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return tuple(renamed(one) for one in cast("tuple[Any, ...]", value))
    for earlier, later in RENAMED.items():
        value = value.replace(earlier, later) if isinstance(value, str) else value
    return value
