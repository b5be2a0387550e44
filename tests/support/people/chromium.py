"""A real browser without a window."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.async_api import Browser, Error, Playwright

from tests.support.patience import PATIENCE_SECONDS

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


async def launch(playwright: Playwright, *flags: str) -> Browser:
    """The system's Chromium, else Playwright's own, with these flags too. In CI there has to be one."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    try:
        return await playwright.chromium.launch(
            executable_path=path, args=[*_FLAGS, *flags], timeout=PATIENCE_SECONDS * 1000
        )
    except Error as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NO BROWSER, the page is not tested: install Chromium (`make browser`). {error.message[:200]}")
