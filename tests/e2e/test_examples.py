"""Every example of the workshop that ships, run as a person would run it: the CLI, no key, no server.

How an example gets here. Its files stand flat in `workers/`: `NAME.worker`, Python tools in `tools.py`, its input
in a file or folder of its own. An entry worker is one that no other worker delegates to. Each has one line in the
table of `workers/README.md`, with the command that is run here as it stands there, and one in `HOLDS` below: what
must be true afterwards. A worker without them fails the test. All run on one host, one after the other, with the
workshop's model `offline:plays.py:examples`, which plays them.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.extension import installed
from tests.support.patience import eventually
from tests.support.people.desk import SHIPPED, Desk

if "review" not in {extension.name for extension in installed()}:
    pytest.skip("the shipped workshop has keys of reviews", allow_module_level=True)
COMMAND = re.compile(r"`llm-do-temporal start (\w+) ?([^`]*)`")


@dataclass(frozen=True)
class Ran:
    """A finished example: its result, and the workshop's files before and after."""

    result: dict[str, Any]
    before: dict[str, bytes]
    after: dict[str, bytes]

    @property
    def text(self) -> str:
        """The answer as text; a structured one as JSON."""
        output = self.result["output"]
        return output if isinstance(output, str) else json.dumps(output)

    @property
    def changed(self) -> dict[str, str]:
        """The files that are new or different, by path."""
        return {
            path: data.decode(errors="replace") for path, data in self.after.items() if self.before.get(path) != data
        }


def greets(ran: Ran) -> None:
    assert "hello" in ran.text.lower()
    assert not ran.changed


def saves_a_note(ran: Ran) -> None:
    assert ran.changed == {"files/notes.md": "- buy bread\n"}
    assert ran.text.startswith("1 note in /notes.md")


def calculates(ran: Ran) -> None:
    assert ran.text.splitlines()[0].endswith("= 6.25")
    assert ran.result["usage"]["tool_calls"] == 4, "an operation, a call"
    assert not ran.changed


def analyzes(ran: Ran) -> None:
    lines = {path: data.count(b"\n") for path, data in ran.before.items() if re.fullmatch(r"files/.*\.py", path)}
    assert lines
    for path, count in lines.items():
        assert f"| {path.removeprefix('files/')} | {count} |" in ran.text
    assert not ran.changed


def organizes(ran: Ran) -> None:
    messy = {path for path in ran.before if re.fullmatch(r"files/inbox/[^/]+", path)}
    sorted_into = {path: path.split("/")[2] for path in ran.after if re.fullmatch(r"files/inbox/[^/]+/[^/]+", path)}
    assert messy
    assert not messy & set(ran.after), "nothing is left at the top"
    assert sorted(ran.before.values()) == sorted(ran.after.values()), "no file was changed or lost"
    assert {"documents", "images", "data"} <= set(sorted_into.values())
    assert f"Moved {len(messy)} of {len(messy)} files." in ran.text


def renames_in_thirty_files(ran: Ran) -> None:
    assert len(ran.changed) == 30
    assert not any(b"get_price" in data for path, data in ran.after.items() if path.startswith("files/pottery/"))
    assert set(ran.before) == set(ran.after), "its tests ran in the layer and left nothing"
    assert ran.text.startswith("Renamed get_price to price_of in 30 files.")


def evaluates_every_deck(ran: Ran) -> None:
    decks = {Path(path).stem for path in ran.before if path.startswith("files/pipeline/") and path.endswith(".pdf")}
    assert decks
    assert {f"files/evaluations/{deck}.md" for deck in decks} <= set(ran.after)
    assert all(deck in ran.text for deck in decks)


def evaluates_the_decks_that_are_named(ran: Ran) -> None:
    assert set(ran.changed) == {"files/evaluations/frostlane.md", "files/evaluations/mendly.md"}
    assert "Evaluated 2 of 2 decks" in ran.text


def divides_a_task_of_a_task(ran: Ran) -> None:
    assert ran.text.startswith("Book a hall, order food and drinks; send the invitations\n1. Book a hall")
    assert "\n   2. order food and drinks\n" in ran.text
    assert ran.result["usage"]["tool_calls"] == 4, "two parts, one of which has two"


def summarises_what_is_too_long_to_read_at_once(ran: Ran) -> None:
    text = " ".join(ran.before["files/texts/tide-mill.txt"].decode().split())
    sentences = re.findall(r"[A-Z].*?\.(?=\s|$)", ran.text.split("\n\n")[0])
    assert 2 <= len(sentences) <= 5
    assert all(sentence in text for sentence in sentences)
    assert ran.result["usage"]["tool_calls"] == 1 + 2 + 2, "a look, two parts, and a look each"
    assert not ran.changed


def plans(ran: Ran) -> None:
    assert "2. list 140 donated tools (Omar, 18 April)" in ran.text
    assert not ran.changed


def makes_a_worker_and_uses_it(ran: Ran) -> None:
    assert set(ran.changed) == {"workers/generated/checklist_writer.worker"}
    assert "- [ ] passports\n- [ ] tickets\n- [ ] a torch" in ran.text


HOLDS: dict[str, Callable[[Ran], None]] = {
    "greeter": greets,
    "approvals_demo": saves_a_note,
    "calculator": calculates,
    "code_analyzer": analyzes,
    "file_organizer": organizes,
    "api_renamer": renames_in_thirty_files,
    "pitch_orchestrator": evaluates_every_deck,
    "pitch_orchestrator_listed": evaluates_the_decks_that_are_named,
    "pitch_orchestrator_coded": evaluates_every_deck,
    "task_decomposer": divides_a_task_of_a_task,
    "summarizer": summarises_what_is_too_long_to_read_at_once,
    "whiteboard_planner": plans,
    "bootstrapper": makes_a_worker_and_uses_it,
}
"""What must be true after the example of each entry worker."""

ASK_NOTHING = frozenset(
    {"greeter", "calculator", "code_analyzer", "summarizer", "task_decomposer", "whiteboard_planner"}
)
"""The examples that end by themselves, with nobody there to approve anything."""


def shown() -> dict[str, list[str]]:
    """The arguments that the README gives each example, by the worker's name."""
    return {name: shlex.split(rest) for name, rest in COMMAND.findall((SHIPPED / "README.md").read_text())}


def entry_workers() -> list[str]:
    """The workers in the shipped folder that no other worker delegates to, and that judge nothing, by name."""
    found = sorted(path.stem for path in SHIPPED.rglob("*.worker") if "generated" not in path.parts)
    registry = Registry(load_workshop(SHIPPED))
    called: set[str] = set()
    for name in found:
        delegation = registry.load(name).delegation
        if delegation is not None:
            called |= {*(tool.name for tool in delegation.tools), *(delegation.allow_workers or ())} - {name}
    for path in SHIPPED.rglob("*.eval.yaml"):
        called |= {yaml.safe_load(path.read_text())["judge"]}
    assert found, "there are examples"
    return [name for name in found if name not in called]


def files_of(workshop: Path) -> dict[str, bytes]:
    """Every file of a workshop, without the product's own."""
    return {
        str(path.relative_to(workshop)): path.read_bytes()
        for path in workshop.rglob("*")
        if path.is_file() and not {".llm-do", "__pycache__"} & set(path.parts)
    }


def run(desk: Desk, *typed: str) -> Ran:
    """Run a command in the workshop to its end."""
    before = files_of(desk.workshop)
    with contextlib.chdir(desk.workshop):
        done = desk.type("start", *typed, "-o", "json")
    return Ran(json.loads(done.stdout), before, files_of(desk.workshop))


def test_every_example_is_listed_with_its_command_and_has_an_outcome() -> None:
    assert entry_workers() == sorted(shown()) == sorted(HOLDS)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", entry_workers())
def test_an_example_does_what_it_is_there_for(shop: Desk, name: str) -> None:
    ran = run(shop, name, *shown()[name], *(() if name in ASK_NOTHING else ("--approve-all",)))
    assert (ran.result["status"], ran.result["pending_approvals"]) == ("completed", [])
    HOLDS[name](ran)


def test_nothing_is_saved_before_it_is_approved_and_a_reason_is_followed(shop: Desk) -> None:
    before = files_of(shop.workshop)
    shop.type("start", "approvals_demo", "sell the boat", "--id", "note", "--detach")
    (first,) = shop.pending("note", 1)
    assert first["tool"] == "write_file"
    assert files_of(shop.workshop) == before
    shop.type("reject", "note", first["id"], "--reason", "put it into /private.md")
    second = shop.asked("note", "a2")
    assert second["args"]["path"] == "/private.md"
    shop.type("approve", "note", second["id"])
    assert "in /private.md. The new one: sell the boat" in shop.type("result", "note").stdout
    after = files_of(shop.workshop)
    assert {path for path in after if before.get(path) != after[path]} == {"files/private.md"}


@pytest.mark.extension("evaluations")
def test_the_evaluation_of_the_pitch_evaluator_passes_and_is_not_run_again(shop: Desk, tmp_path: Path) -> None:
    before = files_of(shop.workshop)
    with contextlib.chdir(shop.workshop):
        typed = ("eval", "pitch_evaluator", "--json", "--junit", str(tmp_path / "report.xml"))
        first, second = shop.type(*typed), shop.type(*typed)
    ran = json.loads(first.stdout)
    assert (ran["passed"], len(ran["results"]), ran["planned"]) == (True, 3, 3)
    assert {one["scores"]["evaluation_judge.grounded"] for one in ran["results"]} == {True}
    assert [one["output"]["verdict"] for one in ran["results"] if one["case"] == "mendly"] == ["pass"]
    assert "nothing it depends on has changed" in second.stderr
    assert json.loads(second.stdout) == ran
    assert 'failures="0" errors="0"' in (tmp_path / "report.xml").read_text()
    assert files_of(shop.workshop) == before
    eventually(lambda: ran["experiment"] in shop.type("eval", "list").stdout, "the experiment is listed")
