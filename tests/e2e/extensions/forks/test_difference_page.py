"""Two runs beside each other in a browser: from the page of a fork to what it has changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from llm_do_temporal.extensions.forks.messages import ForkIndex, ForkSource
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.accessibility import assert_accessible
from tests.support.people.desk import Desk
from tests.support.people.office import Office, office_in, write
from tests.support.people.tmux import at_terminal

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    async with office_in(tmp_path_factory.mktemp("office")) as office:
        yield office


@pytest.mark.thorough
async def test_a_fork_leads_to_what_it_has_changed(office: Office) -> None:
    """Scripts are off: the page works without them, and hostile text of models stays text."""

    async def run(name: str, text: str, **more: Any) -> None:
        told = json.dumps([[write("/plan.md", f"one\n{text}\nthree\n")], f"Wrote {text}."])
        start = StartRunInput(worker="clerk", prompt=told, mode=Mode.APPROVE_ALL, aside=True, **more)
        office.gate.open()
        await office.client.start(start, run=name)
        await office.client.result(name)

    await run("first", "two")
    index = ForkIndex(run="first", execution="").model_dump_json().encode()
    source = ForkSource(run="first", index=workshop_blobs(office.desk.workshop).put_bytes(index))
    await run("second", HOSTILE, parts={"forks": source.model_dump(mode="json")}, copies_of="first")

    ada = await office.person(java_script_enabled=False)
    await ada.goto(f"{office.link}/runs/second")
    await expect(ada.get_by_text("fork of first")).to_be_visible()
    await ada.get_by_role("link", name="Compare").click()
    await expect(ada).to_have_url(f"{office.link}/runs/first/diff/second")
    await expect(ada.get_by_role("heading", name="First difference: main, the prompt")).to_be_visible()
    files = ada.get_by_role("region", name="Files")
    await expect(files.locator(".del")).to_have_text(["-two"])
    await expect(files.locator(".add")).to_contain_text([HOSTILE.removesuffix("\u202e")])
    answers = ada.get_by_role("region", name="Answers")
    await expect(answers).to_contain_text("Wrote two.")
    assert office.read("plan.md") is None

    await ada.goto(f"{office.link}/runs/first/diff/first")
    await expect(ada.get_by_role("status")).to_contain_text("The same")
    await ada.goto(f"{office.link}/runs/first/diff/nothing")
    await expect(ada.get_by_text("there is no run 'nothing'")).to_be_visible()
    with_scripts = await office.person()
    await with_scripts.goto(f"{office.link}/runs/first/diff/second")
    await assert_accessible(with_scripts)


WORKER = "---\nmodel: offline:notes\ntoolsets: {filesystem: {}}\n---\n"


@pytest.mark.thorough
def test_each_save_of_a_workers_file_is_tried_beside_the_run_before(desk: Desk) -> None:
    """A broken file is told and waited over; nothing is written into the workshop's files."""
    file = desk.workshop / "scribe.worker"
    file.write_text(f"{WORKER}Keep notes in /notes.md.\n")
    before = sorted((desk.workshop / "files").rglob("*"))
    with at_terminal(desk) as terminal:
        terminal.command("try", "scribe", "buy bread", "--watch")
        terminal.see("changed aside", "+ files/notes.md", "Ctrl-C ends")
        file.write_text("---\nmodel: [\n---\nKeep notes.\n")
        terminal.see("scribe.worker", "llm-do-temporal: ")
        file.write_text(f"{WORKER}Keep short notes in /notes.md.\n")
        seen = terminal.see(
            "first difference: main, the instructions", "answer: the same", "files: 0 differ, 1 the same"
        )
        assert "Keep short notes in /notes.md." in seen
        terminal.press("C-c")
        assert "the last run was scribe-" in terminal.see("exit 0")
    assert sorted((desk.workshop / "files").rglob("*")) == before


@pytest.mark.thorough
def test_a_save_of_a_tool_or_a_schema_is_tried_too(desk: Desk) -> None:
    """The worker stands in a folder of its own, beside its Python."""
    folder = desk.workshop / "workers/scribe"
    folder.mkdir(parents=True)
    tools, schemas = folder / "tools.py", folder / "schemas.py"
    tools.write_text('def count_words(text: str) -> int:\n    """Count words."""\n    return len(text.split())\n')
    schemas.write_text("from pydantic import BaseModel\n\nclass Order(BaseModel):\n    note: str\n")
    keys = "model: offline:echo\nschema_in_ref: schemas.py:Order\ntoolsets: {custom: {count_words: {}}}\n"
    (folder / "worker.worker").write_text(f"---\n{keys}---\nCount.\n")
    with at_terminal(desk) as terminal:
        terminal.command("try", "scribe", "--input", '{"note": "buy bread"}', "--watch")
        terminal.see("Ctrl-C ends")
        tools.write_text(tools.read_text().replace("Count words.", "Count the words."))
        eventually(lambda: terminal.screen.count("Ctrl-C ends") == 2, "the end of the first fork")
        schemas.write_text(f"{schemas.read_text()}    urgent: bool = False\n")
        eventually(lambda: terminal.screen.count("Ctrl-C ends") == 3, "the end of the second fork")
        terminal.press("C-c")
        terminal.see("the last run was scribe-", "exit 0")
