"""A hundred thousand runs that have ended, in the server's list: how long the list takes, its later pages, its filters.

Some hundred runs are real. Their rows in the table of visibility are multiplied by one statement, with ids of their own
and earlier times, and with the memo and the search attributes of the real ones. The copies have no history, as a run
has none whose history was removed a moment before its row.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from benchmarks.contenders.plans import Plan
from benchmarks.processes import NotMeasured
from benchmarks.runner import all_at_once
from benchmarks.scale.doors import Browser, called, commanded
from benchmarks.scale.figures import Figures
from benchmarks.scale.site import Site
from llm_do_temporal.client.views.run_list import list_runs
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.run_filter import RunFilter

REAL = 300
CANCELLED = 20
DEEP = 40
"""Number of a later page."""
_TABLE = "executions_visibility"
_COPIED = "-copy-"
_CLOSED = "ExecutionStatus != 'Running'"


async def measure_ended(site: Site, runs: int) -> Figures:
    """End some runs, make so many of them, and look at the list."""
    real = min(REAL, runs)
    await _end(site, real)
    figures = Figures("ended runs in the list", [f"{real:,}", f"{runs:,}"])
    await _look(site, figures, f"{real:,}")
    await asyncio.to_thread(_multiply, site, runs)
    if (found := await site.count(_CLOSED)) < runs:
        raise NotMeasured(f"the server counts {found} ended runs, and {runs} were to be there")
    await _look(site, figures, f"{runs:,}")
    return figures


async def _end(site: Site, runs: int) -> None:
    """Run so many to their end: one turn and a tool each; some are cancelled as soon as they were started."""

    async def run(number: int) -> None:
        plan = Plan(job=f"ended-{number}", tool="guarded" if number < CANCELLED else "lookup")
        worker = "asker" if number < CANCELLED else "agent"
        await site.client.start(StartRunInput(worker=worker, prompt=plan.prompt()), run=plan.job)
        if number < CANCELLED:
            await site.client.cancel(plan.job)

    await all_at_once([partial(run, number) for number in range(runs)])
    await site.await_count(f"{_CLOSED} AND WorkflowId STARTS_WITH 'ended-'", runs)


def _multiply(site: Site, runs: int) -> None:
    """Copy the rows of the runs that have ended until there are so many, each copy a minute earlier than the last."""
    columns = site.sql(
        f"SELECT string_agg(quote_ident(column_name), ',') FROM information_schema.columns "
        f"WHERE table_name = '{_TABLE}' AND is_generated = 'NEVER'"
    ).split(",")
    ended = f"close_time IS NOT NULL AND workflow_id LIKE 'ended-%' AND workflow_id NOT LIKE '%{_COPIED}%'"
    real = int(site.sql(f"SELECT count(*) FROM {_TABLE} WHERE {ended}"))
    if not real:
        raise NotMeasured("the database lists no run that has ended")
    shifted = {name: f"{name} - copy * interval '1 minute'" for name in ("start_time", "execution_time", "close_time")}
    changed = {
        **shifted,
        "run_id": "gen_random_uuid()::text",
        "workflow_id": f"workflow_id || '{_COPIED}' || copy",
        "root_workflow_id": f"root_workflow_id || '{_COPIED}' || copy",
    }
    values = ", ".join(changed.get(name, name) for name in columns)
    copies = (runs + real - 1) // real
    site.sql(
        f"INSERT INTO {_TABLE} ({', '.join(columns)}) "
        f"SELECT {values} FROM {_TABLE}, generate_series(1, {copies}) AS copy WHERE {ended} LIMIT {runs - real}"
    )
    site.sql(f"VACUUM ANALYZE {_TABLE}")


async def _look(site: Site, figures: Figures, column: str) -> None:
    client = site.client.temporal
    figures.note(column, "`llm-do-temporal list`", await commanded(site, "list"), "ms")
    figures.note(column, "list in one process (`client.runs`, 50 runs)", await called(site.client.runs), "ms")
    filters: dict[str, dict[str, Any]] = {
        "no filter": {},
        "`completed`": {"state": "completed"},
        "`cancelled`": {"state": "cancelled"},
        "`failed`, of which there is none": {"state": "failed"},
        "one worker": {"worker": "asker"},
        "one worker and `completed`": {"worker": "agent", "state": "completed"},
        "how the id begins": {"begins": "ended-7"},
        "a word in the task or the id, which none has": {"text": "no run has this"},
        "who started it, which nobody has": {"who": "nobody"},
    }
    for what, wanted in filters.items():
        took = await called(partial(list_runs, client, RunFilter(**wanted)))
        figures.note(column, f"list of 25, {what}", took, "ms")
    browser = Browser(site)
    address: str | None = "/runs"
    for number in range(1, DEEP + 1):
        if address is None:
            break
        if number in (1, 2, DEEP):
            opened = await asyncio.to_thread(browser.open, address)
            figures.note(column, f"page {number} of the list over HTTP", opened.median, "ms")
            figures.note(column, f"page {number} of the list over HTTP, the first time", opened.first, "ms")
        address = browser.find(address, 'class="button" href="/runs?')
        address = None if address is None else f"/runs?{address}"
    opened = await asyncio.to_thread(browser.open, "/runs?state=cancelled&worker=asker")
    figures.note(column, "the list over HTTP, one worker and `cancelled`", opened.median, "ms")
    opened = await asyncio.to_thread(browser.open, "/")
    figures.note(column, "the inbox over HTTP", opened.median, "ms")
    browser.close()
