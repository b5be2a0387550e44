"""A link that a person was sent goes on working when the page is started again: real processes, a real browser."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from llm_do_temporal.client import Connection, LlmDoClient, connect
from llm_do_temporal.environment import UNDO_VARIABLE
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.ui.access import KeptPage
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.chromium import launch
from tests.support.people.desk import Desk, desk_in
from tests.support.people.office import link_of
from tests.support.ports import unused_port
from tests.support.servers.temporal import temporal_server

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
