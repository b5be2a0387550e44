"""The question that comes after one: of the same filter of the inbox, for the person who decides, oldest first.

An address of a question carries the filter, the number of answers so far, and the question that was answered last.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import FrozenQuestion, LlmDoClient, Question
from llm_do_temporal.client.views.inbox import InboxContents, InboxEntry
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.redaction.hidden_characters import made_visible
from llm_do_temporal.ui.content.last_answer import ANSWERED_LAST
from llm_do_temporal.ui.content.tally import TALLY, with_asked_again, with_one_less, with_one_more
from llm_do_temporal.ui.content.titles import entry_title
from llm_do_temporal.ui.content.urls import approval_address
from llm_do_temporal.ui.pages.inbox import FILTERS, passes, wanted_of

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
    contents, entries = await _read(request)
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


async def after_decision(request: Request, question: Question, kind: DecisionKind) -> str:
    """Return the address to go to once this person has answered: the next question, or else the inbox."""
    tally = _with_asked_again(request, question)
    remember_answer(request, question, kind)
    _, entries = await _read(request)
    earlier, later = _around(entries, question)
    told = {TALLY: with_one_more(tally, kind)}
    told[ANSWERED_LAST] = f"{question.run}/{question.id}"
    # Behind the youngest comes the oldest one, which was passed over.
    for entry in [*later, *earlier][:_MOST_TRIED]:
        if await _still_waits(request, entry):
            return address_in_queue(request, entry.run, entry.id, **told)
    return inbox_address(request, **told)


async def address_after(request: Request, question: Question, kind: DecisionKind, *, taken: bool) -> str:
    """Return the address to go to after a decision; `taken` is False until a worker service has it.

    Until then it is the question's own, which says so; also without scripts, since a second click would meet the next
    question else.
    """
    if taken and ONWARD in request.state.form:
        return await after_decision(request, question, kind)
    return address_in_queue(request, question.run, question.id, **({} if taken else {"sent": "yes"}))


async def first_waiting(request: Request) -> str | None:
    """Return the address of the oldest question that waits for this person; None where none does."""
    _, entries = await _read(request)
    return address_in_queue(request, entries[0].run, entries[0].id) if entries else None


def address_in_queue(request: Request, run: str, approval: str, **told: str) -> str:
    """Return the address of a question that keeps the filter, and the answers so far, of the request's own address."""
    return approval_address(run, approval) + kept_query(request, **told)


def kept_query(request: Request, **told: str) -> str:
    """Return the end of an address, `?` included, with the filter and the answers so far; empty without any."""
    kept = {name: request.query_params[name] for name in (*FILTERS, GROUP, TALLY) if request.query_params.get(name)}
    query = urlencode(kept | told)
    return f"?{query}" if query else ""


def address_again(request: Request, question: Question, kind: DecisionKind) -> str:
    """Return the address of a question whose decision of this kind was taken back: it waits for this person again."""
    forget_answer(request, question)
    tally = request.query_params.get(TALLY, "")
    told = {TALLY: with_one_less(tally, kind)} if tally else {}
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
    _, entries = await _read(request)
    newest = entries[-1] if entries else None
    told = None
    if newest is not None:
        told = {
            "address": approval_address(newest.run, newest.id),
            "summary": made_visible(entry_title(newest), keep=""),
            "asked": newest.asked_at.isoformat(),
        }
    return JSONResponse({"waiting": len(entries), "newest": told})


async def _read(request: Request) -> tuple[InboxContents, list[InboxEntry]]:
    """Return the inbox, and of it the questions in the queue, oldest first."""
    client: LlmDoClient = request.app.state.client
    wanted = wanted_of(request.query_params)
    contents, group = await client.inbox(wanted["run"] or None), request.query_params.get(GROUP, "")
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
    client: LlmDoClient = request.app.state.client
    try:
        questions = await client.questions(entry.run)
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


routes = [Route("/waiting", tell_waiting)]
