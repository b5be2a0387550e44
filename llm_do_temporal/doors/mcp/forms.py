"""Forms in which a client asks its person about a call, and the answers that come back.

A form names what it shows by the question's digest, which comes back with the answer: nothing is kept in between.
"""

from __future__ import annotations

import json

import mcp_types as types

from llm_do_temporal.doors.forms import form_schema
from llm_do_temporal.doors.values import AskedQuestion
from llm_do_temporal.redaction.hidden_characters import made_visible

MAX_SHOWN_CHARS = 4_000
"""Most characters of arguments in a form; the page shows all of them."""


def key_of(question: AskedQuestion) -> str:
    """Return the name of a form: the question, and what was shown."""
    return f"{question.id}:{question.digest}"


def read_key(key: str) -> tuple[str, str]:
    """Return the id of the question and the digest of what was shown. Both are a stranger's words until compared."""
    question, _, digest = key.partition(":")
    return question, digest


def form_of(question: AskedQuestion, page: str | None) -> types.ElicitRequest:
    """Return the form; `page` is the address of the web page, None where none is known."""
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message_of(question, page), requested_schema=form_schema(question))
    )


def message_of(question: AskedQuestion, page: str | None) -> str:
    """Return what a person reads: the call, who wants it, and where all of it can be seen; nothing in it is hidden."""
    shown = made_visible(json.dumps(question.args, ensure_ascii=False, indent=1))
    wanted = f"'{question.worker}' ({question.path}) in run '{question.run}' wants: {question.summary}"
    lines = [made_visible(wanted, keep=""), ""]
    lines.append(shown[:MAX_SHOWN_CHARS])
    if len(shown) > MAX_SHOWN_CHARS or question.diff or question.is_review:
        lines += ["", f"This is not all of it. {_whole(question, page)}"]
    return "\n".join(lines)


def _whole(question: AskedQuestion, page: str | None) -> str:
    if page is None:
        return f"See `llm-do-temporal approvals {question.run} {question.id}`."
    return f"See {page}/runs/{question.run}/approvals/{question.id}"
