"""The pages to edit a call before it is approved: a form or YAML, then the difference, then the decision.

Only the form carries values from step to step; every step checks them all again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llm_do_temporal.client import Question
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.json_schema import schema_problems
from llm_do_temporal.messages.approvals import Decision, DecisionKind, Remember
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.ui.content.arguments import editable_json, editable_yaml, read_arguments
from llm_do_temporal.ui.content.call_parts import difference
from llm_do_temporal.ui.content.documents.shown_part import shown_part
from llm_do_temporal.ui.content.forms import Field, fields_of, read_fields, with_problems
from llm_do_temporal.ui.content.questions import decide, question_of, text_of
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.content.urls import approval_address
from llm_do_temporal.ui.pages.queue import address_after, inbox_address, kept_query


@dataclass
class Edited:
    """Arguments as a person has edited them so far."""

    args: dict[str, Any]
    fields: list[Field]
    raw: str
    problems: list[str] = field(default_factory=list[str])


async def show_form(request: Request) -> Response:
    """Show the arguments as they are now, to be changed."""
    question = await question_of(request)
    if not _is_changeable(question):
        return RedirectResponse(approval_address(question.run, question.id), status_code=303)
    args = question.args
    edited = _anew(question, args)
    return _page(request, question, edited, raw="raw" in request.query_params)


async def take_form(request: Request) -> Response:
    """Take a step: to the other form, to the difference, or to the decision."""
    question = await question_of(request)
    if not _is_changeable(question):
        return RedirectResponse(approval_address(question.run, question.id), status_code=303)
    form = request.state.form
    step, raw = text_of(form, "step"), text_of(form, "mode") == "raw"
    edited = _read(question, form, raw=raw)
    if step in ("form", "raw"):
        if edited.problems:
            return _page(request, question, edited, raw=raw, status=422)
        return _page(request, question, _anew(question, edited.args), raw=step == "raw")
    if not edited.problems:
        edited.fields, edited.problems = with_problems(edited.fields, schema_problems(_schema(question), edited.args))
    # After a vote for a change, sending that again agrees, and the call as it was asked takes it back.
    if not edited.problems and edited.args == question.request.args == question.args:
        edited.problems.append("nothing was changed")
    if edited.problems:
        return _page(request, question, edited, raw=raw, status=422)
    if step != "send":
        return _review(request, question, edited.args)
    return await _send(request, question, edited.args)


async def _send(request: Request, question: Question, args: dict[str, Any]) -> Response:
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
        taken = await decide(request, question, decision)
    except DecisionRefused as refused:
        return _review(request, await question_of(request), args, problem=refused.message, status=409)
    address = await address_after(request, question, DecisionKind.MODIFY, taken=taken)
    return RedirectResponse(address, status_code=303)


def _read(question: Question, form: FormData, *, raw: bool) -> Edited:
    """Return the arguments of a sent form, of either kind."""
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


def _page(request: Request, question: Question, edited: Edited, *, raw: bool, status: int = 200) -> Response:
    digest = _shown_digest(request, question)
    shown: dict[str, Any] = {"question": question, "edited": edited, "raw": raw, "digest": digest, **_places(request)}
    return render(request, "edit.html", status=status, **shown)


def _places(request: Request) -> dict[str, Any]:
    return {"inbox": inbox_address(request), "query": kept_query(request)}


def _shown_digest(request: Request, question: Question) -> str:
    """Return the digest of the question that was shown when editing began."""
    form = getattr(request.state, "form", None)
    return question.request.digest if form is None else text_of(form, "digest")


def _review(
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
        digest=_shown_digest(request, question),
    )


def _file_of(question: Question) -> str:
    """Return the path of the file that a call is about; empty if it is about none."""
    request = question.request
    return str(request.args.get("path", "")) if request.tool in PATH_TOOLS else ""


def _is_changeable(question: Question) -> bool:
    """Whether the call can be changed here; a review has a page of its own for that."""
    return question.is_open and question.request.args_schema is not None and question.request.review is None


def _schema(question: Question) -> dict[str, Any]:
    return question.request.args_schema or {}


_ADDRESS = "/runs/{run}/approvals/{approval}/edit"
routes = [Route(_ADDRESS, show_form, methods=["GET"]), Route(_ADDRESS, take_form, methods=["POST"])]
