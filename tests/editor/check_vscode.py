"""The extension for VS Code, in a real editor that a person sits at; not part of `make test`, see `make editor-try`."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from llm_do_temporal.definitions.check import check_workshop
from tests.editor.code_server import CodeServer, code_server_in
from tests.editor.window import Window
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.support.people.chromium import launch

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
WORKERS = Path(__file__).parents[2] / "workers"
SIZE = {"width": 1000, "height": 640}
FIRST, CALLER = "pitch_evaluator.worker", "pitch_orchestrator.worker"


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[CodeServer]:
    """An editor of the test's own: one keeps the language servers of windows that were closed, for some time."""
    with code_server_in(tmp_path / "editor") as editor:
        yield editor


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The examples, to be changed."""
    return Path(shutil.copytree(WORKERS, tmp_path / "shop"))


@asynccontextmanager
async def window_on(editor: CodeServer, folder: Path, *, trusted: bool = True) -> AsyncGenerator[Window]:
    """A window with the folder open, and the first question answered."""
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        try:
            page = await (await browser.new_context(viewport=SIZE)).new_page()  # pyright: ignore[reportArgumentType]
            page.set_default_timeout(PATIENCE_SECONDS * 1000)
            await page.goto(editor.window(folder))
            window = Window(page)
            await window.answer_trust(trusted=trusted)
            yield window
        finally:
            await browser.close()


async def test_head_and_body_and_templates_have_colours_of_their_own(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(FIRST)
        await window.expect_colours("You are an analyst", "readonly", "15000000", "file")
        await window.picture("colours")


async def test_mistakes_are_listed_while_a_person_types(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(FIRST)
        await window.add_line(3, "modle: anthropic:claude-sonnet-5-5")
        await window.run("Problems: Focus on Problems View")
        await expect(window.problems().filter(has_text="modle")).to_have_count(1)
        await window.picture("problems")


async def test_comments_are_of_yaml_in_the_head_and_of_templates_in_the_body(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file("greeter.worker")
        await window.expect_colours("Greet the person", "description")
        for number, text, sign in ((3, "description:", "# "), (5, "Greet the person", "{# ")):
            await window.go_to(number)
            # Where the language of a line is not loaded yet, nothing happens.
            await window.ask("Control+/", shows=window.line(text), text=f"{sign}{text}")


async def test_a_snippet_is_offered_in_the_head(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file("greeter.worker")
        await window.expect_colours("Greet the person", "description")
        await window.add_line(3, "toolsets-sh")
        await window.ask("Control+Space", shows=window.completions().first, text="toolsets-shell")
        await window.page.keyboard.press("Enter")
        await expect(window.line("pattern: git status")).to_be_visible()


async def test_keys_models_and_workers_are_completed(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(CALLER)
        await window.expect_colours("You coordinate", "delegation")
        await window.add_line(3, "comp")
        await window.ask("Control+Space", shows=window.completions().first, text="compatible_models")
        await window.page.keyboard.press("Enter")
        await expect(window.line("compatible_models:")).to_be_visible()
        await window.page.keyboard.press("Control+Shift+K")
        await window.add_line(3, "model: anth")
        await window.ask("Control+Space", shows=window.completions().first, text="anthropic:")
        await window.page.keyboard.press("Escape")
        await window.page.keyboard.press("Control+Shift+K")
        await expect(window.page.get_by_role("button", name="No Problems")).to_be_visible()
        await window.add_line(7, "")
        await window.ask("Control+Space", shows=window.completions().first, text="api_renamer")
        await expect(window.completions().filter(has_text="calculator")).to_be_visible()
        await window.show_details("Renames")
        await window.picture("completion")


async def test_what_a_worker_may_do_is_told_where_it_is_named(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(CALLER)
        await window.expect_colours("You coordinate", "delegation")
        await window.go_to(2, 10)
        await window.ask("Control+K", "Control+I", shows=window.hover(), text="What it may do")
        await expect(window.hover()).to_contain_text("after a person has agreed")
        await window.picture("hover")


async def test_a_name_leads_to_the_file_of_the_worker_and_to_all_that_name_it(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(CALLER)
        await window.expect_colours("You coordinate", "delegation")
        await window.go_to(7, 8)
        places = window.page.locator(".reference-zone-widget")
        await window.ask("Shift+F12", shows=places, text="pitch_evaluator.eval.yaml")
        await window.picture("references")
        await window.page.keyboard.press("Escape")
        await window.ask("F12", shows=window.page.locator(".tab.active"), text=FIRST)


async def test_a_worker_is_renamed_with_its_file_and_wherever_it_is_named(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file("evaluation_judge.worker")
        await window.expect_colours("You judge", "description")
        await window.go_to(2, 10)
        name = window.page.locator(".rename-box:visible")
        await window.ask("F2", shows=name, text="to Rename")
        await expect(name.locator("input")).to_have_value("evaluation_judge")
        await name.locator("input").fill("pitch_judge")
        await window.picture("rename")
        await name.locator("input").press("Enter")
        await expect(window.page.locator(".tab.active")).to_contain_text("pitch_judge.worker")
        eventually(lambda: "pitch_judge" in (shop / "pitch_evaluator.eval.yaml").read_text("utf-8"), "it is saved")
        await expect(window.page.get_by_role("button", name="No Problems")).to_be_visible()
        await window.picture("renamed")
    assert not (shop / "evaluation_judge.worker").exists()
    assert [str(one) for one in check_workshop(shop) if one.severity == "error"] == []


async def test_the_workshop_file_stays_yaml_and_is_looked_at_too(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file("workshop.yaml")
        await window.add_line(4, "modle: offline:notes")
        await expect(window.page.get_by_role("button", name="YAML")).to_be_visible()
        await window.run("Problems: Focus on Problems View")
        await expect(window.problems().filter(has_text="modle")).to_have_count(1)


async def test_a_workshop_is_checked_in_a_terminal(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop) as window:
        await window.open_file(FIRST)
        await window.run("llm-do-temporal: Check Workshop")
        await expect(window.page.locator(".terminal-wrapper.active")).to_be_visible()
        await expect(window.page.locator(".terminal-wrapper.active .xterm-rows")).to_contain_text("no problems")
        await window.picture("check")


async def test_a_folder_that_is_not_trusted_has_colours_and_no_server(editor: CodeServer, shop: Path) -> None:
    async with window_on(editor, shop, trusted=False) as window:
        await window.open_file(FIRST)
        await window.expect_colours("You are an analyst", "readonly")
        await window.write_in_picker("F1", "llm-do-temporal: ")
        await expect(window.page.get_by_text("No matching commands")).to_be_visible()
        assert editor.language_servers() == []
        await window.page.keyboard.press("Escape")
        await window.run("Workspaces: Manage Workspace Trust")
        await window.page.get_by_role("button", name="Trust", exact=True).click()
        eventually(editor.language_servers, "the server starts once the folder is trusted")


async def test_a_folder_decides_nothing_about_the_program_that_is_started(editor: CodeServer, shop: Path) -> None:
    trap, sprung = shop / "llm-do-temporal", shop / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n", encoding="utf-8")
    trap.chmod(0o755)
    (shop / ".vscode").mkdir()
    settings = {"llm-do-temporal.command": [str(trap)]}
    (shop / ".vscode/settings.json").write_text(json.dumps(settings), encoding="utf-8")
    async with window_on(editor, shop) as window:
        await window.open_file(FIRST)
        await window.add_line(3, "modle: anthropic:claude-sonnet-5-5")
        await window.run("Problems: Focus on Problems View")
        await expect(window.problems().filter(has_text="modle")).to_have_count(1)
        before = editor.language_servers()
        await window.run("llm-do-temporal: Restart Server")
        eventually(lambda: set(editor.language_servers()) - set(before), "another server is started")
    assert not sprung.exists()


async def test_a_program_that_is_missing_is_told_with_a_way_out(tmp_path: Path, shop: Path) -> None:
    with code_server_in(tmp_path / "editor", ["/nowhere/llm-do-temporal"]) as editor:
        async with window_on(editor, shop) as window:
            await window.open_file(FIRST)
            said = window.page.locator(".notification-toast", has_text="did not start")
            await expect(said).to_contain_text("pip install './llm-do-temporal[lsp]'")
            await expect(said.get_by_role("button", name="Open Setting")).to_be_visible()
