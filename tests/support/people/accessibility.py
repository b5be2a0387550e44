"""Pages held against axe: in light on a wide screen, and in dark on a phone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page

WIDE_PIXELS, PHONE_PIXELS = 1280, 390


async def assert_accessible(page: Page, widths: Iterable[int] = (WIDE_PIXELS, PHONE_PIXELS)) -> None:
    """Fail where axe finds anything on the page as it is now, or where the page is wider than the window."""
    await page.evaluate(Axe().axe_script)
    for width in widths:
        await page.emulate_media(color_scheme="light" if width == WIDE_PIXELS else "dark")
        await page.set_viewport_size({"width": width, "height": 844})
        found: list[dict[str, Any]] = await page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)"
        )
        problems = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
        assert not problems, f"{page.url}, {width} wide: {problems}"
        wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide, f"{page.url} is wider than the window, {width} wide"
