"""The page of the inbox: open questions of all runs. Needs no worker service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.client.open_questions import alone, grouped
from llm_do_temporal.client.views.inbox import InboxContents, InboxEntry
from llm_do_temporal.ui.content.last_answer import answered_last
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.tally import TALLY

FILTERS = ("worker", "run", "tool", "text")
PAGE_CARDS = 100
"""Groups on one page: thousands would keep a browser busy, which asks for the page again every four seconds."""
SHOWN_MEMBERS = 5
"""Questions of a group that stand in the inbox; its page has all of them."""
OPEN_MEMBERS = 3
"""Largest group that is not folded."""
_APART = "each"
"""Value of `view` with which every question stands for itself."""
MOST_CHOICES = 100
"""Values of a filter that are offered; with more of them a value is typed."""


async def show_inbox(request: Request) -> Response:
    """Show the open questions that the filters in the address let through, similar ones together, oldest first."""
    client: LlmDoClient = request.app.state.client
    wanted = wanted_of(request.query_params)
    contents = await _read(client, wanted["run"])
    entries = contents.entries
    found = [entry for entry in entries if passes(entry, wanted)]
    locked = [one for one in contents.locked if wanted["run"] in ("", one.run)]
    is_apart = request.query_params.get("view", "") == _APART
    groups = [alone(entry) for entry in found] if is_apart else grouped(found)
    last = max(ceil((len(groups) + len(locked)) / PAGE_CARDS), 1)
    number = min(_page_number(request.query_params.get("page", "")), last)
    first, end = (number - 1) * PAGE_CARDS, number * PAGE_CARDS
    given = wanted_of(request.query_params, only_given=True)
    kept = {**given, "view": _APART} if is_apart else given
    # The list refreshes itself again and again; what was answered before it stands above it.
    did = None if "hx-request" in request.headers else await answered_last(request, {})
    tally = request.query_params.get(TALLY, "")
    return render(
        request,
        "inbox.html",
        groups=groups[first:end],
        is_apart=is_apart,
        shown_members=SHOWN_MEMBERS,
        open_members=OPEN_MEMBERS,
        other_view=_address(given if is_apart else {**given, "view": _APART}, 1),
        locked=locked[max(first - len(groups), 0) : max(end - len(groups), 0)],
        did=did,
        query="?" + urlencode({**given, **({TALLY: tally} if tally else {})}),
        found=len(found),
        total=len(entries),
        further=contents.further,
        is_any_locked=bool(contents.locked),
        wanted=wanted,
        filter_query=f"?{urlencode(given)}" if given else "",
        workers=_names(entry.worker for entry in entries),
        runs=_names(entry.run for entry in entries),
        tools=_names(entry.tool for entry in entries),
        most_choices=MOST_CHOICES,
        before=_address(kept, number - 1) if number > 1 else None,
        following=_address(kept, number + 1) if number < last else None,
    )


async def _read(client: LlmDoClient, run: str) -> InboxContents:
    """Return the inbox, and what `run` asks where the inbox has not got to it; empty: no run in particular."""
    contents = await client.inbox()
    if not run or not contents.further or any(one.run == run for one in (*contents.entries, *contents.locked)):
        return contents
    single = await client.inbox(run)
    entries = sorted([*contents.entries, *single.entries], key=lambda one: one.asked_at)
    is_further = bool(single.entries or single.locked)
    return InboxContents(entries, [*contents.locked, *single.locked], contents.further - is_further)


def _page_number(text: str) -> int:
    """Return the number of the page that an address names, 1 where it names none."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else 1


def _address(given: dict[str, str], number: int) -> str:
    return f"/?{urlencode({**given, 'page': number})}"


def wanted_of(query: Mapping[str, str], *, only_given: bool = False) -> dict[str, str]:
    """Return the filter in an address; an empty text for what it lets through, or nothing if `only_given`."""
    wanted = {name: query.get(name, "").strip() for name in FILTERS}
    return {name: value for name, value in wanted.items() if value or not only_given}


def passes(entry: InboxEntry, wanted: dict[str, str]) -> bool:
    """Whether the filters `wanted` let an entry through; an empty filter lets every entry through."""
    exact = {"worker": entry.worker, "run": entry.run, "tool": entry.tool}
    if any(wanted[name] and wanted[name] != value for name, value in exact.items()):
        return False
    text = wanted["text"].casefold()
    parts = (entry.summary, entry.path, entry.task, *exact.values())
    return not text or any(text in part.casefold() for part in parts)


def _names(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


routes = [Route("/", show_inbox)]
