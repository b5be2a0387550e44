"""People who have signed in to the page, and pages that show a moment later what is new."""

from __future__ import annotations

import asyncio

from llm_do_temporal.ui.app import build_app
from llm_do_temporal.ui.security.settings import UiSettings
from llm_do_temporal.ui.security.users import TokenAccess
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.browser import Browser, Page
from tests.support.runs.place import Place

BASE = "http://127.0.0.1:8234"
TOKENS = {"ada": "a" * 20, "bob": "b" * 20, "carol": "c" * 20}
SCRIPT = "<script>alert(1)</script>"


async def signed_in_browser(
    place: Place, user: str = "ada", *, workshop: bool = True, embedded: bool = False, undo_seconds: int = 0
) -> Browser:
    """Return a browser in which `user` has signed in, at a page that holds decisions for so long."""
    folder = place.folder if workshop else None
    settings = UiSettings(
        TokenAccess(TOKENS), ("127.0.0.1:8234",), folder, embedded=embedded, undo_seconds=undo_seconds
    )
    opened = Browser(build_app(settings, place.client), BASE)
    assert (await opened.open(f"/sign-in?token={TOKENS[user]}")).status == 200
    return opened


async def page_with(browser: Browser, address: str, *wanted: str) -> Page:
    """Return a page once all `wanted` texts stand on it: the server lists changed workflows a moment late."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await browser.open(address)
            if all(text in page.text for text in wanted):
                return page
            await asyncio.sleep(0.05)
