"""A review as people do it: headless Chromium, a real run, what becomes of files and of the model's next turn."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from llm_do_temporal.messages.runs import StartRunInput
from tests.support.extensions.review.reviewed import EDITED_NOVEL, NOVEL
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.accessibility import assert_accessible
from tests.support.people.desk import Desk
from tests.support.people.office import MODEL, Office, Turn, office_in, write
from tests.support.people.tmux import at_terminal

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


COUNTER = "files/pottery/counter.py"


def remark_on(hunk: dict[str, Any]) -> str:
    """Return the remark that asks for another text in the line that a hunk changes, by its number."""
    (number,) = [at for at, line in enumerate(hunk["lines"]) if line.startswith("-")]
    wanted = hunk["lines"][number][1:].strip().replace("get_price", "price")
    return f"{COUNTER}:{hunk['new_start'] + number + 1}:customers type a short word: `{wanted}`"


def files_of_patch(desk: Desk, *options: str) -> list[str]:
    """Return the files that git changes with the run's patch, after it has found that it can."""
    patch = desk.type("export", "renamed", "--patch").stdout
    git = ["git", "apply", "--check", "--numstat", *options, "-"]
    listed = subprocess.run(git, cwd=desk.workshop, input=patch, capture_output=True, text=True, check=True)
    return [line.split("\t")[2] for line in listed.stdout.splitlines()]


@pytest.mark.thorough
@pytest.mark.extension("export")
def test_thirty_files_are_reviewed_at_the_terminal(shop: Desk) -> None:
    """Two hunks are rejected with remarks by options; the second review has these alone, and a person walks it."""
    shop.type("start", "api_renamer", "rename get_price to price_of", "--id", "renamed", code=3)
    assert len(files_of_patch(shop)) == 30

    (review,) = json.loads(shop.type("review", "renamed", COUNTER, "--json").stdout)
    hunks = [one for one in review["changes"][0]["hunks"] if any('"get_price' in line for line in one["lines"])]
    assert len(hunks) == 2
    options = [word for one in hunks for word in ("--reject", f"{COUNTER}:{one['id']}", "--comment", remark_on(one))]
    answered = shop.type("review", "renamed", "--digest", review["digest"], "--all", *options).stderr
    assert "accepts 29 of 30 changes, 1 in part" in answered
    assert "2 remarks" in answered

    shop.type("watch", "renamed", code=3)
    assert "price_of" in (shop.workshop / "files/pottery/prices.py").read_text()
    with at_terminal(shop) as terminal:
        terminal.command("review", "renamed")
        terminal.see("review 2 of run renamed", "1 change: 1 modified", "check passed", "[w]alk through", "a2> ")
        terminal.type("w")
        terminal.see("(1 of 1, part 1 of 2) accept?")
        terminal.type("y")
        terminal.see("(1 of 1, part 2 of 2) accept?")
        terminal.type("y")
        terminal.see("this answer accepts 1 of 1 changes", "answer> ")
        terminal.type("s")
        terminal.see("a2 changed", "exit 0")
    shop.type("result", "renamed")
    assert '"price ARTICLE"' in (shop.workshop / COUNTER).read_text()
    assert files_of_patch(shop, "--reverse") == [COUNTER]
