"""The page as people use it: headless Chromium, real runs, what becomes of files and of the model's next turn."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Page, async_playwright, expect

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.client.open_questions import read_groups
from llm_do_temporal.environment import UNDO_VARIABLE
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.ui.access import KeptPage
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.accessibility import assert_accessible
from tests.support.people.chromium import launch
from tests.support.people.desk import Desk, desk_in
from tests.support.people.office import Office, link_of, write
from tests.support.ports import unused_port
from tests.support.servers.temporal import temporal_server
from tests.support.workshops.hostile import hostile_pdf

expect.set_options(timeout=PATIENCE_SECONDS * 1000)
HOSTILE_NAME = 'x"><b>\u202efdp.pdf'


async def test_a_call_is_found_in_the_inbox_and_approved_by_keyboard(office: Office) -> None:
    ada = await office.person()
    await office.asking("keys", [write("/keys.txt", "by keyboard")])
    await expect(ada).to_have_title("(1) Inbox · llm-do-temporal")
    await ada.keyboard.press("?")
    await expect(ada.get_by_role("dialog")).to_be_visible()
    await ada.keyboard.press("Escape")
    await ada.keyboard.press("j")
    await ada.keyboard.press("Enter")
    await ada.wait_for_url(office.approval("keys"))
    await ada.keyboard.press("a")
    await ada.keyboard.press("Enter")
    await expect(ada.locator(".done")).to_have_text("1 question answered: 1 approved.")
    assert (await office.client.result("keys")).output == "Done."
    await _is_told(office, ada, "keys", "Approved by ada")
    assert office.read("keys.txt") == "by keyboard"


async def test_a_link_in_a_message_leads_whoever_is_signed_in_to_the_approval(office: Office) -> None:
    ada = await office.person()
    address = await office.asking("linked", [write("/linked.txt", "x")])
    await ada.goto(f"data:text/html,<a href='{address}'>an approval is needed</a>")
    await ada.get_by_role("link").click()
    await expect(ada.get_by_role("heading", level=1)).to_have_text("Write the file /linked.txt (1 bytes)")
    await office.client.cancel("linked")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_an_edited_call_writes_the_edited_text(office: Office, scripts: bool) -> None:
    run = f"edited-{scripts}"
    ada = await office.person(java_script_enabled=scripts)
    await ada.goto(await office.asking(run, [write(f"/{run}.txt", "one\ntwo\n")]))
    await ada.get_by_role("link", name="Edit and approve").click()
    await ada.get_by_label("content").fill("one\nthree\n")
    await ada.get_by_role("button", name="Edit as YAML").click()
    raw = ada.get_by_label("Arguments, as YAML")
    await raw.fill((await raw.input_value()).replace("three", "drei"))
    await ada.get_by_role("button", name="Show the difference").click()
    await expect(ada.locator(".diff .add")).to_have_text("+drei")
    await expect(ada.locator(".diff .del")).to_have_text("-two")
    await ada.get_by_role("button", name="Approve with changes").click()
    await office.client.result(run)
    await _is_told(office, ada, run, "Changed and approved by ada")
    assert office.read(f"{run}.txt") == "one\ndrei\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
async def test_a_double_click_decides_once_and_is_no_mistake(office: Office, scripts: bool) -> None:
    run = f"double-{scripts}"
    ada = await office.person(java_script_enabled=scripts)
    await ada.goto(await office.asking(run, [write(f"/{run}.txt", "x")]))
    await ada.get_by_role("button", name="Approve", exact=True).dblclick()
    await office.client.result(run)
    await expect(ada.get_by_role("alert")).to_have_count(0)
    await _is_told(office, ada, run, "Approved by ada")
    assert office.read(f"{run}.txt") == "x"


async def test_a_page_that_went_stale_says_so_by_itself(office: Office) -> None:
    ada = await office.person()
    await ada.goto(await office.asking("stale", [write("/stale.txt", "x")]))
    decision = Decision(id="a1", decision=DecisionKind.REJECT, note="seen elsewhere", by="bob")
    await office.client.decide("stale", decision)
    await expect(ada.get_by_role("status")).to_contain_text("Rejected by bob")
    await expect(ada.get_by_role("status")).to_contain_text("seen elsewhere")
    await expect(ada.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


@pytest.mark.thorough
async def test_what_is_folded_has_to_be_opened_first(office: Office) -> None:
    address = await office.asking("long", [write("/long.txt", "line\n" * 500)])
    ada, without = await office.person(), await office.person(java_script_enabled=False)
    await ada.goto(address)
    approve = ada.get_by_role("button", name="Approve", exact=True)
    await expect(approve).to_be_disabled()
    await ada.keyboard.press("a")
    await ada.keyboard.press("Enter")
    await expect(approve).to_be_enabled()
    await without.goto(address)
    await expect(without.locator("details[open]")).to_have_count(1)
    await without.get_by_role("button", name="Approve", exact=True).click()
    await expect(without.get_by_role("status")).to_contain_text("Approved by ada")


@pytest.mark.thorough
async def test_question_after_question_is_answered_with_keys_alone(office: Office) -> None:
    await office.asking(run := "flow", [write(f"/flow-{number}.txt", "x\n" * 200) for number in (1, 2, 3)])
    await office.asks(run, "a3")
    await office.listed(run, 3)
    ada = await office.person(viewport={"width": 390, "height": 844})
    await ada.goto(f"{office.approval(run)}?run={run}")
    await expect(ada).to_have_title(
        re.compile(r"\(3\) Write the file /flow-\d.txt \(400 bytes\) .* wants your approval")
    )
    await ada.keyboard.press("o")
    await ada.keyboard.press("a")
    await expect(ada.get_by_role("button", name="Approve a1")).to_be_in_viewport()
    await ada.keyboard.press("Enter")
    await ada.wait_for_url(f"{office.approval(run, 'a2')}?*")
    await expect(ada.get_by_role("status")).to_contain_text("Approved by ada")
    await ada.keyboard.press("j")
    await ada.wait_for_url(f"{office.approval(run, 'a3')}?*")
    await ada.keyboard.press("k")
    await ada.wait_for_url(f"{office.approval(run, 'a2')}?*")
    await ada.keyboard.press("r")
    await ada.keyboard.type("one is enough")
    await ada.keyboard.press("Control+Enter")
    await ada.wait_for_url(f"{office.approval(run, 'a3')}?*")
    await ada.keyboard.press("e")
    await ada.get_by_label("content").fill("y")
    await ada.get_by_role("button", name="Show the difference").click()
    await expect(ada.get_by_role("heading", level=1)).to_contain_text("with these changes?")
    await ada.wait_for_load_state()  # keys are heard once the page's scripts have run
    await ada.keyboard.press("o")
    await expect(ada.get_by_role("button", name="Approve with changes")).to_be_enabled()
    await ada.keyboard.press("a")
    await ada.keyboard.press("Enter")
    await expect(ada.locator(".done")).to_contain_text("3 questions answered: 1 approved, 1 changed")
    await office.client.result(run)
    files = {one.id: str(one.request.args["path"])[1:] for one in await office.client.questions(run)}
    assert [office.read(files[one]) for one in ("a1", "a2", "a3")] == ["x\n" * 200, None, "y"]


@pytest.mark.thorough
async def test_whoever_wants_it_is_notified_of_what_is_new(office: Office) -> None:
    ada = await office.person(permissions=["notifications"])
    await ada.clock.install()
    await ada.add_init_script(
        "window.told = []; document.hasFocus = () => false;"
        "window.Notification = class { static permission = 'granted';"
        " constructor(title, options) { window.told.push([title, options.body]); } };"
    )
    await office.asking("notice-1", [write("/notice-1.txt", "x")])
    await office.listed("notice-1", 1)  # the page notifies of what is newer than what it finds first
    await ada.goto(f"{office.link}/runs")
    async with ada.expect_response("**/waiting"):
        await ada.get_by_role("button", name="Notify me").click()
    await office.asking("notice-2", [write("/notice-\u202e2.txt", "x")])
    while not await ada.evaluate("window.told.length"):
        async with ada.expect_response("**/waiting"):
            await ada.clock.fast_forward(10_000)
    assert (await ada.evaluate("window.told"))[0][1] == 'Write the file /"notice-\\u202e2.txt" (1 bytes)'
    await asyncio.gather(office.client.cancel("notice-1"), office.client.cancel("notice-2"))


@pytest.mark.thorough
async def test_a_run_is_stopped_after_one_more_question(office: Office) -> None:
    ada = await office.person()
    await ada.goto(await office.asking("stopped", [write("/stopped.txt", "x")]))
    await ada.get_by_role("link", name="Stop the run").click()
    await ada.get_by_role("button", name="Stop the run").click()
    async for _ in office.client.follow("stopped").events():
        pass
    assert (await office.client.status("stopped")).status == "cancelled"
    await ada.goto(office.approval("stopped"))
    await expect(ada.get_by_role("status")).to_contain_text("Nobody needs an answer any more")
    assert office.read("stopped.txt") is None


async def test_all_is_done_without_scripts(office: Office) -> None:
    ada = await office.person(java_script_enabled=False)
    await expect(ada.get_by_text("Notify me")).to_be_hidden()
    await ada.get_by_role("link", name="Start", exact=True).click()
    await ada.get_by_label("Worker", exact=True).select_option("clerk")
    same, other = write("/plain.txt", "x"), write("/other.txt", "y")
    await ada.get_by_label("Prompt").fill(json.dumps([[same], [other], [same]]))
    await ada.get_by_label("Files").set_input_files(office.desk.workshop / "files/inbox" / "todo.md")
    await ada.get_by_role("button", name="Start", exact=True).click()
    await ada.wait_for_url("**/runs/clerk-*")
    run = ada.url.rpartition("/")[2]
    await office.asks(run, "a1")
    await ada.goto(office.approval(run))
    await ada.get_by_label("Identical calls need not ask again").check()
    await ada.get_by_role("button", name="Approve", exact=True).click()
    await expect(ada.get_by_role("status")).to_contain_text("Remembered for the rest of the run")
    await office.asks(run, "a2")
    await ada.goto(f"{office.link}/runs/{run}")
    await ada.get_by_role("link", name="Remembered").click()
    await ada.get_by_role("button", name="Take it back").click()
    await expect(ada.get_by_role("status")).to_contain_text("Taken back")
    await ada.goto(office.approval(run, "a2"))
    await ada.get_by_label("Reason").fill("one is enough")
    await ada.get_by_role("button", name="Reject").click()
    await office.asks(run, "a3")
    await ada.goto(office.approval(run, "a3"))
    await ada.get_by_role("link", name="Stop the run").click()
    await ada.get_by_role("button", name="Stop the run").click()
    await ada.wait_for_url(f"**/runs/{run}")
    async for _ in office.client.follow(run).events():
        pass
    assert (await office.client.status(run)).status == "cancelled"
    assert office.read("plain.txt") == "x"
    assert office.read("other.txt") is None


@pytest.mark.thorough
async def test_what_a_model_writes_grows_on_an_open_page(office: Office) -> None:
    words = "one two three four five six seven eight"
    await office.asking("live", [write("/live.txt", "x")], words)
    ada, bob = await office.person(), await office.person("bob")
    await asyncio.gather(ada.goto(f"{office.link}/runs/live/invocations/main"), bob.goto(f"{office.link}/runs/live"))
    await expect(ada.locator("#live")).to_be_hidden()
    await office.client.decide("live", Decision(id="a1", decision=DecisionKind.APPROVE))
    await expect(ada.locator("#live pre")).to_contain_text("one two")
    assert await ada.locator("#live pre").inner_text() != words
    await expect(bob.locator(".writing")).to_contain_text("one two")
    await assert_accessible(ada)
    await assert_accessible(bob)
    office.gate.open()
    await expect(ada.locator("#entries .entry.text pre")).to_have_text(words)
    await expect(ada.locator("#entries")).to_contain_text("Ended: completed")
    await expect(ada.locator("#live")).to_be_hidden()
    await expect(bob.locator("#tree .state").first).to_have_text("completed")
    axis = bob.locator(".ticks")
    await axis.drag_to(axis, source_position={"x": 150, "y": 5}, target_position={"x": 300, "y": 5})
    await bob.wait_for_url("**/runs/live?from=*&to=*")
    await expect(bob.locator(".axis")).to_contain_text("only a part is shown")


@pytest.mark.thorough
async def test_a_pdf_is_shown_and_its_scripts_are_not_run(office: Office) -> None:
    """Nor is its name taken for anything but text. Dialogs are complaints of every browser here."""
    (office.desk.workshop / "files" / HOSTILE_NAME).write_bytes(hostile_pdf())
    handing = {"name": "greeter", "args": {"input": "Look.", "attachments": [HOSTILE_NAME]}}
    address = await office.asking("pdf", [handing])
    ada = await office.person()
    async with ada.expect_response("**/attachments/*") as sent:
        await ada.goto(address)
        await ada.locator("iframe").scroll_into_view_if_needed()
    answer = await sent.value
    assert (answer.status, answer.headers["content-type"]) == (200, "application/pdf")
    await assert_accessible(ada)
    await expect(ada.get_by_role("heading", level=3).filter(has_text=".pdf")).to_have_text('/x"><b>\\u202efdp.pdf')
    async with ada.expect_download(lambda file: file.url.endswith("?download")) as kept:
        await ada.get_by_role("link", name="Download").click()
    assert (await (await kept.value).path()).read_bytes() == hostile_pdf()
    await office.client.cancel("pdf")


async def _is_told(office: Office, page: Page, run: str, words: str) -> None:
    """The page of the first approval of a run says so: whoever has decided with scripts has gone on from it."""
    await page.goto(office.approval(run))
    await expect(page.get_by_role("status")).to_contain_text(words)


@pytest.mark.thorough
async def test_without_a_worker_service_decisions_wait_for_one(office: Office) -> None:
    """Last in this file: it replaces the service."""
    address = await office.asking("alone", [write("/alone.txt", "decided alone")])
    service = office.desk.groups[0]
    service.send_signal(signal.SIGKILL)
    service.wait()
    ada = await office.person()
    await expect(ada.get_by_role("link", name="Write the file /alone.txt (13 bytes)")).to_be_visible()
    await ada.goto(address)
    await ada.get_by_role("button", name="Approve", exact=True).click()
    await expect(ada.get_by_role("status")).to_contain_text("No worker service has answered yet")
    assert office.read("alone.txt") is None
    office.desk.begin("worker")
    await expect(ada.get_by_role("status")).to_contain_text("Approved by ada")
    assert (await office.client.result("alone")).output == "Done."
    assert office.read("alone.txt") == "decided alone"


def test_dev_serves_the_page_to_whoever_has_its_link(desk: Desk) -> None:
    ports = ("--port", str(unused_port()), "--ui-port", str(unused_port()))
    dev = desk.begin("dev", *ports, "--page-port", "0")
    link = link_of(dev)
    address = link.partition("/?")[0]
    assert httpx2.get(f"{address}/", timeout=PATIENCE_SECONDS).status_code == 401
    # As a browser says of an address that was typed.
    typed = {"sec-fetch-site": "none"}
    with httpx2.Client(follow_redirects=True, headers=typed, timeout=PATIENCE_SECONDS) as browser:
        answer = browser.get(link)
        assert (answer.status_code, str(answer.url)) == (200, f"{address}/")
        assert "Nothing waits for a person." in answer.text
    dev.send_signal(signal.SIGINT)
    assert dev.wait(timeout=PATIENCE_SECONDS) == 0


expect.set_options(timeout=PATIENCE_SECONDS * 1000)


def restarted(desk: Desk, page: subprocess.Popen[str], number: int) -> tuple[subprocess.Popen[str], str]:
    """End a page, and start it again: the process, and the link that it prints."""
    page.send_signal(number)
    page.wait(PATIENCE_SECONDS)
    again = desk.begin("ui")
    return again, link_of(again)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
async def test_a_link_to_a_request_works_after_the_page_was_started_again(tmp_path: Path, ending: int) -> None:
    with temporal_server() as address, desk_in(tmp_path) as desk:
        desk.environment |= {"TEMPORAL_ADDRESS": address, UNDO_VARIABLE: "0"}
        desk.begin("worker")
        # A port of its own: the usual one may be that of another test as soon as this page has ended.
        KeptPage.of_workshop(desk.workshop).with_port(unused_port()).keep(desk.workshop)
        page = desk.begin("ui")
        link = link_of(page)
        client = LlmDoClient(await connect(Connection(address=address)))
        await client.start(StartRunInput(worker="approvals_demo", prompt="Note: buy bread"), run="sent")
        asked = None
        async for event in client.follow("sent").events():
            if event.type == "desk.changed" and (open_now := await client.approvals("sent")):
                asked = open_now[0]
                break
        assert asked is not None
        place = f"{link.partition('/?')[0]}/runs/sent/approvals/{asked.id}"
        async with async_playwright() as playwright:
            browser = await launch(playwright)
            context, stranger = await browser.new_context(), await browser.new_context()
            ada = await context.new_page()
            await ada.goto(link)
            await ada.goto(place)
            page, second = restarted(desk, page, ending)
            assert second.partition("?")[0] == link.partition("?")[0]
            assert second != link, "each link has a token of its own"
            # What was loaded before decides now, and so does the link in a message.
            await ada.get_by_role("button", name=f"Approve {asked.id}").click()
            await ada.wait_for_url(lambda url: url != place)
            await ada.goto(f"data:text/html,<a href='{place}'>an approval is needed</a>")
            await ada.get_by_role("link").click()
            await expect(ada.locator("#state")).to_contain_text("Approved by")
            nobody = await stranger.new_page()
            await nobody.goto(link)  # the token of the page that has ended
            await expect(nobody.get_by_role("heading", level=1)).to_have_text("Sign in")
            kept = desk.workshop / ".llm-do" / "page.json"
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
            kept.write_text(json.dumps(json.loads(kept.read_text()) | {"key": "n" * 64}))
            page, _ = restarted(desk, page, signal.SIGTERM)
            await ada.goto(place)
            await expect(ada.get_by_role("heading", level=1)).to_have_text("Sign in")  # all sessions have ended
            await browser.close()


expect.set_options(timeout=PATIENCE_SECONDS * 1000)
WORD = "w" * 200
HEBREW = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"
SIZES = [(390, 844), (360, 640)]
LEAST_FINGER_PIXELS = 36

GLUED = """
root => {
  const found = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let before = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || node.parentElement.closest('.sr, pre, [hidden]')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter(box => box.width > 0);
    if (!boxes.length) continue;
    if (before && before.parent !== node.parentElement && !/[\\s(.,:;"'\u2039\u201c]$/.test(before.text)
        && !/^[\\s).,:;"'\u201d\u2026]/.test(node.data)) {
      const one = before.last, other = boxes[0];
      const line = one.top < other.bottom - 2 && other.top < one.bottom - 2;
      if (line && Math.abs(other.left - one.right) < 3) found.push(before.text + '|' + node.data);
    }
    before = {text: node.data, last: boxes[boxes.length - 1], parent: node.parentElement};
  }
  return found;
}
"""
"""Texts of two elements that touch each other, so that they read as one word."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def group(house: Office) -> str:
    """Key of a group of five questions with three contents, among other ones."""
    texts = ["buy bread"] * 3 + ["sell the house " * 10, HEBREW]
    for number, text in enumerate(texts):
        await house.start(f"shop-{number}", [write(f"/shop/{number}.txt", text)])
    await house.asking("bread", [write(f"/{WORD}.md", WORD)], [write("/shop/again.md", "x")])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for found in (await read_groups(house.client)).groups:
                if found.title == "write_file *.txt in /shop" and len(found.entries) == len(texts):
                    return found.key
            await asyncio.sleep(0.05)


async def phone(office: Office, size: tuple[int, int], **more: Any) -> Page:
    viewport = {"width": size[0], "height": size[1]}
    return await office.person(viewport=viewport, has_touch=True, is_mobile=True, **more)


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_first_question_is_in_the_upper_part_of_the_inbox(
    office: Office, group: str, size: tuple[int, int]
) -> None:
    ada = await phone(office, size)
    await ada.goto(office.link)
    first = ada.locator(".card-title").first
    box = await first.bounding_box()
    assert box is not None
    assert box["y"] < size[1] * 0.4
    await expect(ada.get_by_label("Tool")).to_be_hidden()
    await ada.get_by_text("Filter", exact=True).first.click()
    await ada.get_by_label("Text").fill("again")
    await ada.get_by_role("button", name="Filter").click()
    await expect(ada.get_by_label("Text")).to_have_value("again")  # a filter that is in use is shown


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_no_page_is_wider_than_the_screen_and_no_two_texts_touch(
    office: Office, group: str, size: tuple[int, int], scheme: str
) -> None:
    ada = await phone(office, size, color_scheme=scheme)
    run = "/runs/bread"
    places = ["/", "/?view=each", "/?text=x", f"/groups/{group}", "/runs/shop-3/approvals", "/runs/shop-4/approvals/a1"]
    places += [run, f"{run}/approvals/a1", f"{run}/approvals/a1/edit", f"{run}/invocations/main", f"{run}/grants"]
    places += [f"{run}/cancel", "/runs", "/start", "/rules", "/schedules", "/evaluations", "/nothing", "/runs/none"]
    for place in places:
        await ada.goto(office.link + place)
        wide = await ada.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= wide[1] == size[0], place
        assert await ada.locator("body").evaluate(GLUED) == [], place


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_thumb_reaches_the_buttons_that_decide(office: Office, group: str, size: tuple[int, int]) -> None:
    ada = await phone(office, size)
    for place, names in (
        (f"/groups/{group}", ("Approve all 5 …", "Reject all 5 …")),
        ("/runs/bread/approvals/a1", ("Approve a1", "Reject…", "Edit…")),
    ):
        await ada.goto(office.link + place)
        for name in names:
            button = ada.get_by_role("button", name=name).or_(ada.get_by_role("link", name=name, exact=True)).first
            box = await button.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= LEAST_FINGER_PIXELS, name
            assert box["y"] > size[1] / 2, name
            assert box["y"] + box["height"] <= size[1], name
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= size[0], name


@pytest.mark.thorough
async def test_words_from_right_to_left_do_not_change_the_order_around_them(office: Office, group: str) -> None:
    """The id of a run is behind its task, and what is said of a request is behind its title."""
    prompt = json.dumps([[write(f"/{HEBREW * 9}.txt", HEBREW)]], ensure_ascii=False)
    await office.client.start(StartRunInput(worker="clerk", prompt=prompt), run="2026")
    await office.asks("2026", "a1")
    await office.listed("2026", 1)
    ada = await office.person(viewport={"width": 1280, "height": 800})
    await ada.goto(f"{office.link}/?run=2026")
    card = ada.locator(".card")
    task, run = await card.locator("q").bounding_box(), await card.get_by_role("link", name="2026").bounding_box()
    assert task is not None
    assert run is not None
    assert task["y"] < run["y"] + run["height"]
    assert run["y"] < task["y"] + task["height"]
    assert task["x"] + task["width"] <= run["x"]
