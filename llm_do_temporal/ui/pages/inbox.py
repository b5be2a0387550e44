"""The inbox, open questions of all runs, and the way from one question to the next. Needs no worker service.

The question that comes after one is of the same filter, for the person who decides, oldest first. An address of a
question carries the filter, the number of answers so far, and the question that was answered last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import FrozenQuestion, LlmDoClient, Question
from llm_do_temporal.client.open_questions import InboxContents, InboxEntry, alone, grouped
from llm_do_temporal.client.question_document import entry_title
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.redaction.hidden_characters import made_visible
from llm_do_temporal.ui.content.questions import (
    ANSWERED_LAST,
    TALLY,
    answered_last,
    decide,
    with_asked_again,
    with_one_less,
    with_one_more,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import approval_address
from llm_do_temporal.ui.requests import client_of, page_number, see_other

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
    wanted = wanted_of(request.query_params)
    contents = await _read(client_of(request), wanted["run"])
    entries = contents.entries
    found = [entry for entry in entries if passes(entry, wanted)]
    locked = [one for one in contents.locked if wanted["run"] in ("", one.run)]
    is_apart = request.query_params.get("view", "") == _APART
    groups = [alone(entry) for entry in found] if is_apart else grouped(found)
    last = max(ceil((len(groups) + len(locked)) / PAGE_CARDS), 1)
    number = min(page_number(request), last)
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
        workers=sorted({entry.worker for entry in entries}),
        runs=sorted({entry.run for entry in entries}),
        tools=sorted({entry.tool for entry in entries}),
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


GROUP = "group"
"""Field of an address with the key of a group of equal questions, to which the queue is narrowed."""
ONWARD = "onward"
"""Field of a form that is there where a script has put it: whoever decides goes on to the next question."""
MOST_REMEMBERED = 10_000
"""Answers that the page remembers of everybody together: the server lists an answered question a moment longer."""
_MOST_TRIED = 20


@dataclass(frozen=True)
class Queue:
    """Questions that wait for a person, as seen from one of them."""

    waiting: int
    """Number of questions, this one included where it waits."""
    is_exact: bool
    """Whether these are all; else there are more in runs that were not read."""
    position: int | None
    """Place of this question among them, from 1; None where it does not wait."""
    previous: str | None
    following: str | None
    """Addresses of the questions around it; None where there is none."""
    similar: int
    """Number of questions that are similar to this one and wait, this one included; 0 where that is not known."""
    inbox: str
    """Address of the inbox with the same filter."""


async def queue_of(request: Request, question: Question) -> Queue:
    """Return the queue around a question."""
    contents, entries = await _queued(request)
    before, after = _around(entries, question)
    position = len(before) + 1 if len(before) + len(after) < len(entries) else None
    return Queue(
        waiting=len(entries),
        is_exact=not contents.further,
        position=position,
        previous=address_in_queue(request, before[-1].run, before[-1].id) if before else None,
        following=address_in_queue(request, after[0].run, after[0].id) if after else None,
        similar=sum(_key(entry) == question.request.group.key for entry in entries),
        inbox=inbox_address(request),
    )


async def decided(request: Request, question: Question, decision: Decision) -> Response:
    """Send a decision, and lead on from it. Raises DecisionRefused.

    Until a worker service has it, that is to the question, which says so; also without scripts, since a second click
    would meet the next question else.
    """
    taken = await decide(request, question, decision)
    if taken and decision.decision is not None and ONWARD in request.state.form:
        return see_other(await _next_address(request, question, decision.decision))
    return see_other(address_in_queue(request, question.run, question.id, **({} if taken else {"sent": "yes"})))


async def _next_address(request: Request, question: Question, kind: DecisionKind) -> str:
    """Return the address to go to once this person has answered: the next question, or else the inbox."""
    tally = _with_asked_again(request, question)
    remember_answer(request, question, kind)
    _, entries = await _queued(request)
    earlier, later = _around(entries, question)
    told = {TALLY: with_one_more(tally, kind), ANSWERED_LAST: f"{question.run}/{question.id}"}
    # Behind the youngest comes the oldest one, which was passed over.
    for entry in [*later, *earlier][:_MOST_TRIED]:
        if await _still_waits(request, entry):
            return address_in_queue(request, entry.run, entry.id, **told)
    return inbox_address(request, **told)


async def first_waiting(request: Request) -> str | None:
    """Return the address of the oldest question that waits for this person; None where none does."""
    _, entries = await _queued(request)
    return address_in_queue(request, entries[0].run, entries[0].id) if entries else None


def address_in_queue(request: Request, run: str, approval: str, **told: str) -> str:
    """Return the address of a question that keeps the filter, and the answers so far, of the request's own address."""
    return approval_address(run, approval) + kept_query(request, **told)


def kept_query(request: Request, **told: str) -> str:
    """Return the end of an address, `?` included, with the filter and the answers so far; empty without any."""
    kept = {name: request.query_params[name] for name in (*FILTERS, GROUP, TALLY) if request.query_params.get(name)}
    query = urlencode(kept | told)
    return f"?{query}" if query else ""


def address_again(request: Request, question: Question) -> str:
    """Return the address of a question whose decision was taken back: it waits for this person again."""
    forget_answer(request, question)
    tally = request.query_params.get(TALLY, "")
    told = {TALLY: with_one_less(tally, question.held.decision)} if tally and question.held is not None else {}
    return address_in_queue(request, question.run, question.id, **told)


def inbox_address(request: Request, **told: str) -> str:
    """Return the address of the inbox with the filter of the request's own address."""
    query = urlencode(wanted_of(request.query_params, only_given=True) | told)
    return f"/?{query}" if query else "/"


def remember_answer(request: Request, question: Question | FrozenQuestion, kind: DecisionKind | None = None) -> None:
    """Remember that this person has answered; the oldest answers of everybody are forgotten.

    `kind` is that of an answer which the tally of an address counts.
    """
    answered: dict[tuple[str, str, str], DecisionKind | None] = request.app.state.answered
    answered[request.state.user, question.run, question.id] = kind
    while len(answered) > MOST_REMEMBERED:
        del answered[next(iter(answered))]


def forget_answer(request: Request, question: Question | FrozenQuestion) -> None:
    """Forget that this person has answered: the answer was taken back."""
    answered: dict[tuple[str, str, str], DecisionKind | None] = request.app.state.answered
    answered.pop((request.state.user, question.run, question.id), None)


def _with_asked_again(request: Request, question: Question) -> str:
    """Return the tally of the address; an answer in it after which the question asks again is counted as that."""
    tally = request.query_params.get(TALLY, "")
    answered: dict[tuple[str, str, str], DecisionKind | None] = request.app.state.answered
    before = (request.state.user, question.run, question.request.again)
    kind = answered.get(before)
    if kind is None:
        return tally
    answered[before] = None
    return with_asked_again(tally, kind)


async def tell_waiting(request: Request) -> Response:
    """Tell how many questions wait for this person, and which is the newest, for a page that is open."""
    _, entries = await _queued(request)
    newest = entries[-1] if entries else None
    told = None
    if newest is not None:
        told = {
            "address": approval_address(newest.run, newest.id),
            "summary": made_visible(entry_title(newest), keep=""),
            "asked": newest.asked_at.isoformat(),
        }
    return JSONResponse({"waiting": len(entries), "newest": told})


async def _queued(request: Request) -> tuple[InboxContents, list[InboxEntry]]:
    """Return the inbox, and of it the questions in the queue, oldest first."""
    wanted, group = wanted_of(request.query_params), request.query_params.get(GROUP, "")
    contents = await client_of(request).inbox(wanted["run"] or None)
    user, answered = request.state.user, request.app.state.answered
    entries = [
        entry
        for entry in contents.entries
        if passes(entry, wanted)
        and group in ("", _key(entry))
        and (not entry.approvers or user in entry.approvers)
        and (user, entry.run, entry.id) not in answered
    ]
    return contents, sorted(entries, key=_order)


async def _still_waits(request: Request, entry: InboxEntry) -> bool:
    """Whether a question of the list, which is a moment old, still waits for this person."""
    try:
        questions = await client_of(request).questions(entry.run)
    except LlmDoError:
        return False
    now = next((one for one in questions if one.id == entry.id), None)
    return now is not None and now.is_open and all(vote.by != request.state.user for vote in now.votes)


def _key(entry: InboxEntry) -> str:
    """Return the key of the group of a question; empty for a question without one."""
    return "" if entry.group is None else entry.group.key


def _around(entries: list[InboxEntry], question: Question) -> tuple[list[InboxEntry], list[InboxEntry]]:
    """Return the questions before and after this one, which need not be among them."""
    here = next((at for at, one in enumerate(entries) if (one.run, one.id) == (question.run, question.id)), None)
    if here is not None:
        return entries[:here], entries[here + 1 :]
    before = [entry for entry in entries if _is_before(entry, question)]
    return before, [entry for entry in entries if entry not in before]


def _is_before(entry: InboxEntry, question: Question) -> bool:
    """Whether a question of the list was asked before this one, which may have left the list."""
    if entry.run == question.run:
        # The list tells when the desk took a question, the history when it was written: ids are in one order in both.
        return (len(entry.id), entry.id) < (len(question.id), question.id)
    return entry.asked_at < question.asked_at


def _order(entry: InboxEntry) -> tuple[float, str, int, str]:
    return entry.asked_at.timestamp(), entry.run, len(entry.id), entry.id


routes = [
    Route("/", show_inbox),
    Route("/waiting", tell_waiting),
]
