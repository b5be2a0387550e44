"""A page of another origin, in a real browser that is told every port, tries to start and to approve runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Route, async_playwright
from starlette import routing
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.ui.access import TokenAccess
from llm_do_temporal.ui.http_server import own_hosts
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings
from llm_do_temporal.ui.temporal_ui import TemporalUi
from tests.support.patience import PATIENCE_SECONDS
from tests.support.people.chromium import launch
from tests.support.servers.embedded import HELD, Embedded, approving, embedded, starting
from tests.support.servers.sockets import serving

ATTACKER, REBOUND = "attacker.test", "rebound.test"
"""Names that mean this machine to the browser: of the page itself, and one that is made to mean what it attacks."""
_TRY_SECONDS = 3
"""Frames of what is no page never say that they are there."""
TOKEN = "a" * 24


@dataclass
class Stage:
    """What there is to attack, and the browser of somebody who is signed in to the page."""

    running: Embedded
    browser: BrowserContext
    attacker: int
    targets: tuple[str, ...]
    """Addresses of all that listens."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A server with its UI shown, the page, and a page of an attacker."""

    async def evil(request: Request) -> Response:
        return HTMLResponse("<!doctype html><title>Kittens</title>")

    async with embedded(tmp_path_factory.mktemp("attacked")) as running, async_playwright() as playwright:
        shown = TemporalUi(0)
        showing = asyncio.create_task(shown.serve(running.hidden_ui))
        client = LlmDoClient(running.client)
        hosts: list[str] = []
        page_app = build_app(UiSettings(TokenAccess({"ada": TOKEN}), cast("tuple[str, ...]", hosts)), client)
        async with (
            serving(Starlette(routes=[routing.Route("/{path:path}", evil)])) as attacker,
            serving(page_app) as page,
        ):
            hosts += own_hosts("127.0.0.1", page)
            means_us = f"--host-resolver-rules=MAP {ATTACKER} 127.0.0.1, MAP {REBOUND} 127.0.0.1"
            chromium = await launch(playwright, means_us)
            browser = await chromium.new_context()
            browser.set_default_timeout(PATIENCE_SECONDS * 1000)
            signed_in = await browser.new_page()
            await signed_in.goto(f"http://127.0.0.1:{page}/?token={TOKEN}")
            await signed_in.goto(f"{shown.address}/namespaces/default/workflows")
            targets = [f"http://{host}:{port}" for host, port in running.places]
            yield Stage(running, browser, attacker, (*targets, shown.address, f"http://127.0.0.1:{page}"))
            await chromium.close()
        shown.stop()
        await showing


WAYS = {
    "fetch as text": "fetch(url, {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}, body})",
    "fetch with cookies": "fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', body})",
    "fetch as JSON": "fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body})",
    "fetch with a token": "fetch(url, {method: 'POST', headers: {'X-CSRF-Token': 'x'}, credentials: 'include', body})",
    "fetch of bytes": "fetch(url, {method: 'POST', mode: 'no-cors', body: new TextEncoder().encode(body)})",
    "fetch by PUT": "fetch(url, {method: 'PUT', body})",
    "a beacon": "Promise.resolve(navigator.sendBeacon(url, body))",
    "an old request": """new Promise(done => {
        const old = new XMLHttpRequest(); old.open('POST', url); old.onloadend = done; old.send(body) })""",
    "a form as text": """new Promise(done => {
        const frame = document.body.appendChild(document.createElement('iframe')); frame.name = 'f' + Math.random();
        const form = document.body.appendChild(document.createElement('form'));
        Object.assign(form, {action: url, method: 'POST', enctype: 'text/plain', target: frame.name});
        const field = form.appendChild(document.createElement('input'));
        field.name = body.slice(0, -1) + ',"x":"'; field.value = '"}'; frame.onload = done; form.submit() })""",
    "a form": """new Promise(done => {
        const frame = document.body.appendChild(document.createElement('iframe')); frame.name = 'f' + Math.random();
        const form = document.body.appendChild(document.createElement('form'));
        Object.assign(form, {action: url, method: 'POST', target: frame.name});
        const field = form.appendChild(document.createElement('input'));
        field.name = 'decision'; field.value = 'approve'; frame.onload = done; form.submit() })""",
    "an image": "new Promise(done => { const it = new Image(); it.onload = it.onerror = done; it.src = url })",
    "a script": """new Promise(done => { const it = document.createElement('script');
        it.onload = it.onerror = done; it.src = url; document.head.append(it) })""",
    "a frame": """new Promise(done => { const it = document.createElement('iframe');
        it.onload = done; it.src = url; document.body.append(it) })""",
    "a websocket": """new Promise(done => { const it = new WebSocket(url.replace('http', 'ws'));
        it.onopen = () => it.send(body); it.onclose = it.onmessage = done })""",
    "an event source": "new Promise(done => { const it = new EventSource(url); it.onopen = it.onerror = done })",
}
_TRY_ALL = """async ([targets, path, body, seconds]) => {{
    const tried = targets.map(target => {{ const url = target + path; return {way} }});
    const all = Promise.allSettled(tried);
    await Promise.race([all, new Promise(done => setTimeout(done, seconds * 1000))]);
}}"""
WHAT = {"start": starting("started-by-a-page"), "approve": approving()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("way", WAYS)
async def test_a_page_of_another_origin_starts_and_approves_nothing(stage: Stage, way: str, what: str) -> None:
    path, body = WHAT[what]
    page = await stage.browser.new_page()
    await page.goto(f"http://{ATTACKER}:{stage.attacker}/")
    await page.evaluate(_TRY_ALL.format(way=WAYS[way]), [stage.targets, path, body.decode(), _TRY_SECONDS])
    await page.close()
    assert await stage.running.what_happened() == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("way", ["fetch as text", "fetch as JSON", "fetch with a token", "a form as text"])
async def test_a_name_that_is_made_to_mean_this_machine_starts_and_approves_nothing(
    stage: Stage, way: str, what: str
) -> None:
    path, body = WHAT[what]

    async def attack(port: str) -> None:
        # The page and what it attacks are one origin to the browser now.
        own = f"http://{REBOUND}:{port}"
        page = await stage.browser.new_page()
        await page.route(f"{own}/kittens", _kittens)
        await page.goto(f"{own}/kittens")
        await page.evaluate(_TRY_ALL.format(way=WAYS[way]), [[own], path, body.decode(), _TRY_SECONDS])
        await page.close()

    places = [target.removeprefix("http://").split(":") for target in stage.targets]
    # Nobody can guess the other address, which is the one of the UI itself.
    await asyncio.gather(*(attack(port) for host, port in places if host == "127.0.0.1"))
    assert await stage.running.what_happened() == []


async def _kittens(route: Route) -> None:
    await route.fulfill(body="<!doctype html>", content_type="text/html")


@pytest.mark.control
async def test_a_person_sees_what_runs_in_the_ui(stage: Stage) -> None:
    # The server lists a workflow a moment after it was started, and the page may not look again.
    while HELD not in [one.id async for one in stage.running.client.list_workflows()]:
        pass
    page = await stage.browser.new_page()
    await page.goto(f"{stage.targets[-2]}/namespaces/default/workflows")
    await page.get_by_text(HELD).first.wait_for()
    await page.close()
