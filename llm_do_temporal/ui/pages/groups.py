"""The pages to decide many questions at once: a table, one more look at what was chosen, and what became of it.

A selection is ids with the digests of what was shown. It travels in the forms, so that what is decided is what the
person saw, whatever has happened to the questions since. Decisions are held in memory, for each person those of their
own: what was decided stands in the histories of the runs, whatever becomes of this page.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import FrozenQuestion, InboxEntry, LlmDoClient, QuestionOutcome
from llm_do_temporal.client.decisions import Fate, counted
from llm_do_temporal.client.open_questions import QuestionGroup, grouped, read_group, read_run
from llm_do_temporal.messages.approvals import Decision, DecisionKind
from llm_do_temporal.ui.content.question_parts import read_tables
from llm_do_temporal.ui.content.questions import text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.pages.inbox import first_waiting, forget_answer, remember_answer
from llm_do_temporal.ui.requests import client_of, number_in, page_number, see_other, settings_of

MOST_KEPT = 100
"""Finished decisions whose outcomes are kept, the newest ones."""


@dataclass
class BulkDecision:
    """Decision about many questions, as far as it has come."""

    id: str
    by: str
    kind: DecisionKind | None
    questions: list[FrozenQuestion]
    outcomes: list[QuestionOutcome] = field(default_factory=list[QuestionOutcome])
    undone: dict[FrozenQuestion, QuestionOutcome] = field(default_factory=dict[FrozenQuestion, QuestionOutcome])
    """Answers about decisions that were to be taken back."""
    task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether every question has an outcome, or none will follow."""
        return self.task is None or self.task.done()

    @property
    def held(self) -> list[QuestionOutcome]:
        """Outcomes of decisions that were held, and that nobody wanted to take back."""
        return [one for one in self.outcomes if one.until is not None and one.question not in self.undone]

    def is_undone(self, question: FrozenQuestion) -> bool:
        """Whether the decision on this question was taken back."""
        return question in self.undone and self.undone[question].fate.counts

    async def undo(self, client: LlmDoClient) -> None:
        """Take all of it back that has not taken effect."""
        questions = [one.question for one in self.held]
        for outcome in await client.decide_many(questions, Decision(decision=None, by=self.by)):
            self.undone[outcome.question] = outcome


class BulkDecisions:
    """The decisions of one page, by id."""

    def __init__(self) -> None:
        self._known: dict[str, BulkDecision] = {}

    def begin(self, client: LlmDoClient, questions: Sequence[FrozenQuestion], decision: Decision) -> BulkDecision:
        """Begin to decide these questions, and return what becomes of it."""
        self._forget_old()
        bulk = BulkDecision(secrets.token_urlsafe(16), decision.by, decision.decision, list(questions))
        bulk.task = asyncio.create_task(_decide(client, bulk, decision))
        self._known[bulk.id] = bulk
        return bulk

    def find(self, bulk_id: str, by: str) -> BulkDecision | None:
        """Return a decision of this person; None where there is none, or it is no longer kept."""
        found = self._known.get(bulk_id)
        return found if found is not None and found.by == by else None

    def _forget_old(self) -> None:
        done = [bulk.id for bulk in self._known.values() if bulk.is_done]
        for old in done[: max(len(done) - MOST_KEPT + 1, 0)]:
            del self._known[old]


async def _decide(client: LlmDoClient, bulk: BulkDecision, decision: Decision) -> None:
    await client.decide_many(bulk.questions, decision, told=bulk.outcomes.append)


PAGE_ROWS = 200
"""Questions on one page of a table."""
_PATIENCE_SECONDS = 5.0
"""Time for which a browser is kept waiting before it is shown how far a decision has come."""
_REFRESH = {"Refresh": "1"}
_KINDS = {"approve": DecisionKind.APPROVE, "reject": DecisionKind.REJECT}
FATES = {
    Fate.TAKEN: "taken",
    Fate.AGREED: "counted as a vote; others must agree",
    Fate.SENT: "sent; no worker service has answered yet",
    Fate.LATE: "late: somebody was faster",
    Fate.CHANGED: "changed meanwhile, and not decided",
    Fate.GONE: "gone: nobody needs an answer any more",
    Fate.REFUSED: "refused",
    Fate.UNKNOWN: "unknown: the connection was lost",
}


class Scope(NamedTuple):
    """Questions that a page is about: those of a group, or of a run."""

    name: str
    """`group` or `run`."""
    value: str


async def show_group(request: Request) -> Response:
    """Show all questions of a group."""
    return await _table(request, Scope("group", request.path_params["group"]))


async def show_run(request: Request) -> Response:
    """Show all that a run asks."""
    return await _table(request, Scope("run", request.path_params["run"]))


async def review(request: Request) -> Response:
    """Show once more what was chosen, all of it, before it is decided."""
    form = request.state.form
    what, _, extent = text_of(form, "what").partition("-")
    if what not in _KINDS or extent not in ("", "all"):
        raise HTTPException(400, "A decision about many is `approve`, `reject`, `approve-all` or `reject-all`.")
    scope = _scope(request)
    chosen = None if extent else [_question(value) for value in form.getlist("question")]
    if chosen is not None and not chosen:
        return await _table(request, scope, status=422, problem="Tick the questions that are meant, or choose all.")
    return await _review(request, scope, chosen, what)


async def decide(request: Request) -> Response:
    """Decide all that was shown."""
    form = request.state.form
    kind, note = _KINDS.get(text_of(form, "decision")), text_of(form, "note").strip()
    questions = _selection(text_of(form, "selection"))
    if kind is None or not questions:
        raise HTTPException(400, "A decision names what is decided, and which questions it is about.")
    if kind is DecisionKind.REJECT and not note:
        problem = "Say why: the model is told the reason."
        return await _review(request, _scope(request), questions, kind.value, status=422, problem=problem)
    hold = settings_of(request).undo_seconds
    decision = Decision(decision=kind, note=note, by=request.state.user, hold=hold)
    known: BulkDecisions = request.app.state.bulk_decisions
    bulk = known.begin(client_of(request), questions, decision)
    if bulk.task is not None:
        await asyncio.wait({bulk.task}, timeout=_PATIENCE_SECONDS)
    return see_other(f"/outcomes/{bulk.id}")


async def undo(request: Request) -> Response:
    """Take back all of a decision that has not taken effect."""
    bulk = _bulk(request)
    await bulk.undo(client_of(request))
    for question in bulk.undone:
        if bulk.is_undone(question):
            forget_answer(request, question)
    return see_other(f"/outcomes/{bulk.id}")


def _bulk(request: Request) -> BulkDecision:
    """Return the decision that the address names. Raises HTTPException."""
    known: BulkDecisions = request.app.state.bulk_decisions
    bulk = known.find(request.path_params["bulk"], request.state.user)
    if bulk is None:
        raise HTTPException(404, "What became of it is no longer kept here.")
    return bulk


async def show_outcome(request: Request) -> Response:
    """Show what became of a decision, question by question."""
    bulk = _bulk(request)
    held = [one.until for one in bulk.held if one.until is not None]
    for outcome in bulk.outcomes:
        # The server lists it a moment longer.
        if outcome.fate not in (Fate.CHANGED, Fate.REFUSED, Fate.UNKNOWN) and not bulk.is_undone(outcome.question):
            remember_answer(request, outcome.question)
    return render(
        request,
        "outcome.html",
        headers=None if bulk.is_done else _REFRESH,
        bulk=bulk,
        outcomes=sorted(bulk.outcomes, key=lambda one: (one.fate.counts, list(Fate).index(one.fate))),
        counts=counted(bulk.outcomes),
        fates=FATES,
        left=len(bulk.questions) - len(bulk.outcomes),
        following=await first_waiting(request) if bulk.is_done else None,
        undo_until=max(held, default=None),
    )


async def _table(request: Request, scope: Scope, *, status: int = 200, problem: str = "") -> Response:
    groups, alone = await _read(request, scope)
    rows = sum(len(group.entries) for group in groups)
    last = max(ceil(rows / PAGE_ROWS), 1)
    number = min(page_number(request), last)
    return render(
        request,
        "groups.html",
        status=status,
        scope=scope,
        tables=await read_tables(client_of(request), _part(groups, number)),
        total=rows,
        runs=len({entry.run for group in groups for entry in group.entries}),
        first=(number - 1) * PAGE_ROWS + 1,
        end=min(number * PAGE_ROWS, rows),
        before=number - 1 if number > 1 else None,
        following=number + 1 if number < last else None,
        alone=alone,
        problem=problem,
    )


async def _review(
    request: Request,
    scope: Scope,
    chosen: Sequence[FrozenQuestion] | None,
    what: str,
    *,
    status: int = 200,
    problem: str = "",
) -> Response:
    """Show what is chosen, None for all, as it is now; what has changed or gone since is left out, and counted."""
    groups, _ = await _read(request, scope)
    if chosen is not None:
        wanted = set(chosen)
        groups = grouped(
            entry
            for group in groups
            for entry in group.entries
            if FrozenQuestion(entry.run, entry.id, entry.digest) in wanted
        )
    questions = [question for group in groups for question in group.frozen()]
    return render(
        request,
        "groups_review.html",
        status=status,
        scope=scope,
        tables=await read_tables(client_of(request), [(group, group.entries) for group in groups]),
        what=what,
        total=len(questions),
        left_out=0 if chosen is None else len(set(chosen)) - len(questions),
        seen=number_in(text_of(request.state.form, "seen")) if chosen is None else None,
        selection=json.dumps(questions),
        note=text_of(request.state.form, "note"),
        problem=problem,
    )


async def _read(request: Request, scope: Scope) -> tuple[list[QuestionGroup], list[InboxEntry]]:
    """Return the groups of questions that can be decided together, and those that are each looked at."""
    if scope.name == "run":
        groups = (await read_run(client_of(request), scope.value)).groups
    else:
        group = await read_group(client_of(request), scope.value)
        groups = [] if group is None else [group]
    alone = [entry for group in groups for entry in group.entries if entry.view is not None]
    return [group for group in groups if all(entry.view is None for entry in group.entries)], alone


def _scope(request: Request) -> Scope:
    name, value = text_of(request.state.form, "scope"), text_of(request.state.form, "of")
    if name not in ("group", "run") or not value:
        raise HTTPException(400, "The form does not say which questions it is about.")
    return Scope(name, value)


def _part(groups: Sequence[QuestionGroup], number: int) -> list[tuple[QuestionGroup, Sequence[InboxEntry]]]:
    first, found = (number - 1) * PAGE_ROWS, list[tuple[QuestionGroup, Sequence[InboxEntry]]]()
    for group in groups:
        begin, end = max(first, 0), first + PAGE_ROWS
        if end > 0 and begin < len(group.entries):
            found.append((group, group.entries[begin:end]))
        first -= len(group.entries)
    return found


def _selection(text: str) -> list[FrozenQuestion]:
    """Return the questions that a form names. Raises HTTPException."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list):
        raise HTTPException(400, "The form does not say which questions are chosen.")
    return [_as_question(one) for one in cast("list[Any]", value)]


def _question(value: object) -> FrozenQuestion:
    """Return the question that a ticked box stands for. Raises HTTPException."""
    try:
        return _as_question(json.loads(value if isinstance(value, str) else ""))
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "A ticked box does not say which question it is about.") from error


def _as_question(value: object) -> FrozenQuestion:
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    if len(parts) != len(FrozenQuestion._fields) or not all(isinstance(part, str) for part in parts):
        raise HTTPException(400, "The form does not say which questions are chosen.")
    return FrozenQuestion(*parts)


routes = [
    Route("/groups/{group}", show_group, methods=["GET"]),
    Route("/runs/{run}/approvals", show_run, methods=["GET"]),
    Route("/review", review, methods=["POST"]),
    Route("/decisions", decide, methods=["POST"]),
    Route("/outcomes/{bulk}", show_outcome, methods=["GET"]),
    Route("/outcomes/{bulk}/undo", undo, methods=["POST"]),
]
