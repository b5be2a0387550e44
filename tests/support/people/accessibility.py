"""Pages held against axe, in light on a wide screen and in dark on a phone."""

from __future__ import annotations

from typing import Any, cast

from axe_playwright_python.async_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.async_api import Page

_WIDTHS = {1280: "light", 390: "dark"}


async def assert_accessible(page: Page) -> None:
    """Fail where axe finds anything on the page as it is now, or where the page is wider than the window."""
    for width, scheme in _WIDTHS.items():
        await page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        await page.set_viewport_size({"width": width, "height": 844})
        found = cast("dict[str, Any]", (await Axe().run(page, options={"resultTypes": ["violations"]})).response)
        problems = [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]
        assert not problems, f"{page.url}, {width} wide, {scheme}: {problems}"
        wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide, f"{page.url} is wider than the window, {width} wide"
