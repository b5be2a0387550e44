"""`python -m benchmarks.approver`: a morning of somebody who approves, as a trial of the page and of the terminal.

Starts a workshop of its own with a scripted model and three runs, which ask forty questions one after the other; three
of them are to be rejected and two to be changed. Prints what the person has to know, the link to the page, and the
command for a terminal. Once all is decided, or with Ctrl-C, it tells how many were answered rightly and how long that
took. The clock begins when the file that it names is made, else when the questions are there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import async_playwright

from benchmarks.approver.person import Person
from benchmarks.approver.scene import Scene, begin, dev_in, model, write_workshop
from benchmarks.approver.score import Score, read_score
from benchmarks.approver.stories import BRIEF
from benchmarks.processes import NotMeasured
from benchmarks.runner import end_politely
from llm_do_temporal.errors import LlmDoError
from tests.support.people.chromium import launch

_POLL_SECONDS = 1.0
_PAGE_SECONDS = 120
"""Longest time for one page; on an idle machine it is a tenth of a second."""


def main() -> int:
    """Serve the morning; 0 where all was answered rightly."""
    chosen = _parser().parse_args()
    end_politely()
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="approver-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made)) if chosen.folder is None else chosen.folder
        workshop = folder / "workshop"
        if workshop.exists():
            print(f"'{workshop}' is there already; name another folder", file=sys.stderr)
            return 2
        try:
            write_workshop(workshop, stack.enter_context(model()))
            link = stack.enter_context(dev_in(workshop))
            return asyncio.run(_serve(workshop, link, chosen))
        except (NotMeasured, LlmDoError) as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1


async def _serve(workshop: Path, link: str, chosen: argparse.Namespace) -> int:
    scene = await begin(workshop, link)
    clock = workshop.parent / "begun"
    ready = datetime.now(UTC)
    if chosen.browser:
        print(await _answer_in_browser(scene, chosen.browser, chosen.pictures), flush=True)
    else:
        print(f"{BRIEF}\n\npage          {link}")
        print(f"terminal      llm-do-temporal approvals watch --workshop {workshop}")
        print(f"clock         touch {clock}", flush=True)
    score = await read_score(scene.client, scene.stories)
    try:
        while score.decided < score.calls:
            await asyncio.sleep(_POLL_SECONDS)
            score = await read_score(scene.client, scene.stories)
    finally:
        print(told(score, _begun(clock) or ready), flush=True)
    return 1 if score.misses else 0


async def _answer_in_browser(scene: Scene, size: str, pictures: Path | None) -> str:
    """Let the script answer everything in a window of this size; return its counts in words."""
    width, height = map(int, size.split("x"))
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        page = await browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(_PAGE_SECONDS * 1000)
        await page.goto(scene.link)
        person = Person(page, pictures)
        seconds = await person.answer_all(sum(len(story.wishes) for story in scene.stories))
        await browser.close()
    counts = ", ".join(f"{count} {name}" for name, count in person.counts.items())
    unread = "".join(f"\n  not all of it could be read: {one}" for one in person.unread)
    parts = f"{person.spent:.1f} s to read, press and type, {person.waited:.1f} s to wait for pages"
    return f"{size}: {seconds:.1f} s: {parts}; {counts}{unread}"


def told(score: Score, begun: datetime) -> str:
    """Return the score in words."""
    lines = [f"\n{score.right}/{score.calls} right"]
    if score.times:
        seconds = (score.times[-1] - begun).total_seconds()
        lines[0] += f", {seconds:.1f} s from the beginning to the last decision"
    return "\n".join([*lines, *(f"  {miss}" for miss in score.misses)])


def _begun(clock: Path) -> datetime | None:
    return datetime.fromtimestamp(clock.stat().st_mtime, UTC) if clock.exists() else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.approver", description="A morning of approvals.")
    parser.add_argument("--folder", type=Path, help="folder that is made and kept; else a temporary one")
    parser.add_argument("--browser", nargs="?", const="1280x800", help="size of the window in which a script answers")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each screen that the script reads")
    return parser


if __name__ == "__main__":
    sys.exit(main())
