"""The page of an approval: the whole call with its background, its decision, and the form to decide."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import LlmDoClient, Question
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember, UndoInput
from llm_do_temporal.policy.kinds.entries import DEFAULT_TIMES
from llm_do_temporal.ui.content.arguments import editable_json, read_object
from llm_do_temporal.ui.content.attachments import shown_attachments
from llm_do_temporal.ui.content.background import read_background
from llm_do_temporal.ui.content.call_parts import difference, parts_of
from llm_do_temporal.ui.content.documents.shown_part import shown_part, shown_parts
from llm_do_temporal.ui.content.last_answer import answered_last, own_address
from llm_do_temporal.ui.content.precedents import precedents_of
from llm_do_temporal.ui.content.questions import (
    SPANS,
    decide,
    grant_of,
    kinds_for,
    question_among,
    question_of,
    text_of,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.staleness import file_now
from llm_do_temporal.ui.pages.attachments import with_documents
from llm_do_temporal.ui.pages.queue import (
    address_after,
    address_again,
    address_in_queue,
    kept_query,
    queue_of,
)
from llm_do_temporal.ui.pages.reviews.review import ReviewStep, show_review, take_review

_KINDS = {"approve": DecisionKind.APPROVE, "reject": DecisionKind.REJECT}


async def show_approval(request: Request) -> Response:
    """Show the question, open or settled."""
    return await _page(request, sent="sent" in request.query_params)


async def show_state(request: Request) -> Response:
    """Show only the state of the question, for a page that is open already."""
    question = await question_of(request)
    return render(request, "state.html", **_state(request, question, sent="sent" in request.query_params))


async def take_decision(request: Request) -> Response:
    """Approve or reject; a review is answered change by change."""
    question, known = await question_among(request)
    if question.request.review is not None:
        return await take_review(request, question, known)
    form = request.state.form
    kind = _KINDS.get(text_of(form, "decision"))
    if kind is None:
        raise HTTPException(400, "A decision is `approve` or `reject`.")
    note, remember = text_of(form, "note").strip(), "remember" in form
    typed = {"note": note, "remember": remember, "kind": kind.value}
    if kind is DecisionKind.REJECT and not note and question.is_open:
        return await _page(request, status=422, problem="Say why: the model is told the reason.", **typed)
    # If others have changed the call, agreeing names the arguments that this page has shown, and no later ones.
    shown = text_of(form, "args") if kind is DecisionKind.APPROVE else ""
    try:
        grant = grant_of(form, question) if kind is DecisionKind.APPROVE else None
    except UsageError as unusable:
        return await _page(request, status=422, problem=_sentence(unusable.message), **typed)
    decision = Decision(
        id=question.id,
        decision=DecisionKind.MODIFY if shown else kind,
        args=read_object(shown) if shown else None,
        digest=text_of(form, "digest") or None,
        note=note,
        remember=Remember.SESSION if remember else Remember.NONE,
        by=request.state.user,
        grant=grant,
    )
    try:
        taken = await decide(request, question, decision)
    except DecisionRefused as refused:
        return await _page(request, status=409, problem=_sentence(refused.message), **typed)
    address = await address_after(request, question, decision.decision, taken=taken)
    return RedirectResponse(address, status_code=303)


async def undo_decision(request: Request) -> Response:
    """Take back the visitor's decision, which has not taken effect, or let it take effect at once."""
    question, form = await question_of(request), request.state.form
    client: LlmDoClient = request.app.state.client
    shown = question.request.digest or None
    undo, is_now = UndoInput(id=question.id, by=request.state.user, digest=shown), text_of(form, "step") == "now"
    address = own_address(text_of(form, "here")) or address_in_queue(request, question.run, question.id)
    try:
        await (client.let_take_effect if is_now else client.undo)(question.run, undo)
    except DecisionRefused as refused:
        if is_now and question.verdict is not None:
            return RedirectResponse(address, status_code=303)
        return await _page(request, status=409, problem=_sentence(refused.message))
    if not is_now and question.held is not None:
        address = address_again(request, question, question.held.vote.decision)
    return RedirectResponse(address, status_code=303)


async def _page(request: Request, *, status: int = 200, **more: Any) -> Response:
    """Return the page of the question that the address names, as it stands now."""
    workshop, client = request.app.state.settings.workshop, request.app.state.client
    question, known = await question_among(request)
    if question.request.review is not None:
        step = ReviewStep(problem=more.get("problem", ""), status=status, is_sent=more.get("sent", False))
        return await show_review(request, question, known, step)
    background, queue, last, parts, now, attachments = await asyncio.gather(
        read_background(client, question),
        queue_of(request, question),
        answered_last(request, {question.run: known}),
        asyncio.to_thread(shown_parts, parts_of(question), question.request),
        asyncio.to_thread(file_now, question, workshop),
        with_documents(request, shown_attachments(question, workshop)),
    )
    context = {"problem": "", "note": "", "remember": False, "kind": "", "sent": False, **more}
    return render(
        request,
        "approval.html",
        status=status,
        parts=parts,
        now=now,
        now_part=None if now is None else shown_part(now.part, str(question.request.args.get("path", ""))),
        attachments=attachments,
        background=background,
        precedents=precedents_of(question, known),
        queue=queue,
        last=last,
        changed=[shown_part(part) for part in _changed(question)],
        kinds=kinds_for(question, known),
        spans=SPANS,
        default_times=DEFAULT_TIMES,
        agreed=editable_json(question.args) if question.args != question.request.args else "",
        **context,
        **_state(request, question),
    )


def _state(request: Request, question: Question, **more: Any) -> dict[str, Any]:
    approvers = question.request.approvers
    barred = bool(approvers) and request.state.user not in approvers
    context = {"question": question, "asked": question.request, "barred": barred, "query": kept_query(request)}
    return {**context, **more}


def _changed(question: Question) -> list[Any]:
    """Return the changes of the arguments by the decision, or by the votes so far."""
    args = question.verdict.args if question.verdict is not None else question.args
    return difference(question.request.args, args)


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + "."


routes = [
    Route("/runs/{run}/approvals/{approval}", show_approval, methods=["GET"]),
    Route("/runs/{run}/approvals/{approval}", take_decision, methods=["POST"]),
    Route("/runs/{run}/approvals/{approval}/state", show_state),
    Route("/runs/{run}/approvals/{approval}/undo", undo_decision, methods=["POST"]),
]
