"""The page of an approval: the whole call, its decision, and the form to decide."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.ui.content.attachments import shown_attachments
from llm_do_temporal.ui.content.call_parts import difference, parts_of
from llm_do_temporal.ui.content.forms import editable_json, read_object
from llm_do_temporal.ui.content.questions import decide, question_of, text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.staleness import file_now
from llm_do_temporal.ui.content.urls import approval_address

_KINDS = {"approve": DecisionKind.APPROVE, "reject": DecisionKind.REJECT}


async def show_approval(request: Request) -> Response:
    """Show the question, open or settled."""
    question = await question_of(request)
    return await _page(request, question, sent="sent" in request.query_params)


async def show_state(request: Request) -> Response:
    """Show only the state of the question, for a page that is open already."""
    question = await question_of(request)
    return render(request, "state.html", **_state(request, question, sent="sent" in request.query_params))


async def take_decision(request: Request) -> Response:
    """Approve or reject."""
    question = await question_of(request)
    form = request.state.form
    kind = _KINDS.get(text_of(form, "decision"))
    if kind is None:
        raise HTTPException(400, "A decision is `approve` or `reject`.")
    note, remember = text_of(form, "note").strip(), "remember" in form
    typed = {"note": note, "remember": remember, "kind": kind.value}
    if kind is DecisionKind.REJECT and not note and question.is_open:
        return await _page(request, question, status=422, problem="Say why: the model is told the reason.", **typed)
    # If others have changed the call, agreeing names the arguments that this page has shown, and no later ones.
    shown = text_of(form, "args") if kind is DecisionKind.APPROVE else ""
    decision = Decision(
        id=question.id,
        decision=DecisionKind.MODIFY if shown else kind,
        args=read_object(shown) if shown else None,
        digest=text_of(form, "digest") or None,
        note=note,
        remember=Remember.SESSION if remember else Remember.NONE,
        by=request.state.user,
    )
    try:
        taken = await decide(request, question, decision)
    except DecisionRefused as refused:
        now = await question_of(request)
        return await _page(request, now, status=409, problem=_sentence(refused.message), **typed)
    return RedirectResponse(decided_address(question, taken=taken), status_code=303)


def decided_address(question: Question, *, taken: bool) -> str:
    """Return the address to go to after a decision; `taken` is False until a worker service has it."""
    return approval_address(question.run, question.id) + ("" if taken else "?sent")


async def _page(request: Request, question: Question, *, status: int = 200, **more: Any) -> Response:
    workshop = request.app.state.settings.workshop
    context = {"problem": "", "note": "", "remember": False, "kind": "", "sent": False, **more}
    return render(
        request,
        "approval.html",
        status=status,
        parts=parts_of(question),
        now=await asyncio.to_thread(file_now, question, workshop),
        attachments=shown_attachments(question, workshop),
        changed=_changed(question),
        agreed=editable_json(question.args) if question.args != question.request.args else "",
        **context,
        **_state(request, question),
    )


def _state(request: Request, question: Question, **more: Any) -> dict[str, Any]:
    approvers = question.request.approvers
    barred = bool(approvers) and request.state.user not in approvers
    return {"question": question, "asked": question.request, "barred": barred, **more}


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
]
