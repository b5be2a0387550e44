"""A review as people do it: headless Chromium, a real run, what becomes of files and of the model's next turn."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from llm_do_temporal.messages.runs import StartRunInput
from tests.support.extensions.review.reviewed import EDITED_NOVEL, NOVEL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.accessibility import assert_accessible
from tests.support.people.office import MODEL, Office, Turn, office_in, write

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
EDITOR = f"model: {MODEL}\nreview: changes\ntoolsets: {{filesystem: {{}}}}\n---\nDo as you are told.\n"
HOSTILE = "<img src=x onerror=alert(1)>\u202e\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """One office for all of this file, with a worker whose changes are reviewed."""
    async with office_in(tmp_path_factory.mktemp("office")) as office:
        (office.desk.workshop / "editor.worker").write_text(EDITOR)
        yield office


@pytest.mark.thorough
async def test_two_parts_are_rejected_with_a_comment_and_the_second_review_has_only_what_is_new(office: Office) -> None:
    novel = EDITED_NOVEL.replace("line 16\n", "line sixteen\n")
    (office.desk.workshop / "files" / "novel.txt").write_text(NOVEL)
    again = {"name": "edit_file", "args": {"path": "/novel.txt", "old_text": "line 5\n", "new_text": "line V\n"}}
    submit = {"name": "submit_changes", "args": dict[str, str]()}
    turns: list[Turn] = [[write("/novel.txt", novel), write("/note.txt", HOSTILE)], [submit], [again]]
    await office.client.start(StartRunInput(worker="editor", prompt=json.dumps(turns)), run="novel")
    await office.asks("novel", "a1")
    ada = await office.person()
    await ada.get_by_role("link", name=re.compile("^Review 1: 2 changes")).click()
    parts = ada.get_by_role("checkbox", name=re.compile("^Accept @@"))
    await expect(parts).to_have_count(3)
    await assert_accessible(ada)
    await ada.wait_for_load_state()  # clicks are heard once the page's scripts have run
    await ada.locator(".why summary").first.click()
    await expect(ada.get_by_text("The model wrote no words before this change.")).to_be_visible()
    await parts.nth(0).uncheck()
    await parts.nth(1).uncheck()
    await expect(ada.get_by_role("checkbox", name="Accept files/novel.txt", exact=True)).to_have_js_property(
        "indeterminate", value=True
    )
    await ada.locator(".new .line", has_text="line five").click()
    await ada.locator('textarea[name="comment-text"]:focus').fill("a Roman number, please")
    await ada.get_by_role("button", name="Accept 2 of 2, 1 in part").first.click()

    await office.asks("novel", "a2")
    assert office.read("novel.txt") == NOVEL.replace("line 30\n", "line thirty\nand more\n")
    assert office.read("note.txt") == HOSTILE
    told = [json.dumps(request.body) for request in office.provider.requests if "novel.txt" in str(request.body)]
    assert "/novel.txt:5: a Roman number, please" in told[-1]
    await ada.goto(office.approval("novel", "a2"))
    await expect(ada.locator(".file")).to_have_count(1)
    await expect(ada.locator(".diff .add")).to_have_text(["+line V"])
    await ada.keyboard.press("a")
    await ada.keyboard.press("Enter")
    assert (await office.client.result("novel")).output == "Done."
    await expect(ada.locator(".done")).to_contain_text("answered")
    assert "line V\n" in (office.read("novel.txt") or "")


@pytest.mark.thorough
async def test_without_scripts_a_file_is_left_out_and_another_edited(office: Office) -> None:
    turns = [[write("/plain.txt", "one\n"), write("/secret.txt", "two\n")]]
    await office.client.start(StartRunInput(worker="editor", prompt=json.dumps(turns)), run="plain")
    await office.asks("plain", "a1")
    ada = await office.person(java_script_enabled=False)
    await ada.goto(office.approval("plain"))
    await ada.get_by_role("checkbox", name="Accept files/secret.txt", exact=True).uncheck()
    await ada.get_by_role("button", name="Edit… files/plain.txt").click()
    await ada.get_by_label("Text").fill("three\n")
    await ada.get_by_role("button", name="Keep this text").click()
    await expect(ada.get_by_text("Edited by you")).to_be_visible()
    await ada.get_by_role("button", name="Accept what is ticked").first.click()
    await office.client.result("plain")
    await ada.goto(office.approval("plain"))
    await expect(ada.locator("#state")).to_contain_text("Answered change by change by ada")
    assert (office.read("plain.txt"), office.read("secret.txt")) == ("three\n", None)
