"""People who have signed in to the page, and pages that show a moment later what is new."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from starlette.applications import Starlette

from llm_do_temporal.ui.access import TokenAccess
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings
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
    return await browser_with(place.client, user, folder, embedded=embedded, undo_seconds=undo_seconds)


async def browser_with(
    client: object, user: str = "ada", folder: Path | None = None, *, state: dict[str, Any] | None = None, **more: Any
) -> Browser:
    """Return a browser in which `user` has signed in, at this page, or at one over a client or a stand-in for one.

    `state` is what visitors share already, `more` are settings.
    """
    settings = UiSettings(TokenAccess(TOKENS), ("127.0.0.1:8234",), folder, **more)
    app = client if isinstance(client, Starlette) else build_app(settings, cast("Any", client))
    for name, value in (state or {}).items():
        setattr(app.state, name, value)
    opened = Browser(app, BASE)
    answer = await opened.client.get(f"/sign-in?token={TOKENS[user]}", follow_redirects=False)
    assert answer.status_code == 303
    return opened


async def page_with(browser: Browser, address: str, *wanted: str) -> Page:
    """Return a page once all `wanted` texts stand on it: the server lists changed workflows a moment late."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await browser.open(address)
            if all(text in page.text for text in wanted):
                return page
            await asyncio.sleep(0.05)
