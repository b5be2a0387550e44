"""The page of runs, and that of charts, over a server's list that is kept in memory."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llm_do_temporal.client.views import run_list
from llm_do_temporal.client.views.tree import Accounts, Branch, Spent
from llm_do_temporal.messages.budget import Usage, Waits
from llm_do_temporal.messages.runs import ItemCounts, RunMemo
from tests.support.people.browser import Browser
from tests.support.people.signed_in import browser_with
from tests.support.runs.run_server import RunServer

NOW = datetime.now(UTC)
SCRIPT = "<script>alert(1)</script>"


class Ends(Accounts):
    """Accounts in which every run has cost a quarter, but for those of `offline`."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))

    async def read_one(self, branch: Branch, *, whole: bool = False) -> Spent:
        """See Accounts."""
        cost = Decimal(0) if branch.worker == "offline" else Decimal("0.25")
        usage = Usage(requests=2, input_tokens=100, cost_usd=cost, costs={"m:x": cost} if cost else {})
        return Spent(total=usage, waited=Waits(questions=2, seconds=600, longest=500))


@pytest.fixture
async def server() -> RunServer:
    """An open run, a batch that failed in part, and a run of a script."""
    server = RunServer()
    await server.put("open-1", "Running", RunMemo(worker="clerk", task=SCRIPT, started_by="ada"), began=NOW)
    counts = ItemCounts(total=4, completed=3, failed=1)
    batch = RunMemo(worker="clerk", task="Sort the mail", started_by="bob", items=counts)
    await server.put("batch-1", "Completed", batch, began=NOW, ended=NOW)
    await server.put("free-1", "Completed", RunMemo(worker="offline"), began=NOW, ended=NOW)
    return server


def monday_of(moment: datetime) -> str:
    """The first day of its week."""
    return str(moment.date() - timedelta(days=moment.weekday()))


async def browser_of(server: RunServer, workshop: Path | None = None) -> Browser:
    return await browser_with(SimpleNamespace(temporal=server), folder=workshop, state={"accounts": Ends()})


async def test_runs_are_named_by_their_tasks_and_tell_what_became_of_their_items(server: RunServer) -> None:
    page = await (await browser_of(server)).open("/runs")
    titles = re.findall(r'class="card-title" href="([^"]+)">([^<]*)', page.html)
    assert [address for address, _ in titles] == ["/runs/open-1", "/runs/batch-1", "/runs/free-1"]
    assert [title for _, title in titles] == ["&lt;script&gt;alert(1)&lt;/script&gt;", "Sort the mail", "free-1"]
    assert "completed, 1 of 4 failed" in page.text
    assert "$0.2500" in page.text
    assert "free" in page.text
    assert "batch-1" in page.text


async def test_a_filter_is_an_address_and_its_view_a_tab(server: RunServer, tmp_path: Path) -> None:
    views = "views: {mail of bob: {text: mail, who: bob}, '<b>': {state: failed}}\n"
    (tmp_path / "workshop.yaml").write_text(views)
    browser = await browser_of(server, tmp_path)
    page = await browser.open("/runs?who=bob&text=MAIL")
    assert "Sort the mail" in page.text
    assert "free-1" not in page.text
    assert '<a href="/runs?who=bob&amp;text=mail">mail of bob</a>' in page.html
    assert "&lt;b&gt;" in page.html
    here = await browser.open("/runs?who=bob&text=mail")
    assert '<a href="/runs?who=bob&amp;text=mail" aria-current="page">mail of bob</a>' in here.html
    wrong = await browser.open("/runs?state=lost")
    assert (wrong.status, "This filter cannot be used" in wrong.text) == (422, True)
    assert "No run is like that" in (await browser.open("/runs?text=nothing")).text


async def test_a_search_that_has_found_nothing_goes_on_and_tells_how_far_it_is(
    server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list, "MOST_LOOKED_AT", 100)
    for number in range(150):
        await server.put(f"mail-{number}", "Completed", RunMemo(worker="clerk"), began=NOW, ended=NOW)
    browser = await browser_of(server)
    page = await browser.open("/runs?text=nothing")
    assert "None of the 100 runs that were looked at so far is like that" in page.text
    (goes_on,) = re.findall(r'<div id="found" hx-get="([^"]+)" hx-select="#found" hx-trigger="load', page.html)
    (link,) = re.findall(r'<a class="button" href="([^"]+)">Look further</a>', page.html)
    assert link == goes_on
    last = await browser.open(unescape(link))
    assert "No run is like that" in last.text
    assert "hx-trigger" not in last.html.partition('id="found"')[2].partition(">")[0]
    # Once something was found, people go on when they want to.
    found = await browser.open("/runs?text=script")
    assert "100 runs were looked at; there are older ones" in found.text
    assert "hx-trigger" not in found.html.partition('id="found"')[2].partition(">")[0]


async def test_a_workshop_file_that_is_broken_hides_no_runs(server: RunServer, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("views: {mine: {state: lost}\n")
    assert "Sort the mail" in (await (await browser_of(server, tmp_path)).open("/runs")).text


@pytest.mark.extension("charts")
async def test_charts_have_their_numbers_as_tables(server: RunServer) -> None:
    await server.put("bad-1", "Failed", RunMemo(worker=SCRIPT), began=NOW, ended=NOW)
    old = NOW - timedelta(days=14)
    await server.put("old-1", "Canceled", RunMemo(worker="clerk"), began=old, ended=old)
    page = await (await browser_of(server)).open("/charts")
    assert page.status == 200
    found = re.findall(r'<tr><th scope="row">([\d-]+)</th><td>(\d+)</td><td>(\d+)</td><td>(\d+)</td></tr>', page.html)
    rows = {week: tuple(numbers) for week, *numbers in found}
    # By name: another week may have begun since.
    assert rows[monday_of(NOW)] == ("2", "1", "0")
    assert rows[monday_of(old)] == ("0", "0", "1")
    assert "<td>$0.5000</td>" in page.html
    assert "<td>6</td><td>5 min</td><td>8 min</td>" in page.html
    assert 'href="/runs?worker=clerk">clerk</a>' in page.html
    assert SCRIPT not in page.html
    assert "more are being read" not in page.text
