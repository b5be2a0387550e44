"""The web page: how long a run of a thousand invocations, and a conversation of 2,000 turns, take to open."""

from __future__ import annotations

import time
from statistics import median

import httpx2

from benchmarks.contenders.ours import CONTEXT_TOKENS, Ours
from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import complete, run_alone
from benchmarks.stage import Stage, stage
from benchmarks.table import Row, Value, at_most
from llm_do_temporal.ui.access import TokenAccess
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings

HOST = "127.0.0.1:8234"
TOKEN = "t" * 24
TYPED = {"sec-fetch-site": "none"}
"""Header of an address that a person has typed: a link of another page would be asked about first."""
TIMES = 5
LIMIT_SECONDS = 2.0
STALL_SECONDS = 180
"""Hundreds of invocations that begin at once ask no model for long."""


async def measure(quick: bool) -> list[Row]:
    """Each page, asked for several times, the first time by a page that has seen nothing yet."""
    widths, turns = ((2, 3), 20) if quick else ((9, 10, 10), 2000)
    async with stage((Ours,)) as place:
        await complete(place, place.ours, "node", _tree(widths, "tree"), STALL_SECONDS)
        await complete(place, place.ours, "told", Plan(job="long", turns=turns, arguments={"size": 4096}))
        first, again = await _open(place, "/runs/tree")
        conversation, _ = await _open(place, "/runs/long/invocations/main")
        middle, _ = await _open(place, f"/runs/long/invocations/main?turn={turns // 2}")
    count = 1 + widths[0] * (1 + widths[1] * (1 + (widths[2] if len(widths) > 2 else 0)))
    return [
        _row(f"the page of a run of {count:,} invocations", first),
        _row("the same, opened again", again),
        _row(f"the page of a conversation of {turns:,} turns, told {CONTEXT_TOKENS:,} tokens of it", conversation),
        _row("the same, in the middle", middle),
    ]


async def _open(place: Stage, address: str) -> tuple[float, float]:
    """Seconds the first time, and the median of the others. Raises NotMeasured for an error in place of a page."""
    app = build_app(UiSettings(TokenAccess({"bench": TOKEN}), (HOST,)), place.ours.client)
    took: list[float] = []
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}", follow_redirects=True) as browser:
        await browser.get(f"/sign-in?token={TOKEN}", headers=TYPED)
        for _ in range(TIMES):
            began = time.monotonic()
            answer = await browser.get(address)
            took.append(time.monotonic() - began)
            if answer.status_code != 200:
                raise NotMeasured(f"{address} answers {answer.status_code}")
    return took[0], median(took[1:])


def _tree(widths: tuple[int, ...], job: str = "") -> Plan:
    if not widths:
        return Plan(job=job, turns=0)
    return Plan(job=job, tool="node", width=widths[0], child=_tree(widths[1:]))


def _row(what: str, seconds: Value) -> Row:
    return at_most(Row(what, {"ours": seconds}, "s"), limit=LIMIT_SECONDS)


if __name__ == "__main__":
    run_alone(measure)
