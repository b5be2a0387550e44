"""The pages of an approval: the call with its background and the form to decide, its edit, and remembered decisions.

Only the form carries edited arguments from step to step; every step checks them all again.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.client.question_document import precedents_of, read_background
from llm_do_temporal.client.views.run_list import read_run
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.extension import view_of
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.policy.kinds.kind import DEFAULT_TIMES
from llm_do_temporal.ui.content.forms import (
    Field,
    editable_json,
    editable_yaml,
    fields_of,
    read_arguments,
    read_fields,
    read_object,
    with_problems,
)
from llm_do_temporal.ui.content.question_parts import difference, file_now, parts_of, shown_part, shown_parts
from llm_do_temporal.ui.content.questions import (
    SPANS,
    answered_last,
    grant_of,
    kinds_for,
    question_among,
    question_of,
    text_of,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import approval_address, grants_address
from llm_do_temporal.ui.pages.attachments import shown_attachments, with_documents
from llm_do_temporal.ui.pages.inbox import address_again, decided, inbox_address, kept_query, queue_of
from llm_do_temporal.ui.requests import client_of, is_barred, see_other, sentence, settings_of

_KINDS = {"approve": DecisionKind.APPROVE, "reject": DecisionKind.REJECT}


async def show_approval(request: Request) -> Response:
    """Show the question, open or settled."""
    return await _page(request, sent="sent" in request.query_params)


async def show_state(request: Request) -> Response:
    """Show only the state of the question, for a page that is open already."""
    question = await question_of(request)
    return render(request, "state.html", **_state(request, question, sent="sent" in request.query_params))


async def take_decision(request: Request) -> Response:
    """Approve or reject, or take the answer to what a capability asks."""
    question, known = await question_among(request)
    view = view_of(question.request)
    taken = None if view is None else await view.take(request, question, known)
    if taken is not None:
        return taken
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
        return await _page(request, status=422, problem=sentence(unusable), **typed)
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
        return await decided(request, question, decision)
    except DecisionRefused as refused:
        return await _page(request, status=409, problem=sentence(refused), **typed)


async def undo_decision(request: Request) -> Response:
    """Take back the visitor's decision, which has not taken effect."""
    question = await question_of(request)
    digest = question.request.digest or None
    undo = Decision(id=question.id, decision=None, by=request.state.user, digest=digest)
    try:
        await client_of(request).decide(question.run, undo)
    except DecisionRefused as refused:
        return await _page(request, status=409, problem=sentence(refused))
    return see_other(address_again(request, question))


async def _page(request: Request, *, status: int = 200, **more: Any) -> Response:
    workshop, client = settings_of(request).workshop, client_of(request)
    question, known = await question_among(request)
    view = view_of(question.request)
    special = None if view is None else await view.page(request, question, known, status=status, **more)
    if special is not None:
        return special
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
    barred, query = is_barred(request, question), kept_query(request)
    return {"question": question, "asked": question.request, "barred": barred, "query": query, **more}


def _changed(question: Question) -> list[Any]:
    args = question.verdict.args if question.verdict is not None else question.args
    return difference(question.request.args, args)


@dataclass
class Edited:
    """Arguments as a person has edited them so far."""

    args: dict[str, Any]
    fields: list[Field]
    raw: str
    problems: list[str] = field(default_factory=list[str])


async def show_edit(request: Request) -> Response:
    """Show the arguments as they are now, to be changed."""
    question = await question_of(request)
    if not _is_changeable(question):
        return see_other(approval_address(question.run, question.id))
    return _edit_page(request, question, _anew(question, question.args), raw="raw" in request.query_params)


async def take_edit(request: Request) -> Response:
    """Take a step: to the other form, to the difference, or to the decision."""
    question = await question_of(request)
    if not _is_changeable(question):
        return see_other(approval_address(question.run, question.id))
    form = request.state.form
    step, raw = text_of(form, "step"), text_of(form, "mode") == "raw"
    edited = _edited(question, form, raw=raw)
    if step in ("form", "raw"):
        if edited.problems:
            return _edit_page(request, question, edited, raw=raw, status=422)
        return _edit_page(request, question, _anew(question, edited.args), raw=step == "raw")
    if not edited.problems:
        edited.fields, edited.problems = with_problems(edited.fields, schema_problems(_schema(question), edited.args))
    # After a vote for a change, sending that again agrees, and the call as it was asked takes it back.
    if not edited.problems and edited.args == question.request.args == question.args:
        edited.problems.append("nothing was changed")
    if edited.problems:
        return _edit_page(request, question, edited, raw=raw, status=422)
    if step != "send":
        return _difference_page(request, question, edited.args)
    return await _send_edit(request, question, edited.args)


async def _send_edit(request: Request, question: Question, args: dict[str, Any]) -> Response:
    form: FormData = request.state.form
    decision = Decision(
        id=question.id,
        decision=DecisionKind.MODIFY,
        args=args,
        digest=text_of(form, "digest") or None,
        note=text_of(form, "note").strip(),
        remember=Remember.SESSION if "remember" in form else Remember.NONE,
        by=request.state.user,
    )
    try:
        return await decided(request, question, decision)
    except DecisionRefused as refused:
        return _difference_page(request, await question_of(request), args, problem=refused.message, status=409)


def _edited(question: Question, form: FormData, *, raw: bool) -> Edited:
    schema = _schema(question)
    if raw:
        text = text_of(form, "raw")
        try:
            args = read_arguments(text)
        except UsageError as error:
            return Edited({}, [], text, [error.message])
        return Edited(args, fields_of(schema, args), text)
    sent = {name: value for name, value in form.items() if isinstance(value, str)}
    args, fields = read_fields(schema, question.args, sent)
    problems = [f"{each.name}: {each.problem}" for each in fields if each.problem]
    return Edited(args, fields, editable_yaml(args), problems)


def _anew(question: Question, args: dict[str, Any]) -> Edited:
    return Edited(args, fields_of(_schema(question), args), editable_yaml(args))


def _edit_page(request: Request, question: Question, edited: Edited, *, raw: bool, status: int = 200) -> Response:
    # That of the question which was shown when editing began.
    digest = text_of(request.state.form, "digest") if hasattr(request.state, "form") else question.request.digest
    shown: dict[str, Any] = {"question": question, "edited": edited, "raw": raw, "digest": digest, **_places(request)}
    return render(request, "edit.html", status=status, **shown)


def _places(request: Request) -> dict[str, Any]:
    return {"inbox": inbox_address(request), "query": kept_query(request)}


def _difference_page(
    request: Request, question: Question, args: dict[str, Any], *, problem: str = "", status: int = 200
) -> Response:
    form: FormData = request.state.form
    return render(
        request,
        "review.html",
        status=status,
        question=question,
        changed=[shown_part(part, _file_of(question)) for part in difference(question.request.args, args)],
        raw=editable_json(args),
        **_places(request),
        note=text_of(form, "note"),
        remember="remember" in form,
        problem=problem,
        digest=text_of(form, "digest"),
    )


def _file_of(question: Question) -> str:
    """Return the path of the file that a call is about; empty if it is about none."""
    request = question.request
    return str(request.args.get("path", "")) if request.tool in PATH_TOOLS else ""


def _is_changeable(question: Question) -> bool:
    """Whether the call can be changed here; what a capability asks has a page of its own for that."""
    return question.is_open and question.request.args_schema is not None and question.request.extension is None


def _schema(question: Question) -> dict[str, Any]:
    return question.request.args_schema or {}


async def show_grants(request: Request) -> Response:
    """Show the remembered decisions that are in force."""
    run = request.path_params["run"]
    client = client_of(request)
    grants = await client.grants(run)
    listed = await read_run(client.temporal, run)
    return render(
        request,
        "grants.html",
        run=run,
        grants=[(grant, json.loads(grant.canonical_args)[0]) for grant in grants],
        task=listed.task,
        ended=listed.ended_at is not None,
        revoked="revoked" in request.query_params,
    )


async def revoke_grant(request: Request) -> Response:
    """Take a decision back: identical calls are asked about again."""
    run, approval = request.path_params["run"], text_of(request.state.form, "approval")
    await client_of(request).revoke(run, approval, by=request.state.user)
    return see_other(f"{grants_address(run)}?revoked")


_EDIT = "/runs/{run}/approvals/{approval}/edit"
routes = [
    Route("/runs/{run}/approvals/{approval}", show_approval, methods=["GET"]),
    Route("/runs/{run}/approvals/{approval}", take_decision, methods=["POST"]),
    Route("/runs/{run}/approvals/{approval}/state", show_state),
    Route("/runs/{run}/approvals/{approval}/undo", undo_decision, methods=["POST"]),
    Route(_EDIT, show_edit, methods=["GET"]),
    Route(_EDIT, take_edit, methods=["POST"]),
    Route("/runs/{run}/grants", show_grants, methods=["GET"]),
    Route("/runs/{run}/grants", revoke_grant, methods=["POST"]),
]
