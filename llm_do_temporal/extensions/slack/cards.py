"""Cards: messages of Slack about one question, or about one run, and the marks by which the door finds them again.

Pictures only. All words of models and people are plain text; the button to the page is the only link.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from llm_do_temporal.client.question_document import QuestionDocument, answer_words, by_words
from llm_do_temporal.doors.values import Run
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.slack.workspace import CARD_EVENT, END_EVENT, CardMark
from llm_do_temporal.messages.approvals import Verdict
from llm_do_temporal.policy.models import cut_words
from llm_do_temporal.policy.notifications import link_to
from llm_do_temporal.redaction.hidden_characters import AS_IT_IS, plain, plain_piece, slack_text, slack_texts

APPROVE, REJECT, OPEN = "llm_do_approve", "llm_do_reject", "llm_do_open"
REASON = "llm_do_reason"
MAX_REASON_CHARS = 3_000
"""Most characters of a reason: as many as Slack lets people type into a field."""
_MOST_PIECES = 4
"""Most texts in which one card shows a call, or an answer: about 8,000 characters."""


def read_mark(value: object) -> CardMark:
    """Return the mark of a button or form. Raises UsageError for what is none."""
    try:
        return CardMark.model_validate_json(value if isinstance(value, str) else "")
    except ValidationError:
        raise UsageError("this button is none of this door's") from None


def mark_of(document: QuestionDocument, *, told: bool = False) -> CardMark:
    """Return the mark of a question as it is now."""
    question, votes = document.question, len(document.answers)
    digest = question.request.digest
    return CardMark(run=question.run, question=question.id, digest=digest, state=document.state, votes=votes, told=told)


def question_card(document: QuestionDocument, asked: str, page: str | None, *, told: bool = False) -> dict[str, Any]:
    """Return the card of a question about the call or the changes `asked`; `page` is the address of the web page.

    It has buttons while the question is open.
    """
    question, mark = document.question, mark_of(document, told=told)
    headline, shown = _headline(document), _pieces(asked)
    about = [_section(question.task)] if question.task else []
    blocks = [_section(headline), *about, _section(question.request.summary), *_sections(shown[0])]
    if not shown[1]:
        blocks.append(_section("… This is not all of it. The page and `llm-do-temporal approvals` show the whole."))
    if document.view is not None and document.can("approve"):
        blocks.append(_section(document.view.elsewhere(question.run)))
    blocks += [_section(_vote(vote)) for vote in document.answers[-10:]]
    circumstances = " · ".join((f"run {question.run} {question.id}", question.request.place, *document.facts))
    blocks.append({"type": "context", "elements": [plain(circumstances)]})
    buttons = _buttons(mark, document, page, is_whole=shown[1])
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return _message(f"{headline}: {question.request.summary}", blocks, CARD_EVENT, mark)


def run_card(run: Run, page: str | None, *, told: bool = False) -> dict[str, Any]:
    """Return the card of a run that was started here."""
    headline = f"{run.worker} was started by {by_words(run.started_by)}: {run.state}"
    blocks = [_section(headline), *([_section(run.task)] if run.task else [])]
    blocks.append({"type": "context", "elements": [plain(f"run {run.run}")]})
    if (link := link_to(page, run.run)) is not None:
        blocks.append({"type": "actions", "elements": [_open(link)]})
    return _message(headline, blocks, CARD_EVENT, CardMark(run=run.run, state=run.state, told=told))


def end_message(run: Run) -> dict[str, Any]:
    """Return what the thread of a run is told at its end: state, result or error, and what was spent."""
    headline = f"{run.worker}: {run.state}"
    words = run.output if isinstance(run.output, str) else json.dumps(run.output, ensure_ascii=False, indent=1)
    if run.error is not None:
        words = run.error.message
    pieces, is_whole = _pieces(words if run.output is not None or run.error is not None else "")
    blocks = [_section(headline), *_sections(pieces)]
    if run.truncated is not None:
        blocks.append(_section(f"The result is not whole: {cut_words(run.truncated)}."))
    if not is_whole:
        blocks.append(_section(f"… `llm-do-temporal result {run.run}` prints the whole."))
    blocks.append({"type": "context", "elements": [plain(_spent(run))]})
    return _message(headline, blocks, END_EVENT, CardMark(run=run.run, state=run.state, told=True))


def reason_form(mark: CardMark, value: str) -> dict[str, Any]:
    """Return the form that asks for the reason of a rejection; `value` comes back with it."""
    field = {"type": "plain_text_input", "action_id": REASON, "multiline": True, "max_length": MAX_REASON_CHARS}
    return {
        "type": "modal",
        "callback_id": REASON,
        "private_metadata": value,
        "title": plain("Reject"),
        "submit": plain("Reject"),
        "close": plain("Cancel"),
        "blocks": [
            _section(f"{mark.question} of run {mark.run}"),
            {"type": "input", "block_id": REASON, "label": plain("Reason, which the worker is told"), "element": field},
        ],
    }


def note(text: str) -> dict[str, Any]:
    """Return a few words of the door as a message."""
    return {"text": slack_text(text), "blocks": [_section(text)], **AS_IT_IS}


def _message(text: str, blocks: list[dict[str, Any]], event: str, mark: CardMark) -> dict[str, Any]:
    metadata = {"event_type": event, "event_payload": mark.model_dump()}
    return {"text": slack_text(text), "blocks": blocks, "metadata": metadata, **AS_IT_IS}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain(text or " ")}


def _sections(pieces: list[str]) -> list[dict[str, Any]]:
    return [{"type": "section", "text": plain_piece(piece)} for piece in pieces if piece.strip()]


def _pieces(text: str) -> tuple[list[str], bool]:
    return slack_texts(text, _MOST_PIECES)


def _buttons(mark: CardMark, document: QuestionDocument, page: str | None, *, is_whole: bool) -> list[dict[str, Any]]:
    buttons: list[dict[str, Any]] = []
    value = mark.model_dump_json(include={"run", "question", "digest"})
    if document.can("approve") and document.view is None:
        approve = {"type": "button", "action_id": APPROVE, "text": plain("Approve"), "value": value}
        unseen = {} if is_whole else {"confirm": _confirmation()}
        buttons.append({**approve, "style": "primary", **unseen})
    if document.can("reject"):
        reject = {"type": "button", "action_id": REJECT, "text": plain("Reject …"), "value": value, "style": "danger"}
        buttons.append(reject)
    if (link := link_to(page, mark.run, mark.question)) is not None:
        buttons.append(_open(link))
    return buttons


def _headline(document: QuestionDocument) -> str:
    """Return what has become of a question, in one line."""
    question, request = document.question, document.question.request
    if document.state == "open":
        return f"{request.worker} asks for approval: {request.tool}"
    call = f"{request.tool} of {request.worker}"
    if document.state == "held":
        return f"{call} is decided, and can still be taken back"
    if document.state == "withdrawn":
        return f"{call} needs no answer any more"
    return f"{document.answer_words}: {call}{f' ({question.undone_words})' if question.again else ''}"


def _vote(vote: Verdict) -> str:
    """Return who has answered what, when and why."""
    return f"{answer_words(vote)} at {vote.at:%Y-%m-%d %H:%M:%S} UTC{f': {vote.note}' if vote.note else ''}"


def _spent(run: Run) -> str:
    """Return what a run has spent."""
    if run.usage is None:
        return f"run {run.run}"
    tokens = f"{run.usage.input_tokens:,} tokens in, {run.usage.output_tokens:,} out"
    cost = "" if run.usage.cost_usd is None else f"${run.usage.cost_usd:f}"
    return " · ".join(filter(None, (f"run {run.run}", f"{run.usage.requests} requests", tokens, cost)))


def _confirmation() -> dict[str, Any]:
    return {
        "title": plain("Approve what is not shown?"),
        "text": plain("This message shows only the beginning of the call."),
        "confirm": plain("Approve all of it"),
        "deny": plain("Cancel"),
    }


def _open(link: str) -> dict[str, Any]:
    return {"type": "button", "action_id": OPEN, "text": plain("Open"), "url": link}
